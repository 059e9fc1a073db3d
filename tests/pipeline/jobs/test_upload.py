"""Copying segments to S3: each once, in parts, again after an interruption; and by the command."""

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner

from tests.pipeline.test_message_life import STORY
from tests.pipeline.traffic import write_segment
from tocsin.cli.commands import app
from tocsin.cli.remote import Exit
from tocsin.pipeline.errors import UploadIncomplete
from tocsin.pipeline.jobs.upload import Uploaded, upload_segments
from tocsin.pipeline.lake.storage import Storage, open_storage


@pytest.fixture
def segments(tmp_path: Path) -> list[Path]:
    """Three segments of a data directory, with a file beside them that is not finished."""
    zone = tmp_path / "data" / "segments"
    written = [write_segment(zone, "p", first, STORY[:2]) for first in (1, 3, 5)]
    (written[0].parent / ".cutting-7-abcd").write_bytes(b"?")
    return written


def test_segments_are_copied_once_and_in_parts(segments: list[Path], tmp_path: Path, s3: str) -> None:
    zone, place = tmp_path / "data" / "segments", open_storage(f"{s3}/landing")
    sizes = [path.stat().st_size for path in segments]
    assert upload_segments(zone, place, limit=2) == Uploaded(2, sum(sizes[:2]), 0, 1)
    assert [Path(name).name for name in place.listed()] == [path.name for path in segments[:2]]
    assert upload_segments(zone, place) == Uploaded(1, sizes[2], 2, 0)
    assert upload_segments(zone, place) == Uploaded(0, 0, 3, 0)
    for path in segments:
        assert place.read(path.relative_to(zone).as_posix()) == path.read_bytes()


def test_what_was_cut_off_is_copied_again(segments: list[Path], tmp_path: Path, s3: str) -> None:
    zone, place = tmp_path / "data" / "segments", open_storage(f"{s3}/landing")
    name = segments[1].relative_to(zone).as_posix()
    with place.create(name) as out:
        out.write(b"half")
    assert upload_segments(zone, place).segments == 3
    assert place.read(name) == segments[1].read_bytes()


@pytest.mark.usefixtures("segments")
def test_a_copy_of_another_size_is_an_error(tmp_path: Path, s3: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Storage, "size", lambda *_: 1)
    with pytest.raises(UploadIncomplete, match="run the upload again"):
        upload_segments(tmp_path / "data" / "segments", s3)


@pytest.mark.usefixtures("segments")
def test_the_command_copies_them(tmp_path: Path, s3: str) -> None:
    def told(*arguments: str) -> str:
        answer = CliRunner().invoke(app, ["--data", str(tmp_path / "data"), "segments", "upload", *arguments])
        assert answer.exit_code == Exit.DONE, answer.stderr
        return answer.stdout

    assert json.loads(told(f"{s3}/landing", "--json"))["segments"] == 3
    assert "0 segments copied (0 bytes), 3 were there" in told(f"{s3}/landing")
    wrong = CliRunner().invoke(app, ["--data", str(tmp_path / "data"), "segments", "upload", "s4://x/y"])
    assert wrong.exit_code == Exit.USAGE
    assert "there is no storage s4://" in wrong.stderr
