"""Reading what is appended: whole lines, once, in order, whatever becomes of the file."""

import os
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tocsin.gateways.files.positions import Position
from tocsin.gateways.files.reading import Item, Outbox

LINES_MAX, BYTES_MAX = 4, 200


class Reader:
    """An outbox, and how far it has been read."""

    def __init__(self, root: Path, timeout_s: float = 1000) -> None:
        self.root = root
        self.folder = root / "bob_to_ada"
        self.folder.mkdir(mode=0o700, exist_ok=True)
        self.path = self.folder / "messages.ndjson"
        self.opened = os.open(root, os.O_RDONLY)
        self.timeout_s = timeout_s
        self.position = Position()
        self.restart()

    def restart(self) -> None:
        """Forget all but the position, as a restart of the hub does."""
        self.outbox = Outbox(self.opened, "bob_to_ada", os.geteuid(), partial_line_timeout_s=self.timeout_s)

    def append(self, data: bytes) -> None:
        with self.path.open("ab") as file:
            file.write(data)

    def look(self, take: int | None = None) -> list[Item]:
        """Look once, and take some of what was found."""
        items = self.outbox.read(self.position, LINES_MAX, BYTES_MAX).items[:take]
        if items:
            self.position = items[-1].after
        return items

    def all(self) -> list[Item]:
        found: list[Item] = []
        while items := self.look():
            found += items
        return found

    def lines(self) -> list[bytes]:
        return [item.line for item in self.all() if item.line]

    def faults(self) -> list[str]:
        return [item.fault.code for item in self.all() if item.fault is not None]


@pytest.fixture
def reader(tmp_path: Path) -> Iterator[Reader]:
    made = Reader(tmp_path)
    yield made
    os.close(made.opened)


def test_nothing_is_there_before_the_file_is(reader: Reader) -> None:
    assert reader.all() == []


def test_a_line_counts_when_its_newline_is_there(reader: Reader) -> None:
    text = b'{"text": "one"}\n'
    for byte in range(len(text) - 1):
        reader.append(text[byte : byte + 1])
        assert reader.all() == []
    reader.append(text[-1:])
    assert reader.lines() == [text[:-1]]
    assert reader.all() == []


def test_a_line_of_the_greatest_length_is_taken_and_a_longer_one_passed_over(reader: Reader) -> None:
    reader.append(b"a" * BYTES_MAX + b"\n" + b"b" * (BYTES_MAX + 1) + b"\n" + b"c" * 5 * BYTES_MAX + b"\nd\n")
    found = reader.all()
    assert [item.line for item in found if item.line] == [b"a" * BYTES_MAX, b"d"]
    assert [item.fault.code for item in found if item.fault] == ["E_VALIDATION_005"] * 2


def test_a_line_whose_end_does_not_come_is_passed_over(tmp_path: Path) -> None:
    reader = Reader(tmp_path, timeout_s=0)
    reader.append(b"whole\npart")
    assert [(item.line, item.fault and item.fault.code) for item in reader.all()] == [
        (b"whole", None),
        (b"", "E_PROTOCOL_002"),
    ]
    reader.append(b" of a line\nnext\n")
    assert reader.lines() == [b"next"]
    os.close(reader.opened)


def test_a_renamed_file_is_read_to_its_end_first(reader: Reader) -> None:
    reader.append(b"1\n2\n3\n")
    reader.look(take=1)
    reader.path.rename(reader.folder / "old")
    assert [item.line for item in reader.look(take=1)] == [b"2"]
    reader.append(b"4\n")
    reader.restart()
    assert reader.lines() == [b"3", b"4"]
    assert reader.position.generation == 1


def test_a_renamed_file_may_still_grow(reader: Reader) -> None:
    reader.append(b"1\n")
    assert reader.lines() == [b"1"]
    reader.path.rename(reader.folder / "old")
    with (reader.folder / "old").open("ab") as old:
        old.write(b"2")
        old.flush()
        reader.append(b"4\n")
        assert reader.lines() == []
        old.write(b"3\n")
    assert reader.lines() == [b"23", b"4"]


def test_an_emptied_file_is_read_from_its_beginning(reader: Reader) -> None:
    reader.append(b"one\ntwo\n")
    assert reader.lines() == [b"one", b"two"]
    os.truncate(reader.path, 0)
    assert reader.all() == []
    reader.append(b"three\nfour and more than before\n")
    assert reader.lines() == [b"three", b"four and more than before"]
    assert reader.position.generation == 1


@pytest.mark.parametrize("size", range(1, 12))
def test_a_file_that_was_cut_is_told_of_and_read_on_at_its_end(reader: Reader, size: int) -> None:
    reader.append(b"one\ntwo\nfour\n")
    assert reader.lines() == [b"one", b"two", b"four"]
    reader.position = _with_short_head(reader.position)
    os.truncate(reader.path, size)
    assert reader.faults() == ["E_PROTOCOL_002"]
    reader.append(b"rest\nnew\n")
    assert reader.lines()[-1] == b"new"
    assert reader.faults() == []


def _with_short_head(position: Position) -> Position:
    """Remember the first byte only, as of a file that is long compared to its head."""
    from hashlib import blake2b

    import msgspec

    head = blake2b(b"o", digest_size=12).hexdigest()
    return msgspec.structs.replace(position, head=head, head_bytes=1)


def test_a_copy_is_the_same_file(reader: Reader) -> None:
    reader.append(b"one\ntwo\n")
    assert reader.lines() == [b"one", b"two"]
    data = reader.path.read_bytes()
    (reader.folder / "copy").write_bytes(data + b"three\n")
    (reader.folder / "copy").rename(reader.path)
    assert reader.lines() == [b"three"]
    assert reader.position.generation == 0


def test_a_file_replaced_with_some_of_it_unread_is_told_of(reader: Reader) -> None:
    reader.append(b"one\ntwo\n")
    reader.look(take=1)
    (reader.folder / "new").write_bytes(b"three\n")
    (reader.folder / "new").rename(reader.path)
    found = reader.all()
    assert [item.fault.code for item in found if item.fault] == ["E_PROTOCOL_002"]
    assert [item.line for item in found if item.line] == [b"three"]


def test_a_replaced_file_that_was_read_is_no_fault(reader: Reader) -> None:
    reader.append(b"one\ntwo\n")
    assert reader.lines() == [b"one", b"two"]
    (reader.folder / "new").write_bytes(b"three\n")
    (reader.folder / "new").rename(reader.path)
    assert reader.lines() == [b"three"]


STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("append"), st.binary(max_size=60)),
        st.tuples(st.just("take"), st.integers(1, LINES_MAX)),
        st.tuples(st.just("restart"), st.none()),
        st.tuples(st.just("rename"), st.none()),
    ),
    max_size=30,
)


@settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(steps=STEPS)
def test_every_line_is_read_once_and_in_order(tmp_path: Path, steps: list[tuple[str, object]]) -> None:
    """Any bytes, appended in any pieces, with restarts and renames between: exactly the whole lines come out."""
    root = tmp_path / os.urandom(8).hex()
    root.mkdir()
    reader = Reader(root)
    said, heard = b"", []
    renames = 0
    for step, argument in steps:
        match step, argument:
            case "append", bytes(data):
                reader.append(data)
                said += data
            case "take", int(count):
                heard += [item.line for item in reader.look(take=count)]
            case "restart", _:
                reader.restart()
            case "rename", _ if reader.path.exists() and said.endswith(b"\n") and reader.position.inode:
                while items := reader.look():
                    heard += [item.line for item in items]
                reader.path.rename(reader.folder / f"old{renames}")
                renames += 1
    heard += [item.line for item in reader.all()]
    os.close(reader.opened)
    assert heard == said.split(b"\n")[:-1]
