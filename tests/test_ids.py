"""Random ids have the protocol's form and do not repeat."""

import re

from tocsin.ids import RandomIds


def test_an_id_has_the_form_of_the_protocol() -> None:
    fresh = RandomIds().fresh("msg", 1_762_943_445_123_456)
    assert re.fullmatch(r"msg_20251112_103045_[0-9a-f]{12}", fresh)


def test_ids_do_not_repeat() -> None:
    ids = RandomIds()
    assert len({ids.fresh("msg", 0) for _ in range(1000)}) == 1000
