"""The docs are true: generated parts are fresh, every field is explained, examples run, links lead somewhere."""

import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml
from demo.animation import Frame, animate, frames_of

from tocsin.core.events import EVENT_TYPES
from tocsin.core.messages.model import State
from tocsin.core.state import ProjectState
from tocsin.hub.config import load_config
from tocsin.hub.observability.metrics import Metrics
from tocsin.policies import default_policy, parse_policy

ROOT = Path(__file__).resolve().parent.parent
PAGES = [
    ROOT / "README.md",
    ROOT / "CHANGELOG.md",
    *sorted((ROOT / "docs").rglob("*.md")),
    *sorted((ROOT / "packaging").rglob("*.md")),
]
_FENCE = re.compile(r"^```(\w+)\n(.*?)^```", re.MULTILINE | re.DOTALL)
_IN_PASSING = re.compile(r"`(?:\w+\.)*(\w+)` \((?:\w+: )?(\d+(?:\.\d+)?)(?: s)?\)")
_LINK = re.compile(r"\[[^\]]+\]\((?!https?:|#)([^)#\s]+)")
#: Largest size of a picture in the docs, bytes.
_PICTURE_BYTES_MAX = 500_000


def examples(language: str) -> list[tuple[str, str]]:
    return [
        (f"{page.relative_to(ROOT)}:{page.read_text(encoding='utf-8')[: match.start()].count(chr(10)) + 1}", match[2])
        for page in PAGES
        for match in _FENCE.finditer(page.read_text(encoding="utf-8"))
        if match[1] == language
    ]


def test_generated_pages_are_fresh() -> None:
    check = [sys.executable, str(ROOT / "tools" / "generate_docs.py"), "--check"]
    run = subprocess.run(check, capture_output=True, text=True, check=False)  # noqa: S603
    assert run.returncode == 0, run.stdout + run.stderr


def test_a_stale_diagram_is_noticed(tmp_path: Path) -> None:
    """The check above can fail: with one arrow less in the page, the page is stale."""
    sys.path.insert(0, str(ROOT / "tools"))
    try:
        import generate_docs
    finally:
        sys.path.pop(0)
    page = tmp_path / "lifecycle.md"
    text = (ROOT / "docs" / "concepts" / "lifecycle.md").read_text(encoding="utf-8")
    page.write_text(text.replace("    dead --> queued: DeadLetterRedriven\n", ""), encoding="utf-8")
    assert generate_docs.fresh(page, generate_docs.lifecycle) == text


def test_the_lifecycle_page_names_every_state() -> None:
    text = (ROOT / "docs" / "concepts" / "lifecycle.md").read_text(encoding="utf-8")
    for state in State:
        assert f"**{state}**" in text or f"| {state} |" in text


@pytest.mark.parametrize("kind", EVENT_TYPES, ids=lambda kind: kind.__name__)
def test_every_event_field_is_explained(kind: type) -> None:
    text = (ROOT / "docs" / "reference" / "events.md").read_text(encoding="utf-8")
    section = text.split(f"### {kind.__name__}\n")[1].split("\n### ")[0]
    for field in kind.__struct_fields__:  # type: ignore[attr-defined]
        row = re.search(rf"^\| `{field}` \| .+ \| (.+) \|$", section, re.MULTILINE)
        assert row is not None, f"{field} is not explained"


@pytest.mark.parametrize(("where", "code"), examples("python"), ids=lambda value: str(value)[:60])
def test_examples_run(where: str, code: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    exec(compile(code, where, "exec"), {"__name__": "__example__"})  # noqa: S102


@pytest.mark.parametrize(("where", "text"), examples("yaml"), ids=lambda value: str(value)[:60])
def test_policies_and_server_files_in_the_docs_are_valid(where: str, text: str, tmp_path: Path) -> None:
    if text.startswith("# server.yaml"):
        (tmp_path / "server.yaml").write_text(text, encoding="utf-8")
        assert load_config(tmp_path / "server.yaml").page_max, where
    else:
        assert parse_policy(text).contracts, where


def defaults(value: object, name: str = "") -> Iterator[tuple[str, object]]:
    """Walk through settings: the name of each, and what it is."""
    if isinstance(value, dict):
        for key, below in value.items():
            yield from defaults(below, str(key))
    else:
        yield name, value


def test_a_default_that_is_named_in_passing_is_the_default() -> None:
    files = (ROOT / "src" / "tocsin" / "hub" / "server.yaml", ROOT / "src" / "tocsin" / "tocsin.yaml")
    settings = [pair for file in files for pair in defaults(yaml.safe_load(file.read_text(encoding="utf-8")))]
    checked = set()
    for page in PAGES:
        for name, number in _IN_PASSING.findall(page.read_text(encoding="utf-8")):
            known = [value for setting, value in settings if setting == name]
            assert float(number) in known or not known, f"{page.name} says that {name} is {number}; it is {known}"
            checked |= {name} if known else set()
    assert {"turn_operations_max", "sustained_s"} <= checked


def test_every_metric_is_in_the_reference() -> None:
    pages = [(ROOT / "docs" / "reference" / name).read_text(encoding="utf-8") for name in ("http.md", "websocket.md")]
    text = "".join(page.split("\n## Metrics\n")[-1] for page in pages)
    state = ProjectState()
    state.policy = default_policy()
    for line in Metrics(1).expose(state).decode().splitlines():
        if line.startswith("# TYPE ") and not line.split()[2].endswith("_created"):
            assert f"`{line.split()[2]}" in text, line


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_links_lead_somewhere(page: Path) -> None:
    for target in _LINK.findall(page.read_text(encoding="utf-8")):
        assert (page.parent / target).exists(), f"{page.name} links to {target}"


def test_pictures_are_small_and_the_recording_moves() -> None:
    pictures = list((ROOT / "docs" / "images").iterdir())
    assert {path.name for path in pictures} >= {"demo.webp", "overview.png"}
    for path in pictures:
        assert path.stat().st_size < _PICTURE_BYTES_MAX, path.name
    durations = frames_of((ROOT / "docs" / "images" / "demo.webp").read_bytes())
    assert len(durations) > 10
    assert 5_000 < sum(durations) < 60_000


def test_an_animation_has_the_frames_that_it_was_made_of() -> None:
    data = b"VP8L" + (5).to_bytes(4, "little") + b"pixel" + b"\0"
    image = b"RIFF" + (4 + len(data)).to_bytes(4, "little") + b"WEBP" + data
    animation = animate([Frame(image, 100), Frame(image, 250)], 3, 2)
    assert frames_of(animation) == [100, 250]
    assert animation.count(data) == 2
    assert int.from_bytes(animation[4:8], "little") == len(animation) - 8
    with pytest.raises(ValueError, match="not a WebP"):
        animate([Frame(b"GIF89a", 1)], 1, 1)
