"""Commands in the docs are commands that there are; those in `console` blocks run, and print what the page says."""

import re
import shlex
from pathlib import Path
from typing import Any

import pytest
from typer.main import get_command

from tests.cli.processes import RunningHub, run
from tests.test_docs import PAGES, ROOT, examples
from tocsin.cli.commands import app


@pytest.fixture(autouse=True)
def wide(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let tables have the room of a wide terminal."""
    monkeypatch.setenv("COLUMNS", "240")


def lines_of(text: str) -> list[str]:
    """Commands of a shell block, without comments, prompts and continuations."""
    joined = re.sub(r"\\\n\s*", " ", text)
    return [line.split(" #")[0].strip().removeprefix("$ ") for line in joined.splitlines()]


def commands() -> list[tuple[str, str]]:
    found = [
        (where, line.removesuffix("&").strip())
        for language in ("sh", "console")
        for where, text in examples(language)
        for line in lines_of(text)
        if line.startswith("tocsin ")
    ]
    return list(dict.fromkeys(found))


def unknown(line: str) -> str | None:
    """Return what is wrong with a command, without running it."""
    command: Any = get_command(app)
    words = shlex.split(line.replace("…", "x"))[1:]
    place, end = command.name or "tocsin", False
    while words:
        word = words.pop(0)
        if word == "--":
            end = True
        elif word.startswith("--") and not end:
            name = word.split("=")[0]
            options = {option: parameter for parameter in command.params for option in parameter.opts}
            if name not in options and name != "--help":
                return f"{place} has no {name}"
            if name in options and not getattr(options[name], "is_flag", False) and "=" not in word and words:
                words.pop(0)
        elif hasattr(command, "commands"):
            if word not in command.commands:
                return f"{place} has no {word}"
            command, place = command.commands[word], f"{place} {word}"
    return f"{place} is not a whole command" if hasattr(command, "commands") else None


@pytest.mark.parametrize(("where", "line"), commands(), ids=lambda value: str(value)[:60])
def test_every_command_in_the_docs_is_one(where: str, line: str) -> None:
    assert unknown(line) is None, f"{where}: {unknown(line)}"


def test_commands_that_are_none_are_noticed() -> None:
    assert unknown("tocsin sned dev hello") is not None
    assert unknown("tocsin send dev hello --prioritty Critical") is not None
    assert unknown("tocsin agents") is not None
    assert unknown("tocsin --as dev inbox --take") is None


def steps_of(text: str) -> list[tuple[str, str]]:
    """Commands of a console block, each with what it prints."""
    steps: list[tuple[str, str]] = []
    for line in text.splitlines():
        if line.startswith("$ "):
            steps.append((line[2:], ""))
        elif steps:
            steps[-1] = (steps[-1][0], f"{steps[-1][1]}{line}\n")
    return steps


@pytest.mark.parametrize(("where", "text"), examples("console"), ids=lambda value: str(value)[:60])
def test_console_examples_print_what_they_say(where: str, text: str, tmp_path: Path) -> None:
    """An ellipsis stands for anything; a command that shows nothing may print what it likes."""
    with RunningHub(tmp_path / ".tocsin") as hub:
        for command, shown in steps_of(text):
            words = shlex.split(command)
            assert words[0] == "tocsin", f"{where} runs {words[0]}"
            done = run("--url", hub.url, *words[1:], cwd=tmp_path)
            assert done.returncode == 0, f"{where}: {command}: {done.stderr}"
            wanted = "(?s)" + ".*".join(re.escape(part.strip()) for part in shown.split("…"))
            assert not shown or re.search(wanted, done.stdout), f"{where}: {command} printed {done.stdout}"


def test_the_readmes_commands_run(tmp_path: Path) -> None:
    """What the README says to type beside a running hub."""
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    (block,) = re.findall(r"^```sh\n(alias tocsin=.*?)^```", readme, re.MULTILINE | re.DOTALL)
    printed = []
    with RunningHub(tmp_path / ".tocsin") as hub:
        for line in lines_of(block)[1:]:
            done = run("--url", hub.url, *shlex.split(line)[1:], cwd=tmp_path)
            assert done.returncode == 0, f"{line}: {done.stderr}"
            printed.append(done.stdout)
    assert "the build is red" in "".join(printed)


def test_every_page_was_looked_at() -> None:
    assert len(PAGES) > 60
    assert len(commands()) > 30


def test_every_target_of_make_in_the_docs_is_one() -> None:
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    targets = set(re.findall(r"^([a-z-]+):", makefile, re.MULTILINE))
    named = {
        (str(page), name) for page in PAGES for name in re.findall(r"`make ([a-z-]+)", page.read_text(encoding="utf-8"))
    }
    named |= {
        (where, name) for where, text in examples("sh") for name in re.findall(r"(?:^|&& )make ([a-z-]+)", text, re.M)
    }
    assert len(named) > 10
    for where, target in named:
        assert target in targets, f"{where} says make {target}"


def test_figures_stand_only_where_the_command_that_prints_them_is_named() -> None:
    """A rate or a latency is in a section that names its benchmark; the README has none at all."""
    figure = re.compile(r"\d[\d.,]*k? ?(?:messages/s|confirmed/s|/s\b|per second)|\bp(?:50|99) [^|\n]{0,20}\d")
    for page in PAGES:
        for section in re.split(r"^#+ ", page.read_text(encoding="utf-8"), flags=re.MULTILINE):
            if "make bench-" not in section:
                found = figure.findall(re.sub(r"`[^`\n]*`", "", section))
                assert found == [], f"{page.relative_to(ROOT)}: no command is named that prints these"
    assert figure.search("40,000 messages/s") is not None
