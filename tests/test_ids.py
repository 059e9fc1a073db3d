"""Random ids have the protocol's form and do not repeat."""

import os
import re

from tocsin.ids import RandomIds


def test_an_id_has_the_form_of_the_protocol() -> None:
    fresh = RandomIds().fresh("msg", 1_762_943_445_123_456)
    assert re.fullmatch(r"msg_20251112_103045_[0-9a-f]{12}", fresh)


def test_ids_do_not_repeat() -> None:
    ids = RandomIds()
    assert len({ids.fresh("msg", 0) for _ in range(1000)}) == 1000


def test_a_fork_does_not_give_the_same_ids() -> None:
    ids = RandomIds()
    ids.fresh("msg", 1)  # some more are drawn already
    reading, writing = os.pipe()
    child = os.fork()
    if not child:
        os.write(writing, ids.fresh("msg", 1).encode())
        os._exit(0)
    os.waitpid(child, 0)
    os.close(writing)
    with os.fdopen(reading, "rb") as told:
        assert told.read().decode() != ids.fresh("msg", 1)


def test_the_moment_is_the_one_of_each_id() -> None:
    ids = RandomIds()
    moments = [ids.fresh("msg", second * 1_000_000).split("_")[2] for second in (0, 1, 1, 0)]
    assert moments == ["000000", "000001", "000001", "000000"]
