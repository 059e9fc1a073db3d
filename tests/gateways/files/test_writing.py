"""Lines of the hub's own: each exactly once, in order, whatever was torn, rotated or put in the way."""

import json
import os
import time
from pathlib import Path

import msgspec
import pytest

from tests.gateways.files.channels import lines_of
from tocsin.gateways.files.writing import ChannelWriter, Line, numbered
from tocsin.hub.config import Channels, load_config

CONFIG = load_config().channels


def event(seq: int, folder: str = "ada_to_bob", padding: int = 0, journal: str = "this") -> Line:
    metadata = json.loads(numbered(b"{}", journal, seq))
    data = json.dumps({"messageId": f"msg_{seq}_x", "metadata": metadata, "payload": "é" * padding}).encode()
    return Line(folder, "messages.ndjson", data, seq)


def answer(key: str) -> Line:
    data = json.dumps({"messageId": key, "metadata": {}}).encode()
    return Line("ada_to_bob", "messages.ndjson", data, key=key)


def config(**changes: object) -> Channels:
    return msgspec.structs.replace(CONFIG, **changes)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "channels" / "ada_to_bob" / "messages.ndjson"


def write(
    path: Path, lines: list[Line], settings: Channels = CONFIG, journal: str = "this", last_seq: int = 1000
) -> dict[str, str]:
    """Write as a hub does that has just started."""
    writer = ChannelWriter(path.parent.parent, settings, journal, lambda: last_seq)
    try:
        return writer.append(lines)
    finally:
        writer.close()


def ids(path: Path) -> list[str]:
    return [line["messageId"] for line in lines_of(path)]


def test_metadata_keeps_what_it_had() -> None:
    assert json.loads(numbered(b'{"tags": ["a"]}', "x", 7)) == {"tags": ["a"], "journalId": "x", "journalSeq": 7}


def test_what_is_written_is_readable_by_the_hubs_user_only(path: Path) -> None:
    write(path, [event(1)])
    assert path.stat().st_mode & 0o777 == 0o600
    assert path.parent.stat().st_mode & 0o777 == 0o700


def test_a_group_may_read_where_it_is_named(path: Path) -> None:
    write(path, [event(1)], config(group=os.getegid()))
    assert path.stat().st_mode & 0o777 == 0o640
    assert path.parent.stat().st_mode & 0o777 == 0o750


def test_torn_at_every_byte_each_line_is_there_once(path: Path) -> None:
    """A crash leaves any beginning of what was being written; the same lines are handed over again."""
    write(path, [event(1), answer("msg_nack_1")])
    before = path.stat().st_size
    lines = [event(2, padding=3), answer("msg_nack_2"), event(3), answer("msg_nack_3")]
    write(path, lines)
    whole = path.read_bytes()
    for size in range(before, len(whole) + 1):
        path.write_bytes(whole[:size])
        write(path, lines)
        assert path.read_bytes() == whole, size


def test_zeros_that_a_power_cut_left_are_cut_off(path: Path) -> None:
    write(path, [event(1)])
    with path.open("ab") as file:
        file.write(bytes(100) + b"\n" + bytes(10))
    write(path, [event(1), event(2)])
    assert ids(path) == ["msg_1_x", "msg_2_x"]


def test_a_line_that_says_nothing_of_its_place_is_kept(path: Path) -> None:
    """A receipt of a line without an id, and whatever else is JSON: only what is torn is cut off."""
    odd = [b'{"receiptId": "r1", "messageId": null}', b'{"messageId": 3}', b'["no object"]', b"null"]
    for number, data in enumerate(odd):
        write(path, [Line("ada_to_bob", "messages.ndjson", data, key=f"odd{number}")])
    write(path, [event(1)])
    assert path.read_bytes().splitlines()[: len(odd)] == odd
    write(path, [Line("ada_to_bob", "messages.ndjson", odd[0], key="r1"), event(2)])
    assert len(path.read_bytes().splitlines()) == len(odd) + 2


def test_a_tail_longer_than_a_block_is_found(path: Path) -> None:
    write(path, [event(1, padding=100_000), event(2, padding=100_000)])
    write(path, [event(1, padding=100_000), event(2, padding=100_000), event(3)])
    assert ids(path) == ["msg_1_x", "msg_2_x", "msg_3_x"]


def test_a_full_file_is_renamed_and_the_names_sort(path: Path) -> None:
    small = config(rotate_bytes=300)
    for seq in range(1, 10):
        write(path, [event(seq)], small)
    assert len(list(path.parent.glob("messages.2*.ndjson"))) > 1
    assert ids(path) == [f"msg_{seq}_x" for seq in range(1, 10)]
    for seq in range(1, 11):
        write(path, [event(seq)], small)
    assert ids(path) == [f"msg_{seq}_x" for seq in range(1, 11)]


def test_names_sort_even_if_the_clock_goes_back(path: Path) -> None:
    small = config(rotate_bytes=1)
    write(path, [event(1)], small)
    write(path, [event(2)], small)
    [first] = path.parent.glob("messages.2*.ndjson")
    first.rename(path.parent / "messages.29981231T235959.999999Z.ndjson")
    write(path, [event(3)], small)
    assert ids(path) == ["msg_1_x", "msg_2_x", "msg_3_x"]


def test_an_empty_file_goes_on_where_the_renamed_one_ended(path: Path) -> None:
    """A crash between renaming a file and writing to the new one."""
    write(path, [event(1), event(2)])
    path.rename(path.parent / "messages.20260101T000000.000000Z.ndjson")
    write(path, [event(2), event(3)])
    assert ids(path) == ["msg_1_x", "msg_2_x", "msg_3_x"]


def test_a_file_of_another_day_is_renamed(path: Path) -> None:
    write(path, [event(1)])
    yesterday = time.time() - 86_400
    os.utime(path, (yesterday, yesterday))
    write(path, [event(2)])
    assert len(path.read_bytes().splitlines()) == 1
    assert ids(path) == ["msg_1_x", "msg_2_x"]


def test_renamed_files_are_kept_for_their_time(path: Path) -> None:
    small = config(rotate_bytes=1, keep_s=1000)
    for seq in (1, 2, 3):
        write(path, [event(seq)], small)
    oldest = min(path.parent.glob("messages.2*.ndjson"))
    os.utime(oldest, (0, 0))
    write(path, [event(4)], small)
    assert ids(path) == ["msg_2_x", "msg_3_x", "msg_4_x"]


def test_a_squatted_directory_is_told_of_and_the_others_are_written(path: Path) -> None:
    root = path.parent.parent
    root.mkdir()
    (root / "elsewhere").mkdir()
    (root / "eve_to_bob").symlink_to(root / "elsewhere")
    unsound = write(path, [event(1), event(2, "eve_to_bob"), event(3)])
    assert list(unsound) == ["eve_to_bob"]
    assert ids(path) == ["msg_1_x", "msg_3_x"]
    assert list((root / "elsewhere").iterdir()) == []


def test_a_file_in_the_way_is_told_of(path: Path) -> None:
    path.parent.mkdir(parents=True)
    os.mkfifo(path)
    assert list(write(path, [event(1)])) == ["ada_to_bob"]


def test_the_ends_of_only_so_many_files_are_remembered(path: Path) -> None:
    writer = ChannelWriter(path.parent.parent, config(tails_max=2), "this", lambda: 1000)
    folders = [f"a{number}_to_b" for number in range(5)]
    for seq in (1, 2):
        for folder in folders:
            writer.append([event(seq, folder)])
            assert writer.remembered <= 2
    writer.append([event(1, folder) for folder in folders])
    writer.close()
    for folder in folders:
        assert ids(path.parent.parent / folder / "messages.ndjson") == ["msg_1_x", "msg_2_x"]


@pytest.mark.parametrize("renamed", [False, True])
def test_the_numbers_of_another_journal_say_nothing(path: Path, renamed: bool) -> None:
    """A project that begins anew beside the channels of an earlier one loses no line."""
    write(path, [event(seq, journal="other") for seq in (1, 2, 3)], journal="other")
    if renamed:
        path.rename(path.parent / "messages.20260101T000000.000000Z.ndjson")
    for _ in range(2):
        write(path, [event(2)])
    write(path, [event(2), event(3)])
    assert ids(path) == ["msg_1_x", "msg_2_x", "msg_3_x", "msg_2_x", "msg_3_x"]


def test_a_tail_ahead_of_the_journal_is_not_believed(path: Path) -> None:
    """A journal that was put back to an earlier state uses numbers again."""
    write(path, [event(seq) for seq in (1, 2, 3)])
    write(path, [event(2)], last_seq=2)
    assert ids(path) == ["msg_1_x", "msg_2_x", "msg_3_x", "msg_2_x"]
