"""What the command line does not import, and that it works the same without it."""

import json
import os
import subprocess
import sys
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any

import httpx2
import pytest
import typer
from typer.main import get_command

from tests.cli.processes import RunningHub
from tests.patience import PATIENCE_S
from tocsin import __version__
from tocsin.cli.loading import lighten
from tocsin.cli.output import fail, record, say, table
from tocsin.cli.output.terminal import print_folded
from tocsin.cli.remote import Exit
from tocsin.core import exchange
from tocsin.form import package_form

#: Modules that take longer to import than a request takes.
SLOW = {"asyncio", "httpx2", "mcp", "pyarrow", "pydantic", "pyspark", "rich", "sqlite3", "starlette", "uvicorn", "yaml"}
CODE = """
import sys
from tocsin.cli import main
try:
    main()
finally:
    print(*sys.modules, file=sys.stderr)
"""


def imported(*words: str, url: str = "", token: str = "", given: str = "") -> set[str]:
    """Run the command line in a process of its own, and return the modules that it imported."""
    environment = {name: value for name, value in os.environ.items() if not name.startswith("TOCSIN_")}
    environment |= {"TOCSIN_URL": url, "TOCSIN_TOKEN": token} if url else {}
    done = subprocess.run(  # noqa: S603
        [sys.executable, "-c", CODE, *words],
        capture_output=True,
        text=True,
        input=given,
        check=False,
        timeout=PATIENCE_S,
        env=environment,
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout
    return set(done.stderr.splitlines()[-1].split())


@pytest.fixture(scope="module")
def hub(tmp_path_factory: pytest.TempPathFactory) -> Any:
    """A hub."""
    with RunningHub(tmp_path_factory.mktemp("startup") / "data") as running:
        yield running


@pytest.mark.parametrize("words", [("--help",), ("--version",)])
def test_the_help_imports_no_operations_and_nothing_slow(words: tuple[str, ...]) -> None:
    loaded = imported(*words)
    assert "typer" in loaded
    assert loaded & (SLOW | {"http.client", "msgspec", "tocsin.core", "tocsin.wire"}) == set()


@pytest.mark.parametrize("words", [("send", "ada", "hello"), ("inbox",), ("send", "--help")])
def test_a_command_imports_nothing_slow(words: tuple[str, ...], hub: RunningHub) -> None:
    made = hub.ask("agents", "add", "ada")
    loaded = imported(*words, url=hub.url, token=made["token"])
    assert "tocsin.wire.table" in loaded
    assert loaded & (SLOW | {"tocsin.hub", "tocsin.journal", "tocsin.client", "tocsin.lab"}) == set()


def test_the_handshake_of_mcp_imports_nothing_slow() -> None:
    """Coding agents start a turn without a server that takes long to answer it."""
    hello = {"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": "t", "version": "1"}}
    asked = {"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": hello}
    loaded = imported("mcp", given=json.dumps(asked) + "\n")
    assert "tocsin.gateways.mcp.protocol" in loaded
    slow = SLOW - {"asyncio"} | {"http.client", "tocsin.wire", "tocsin.client", "tocsin.gateways.mcp.tools"}
    assert loaded & slow == set()


def test_a_hub_imports_the_library_of_mcp_when_a_client_calls(tmp_path: Path) -> None:
    """It takes longer to import than all the rest of a hub, and most hubs are not called so."""
    with RunningHub(tmp_path / "data") as hub:
        token = hub.ask("agents", "add", "ada")["token"]
        mapped = Path(f"/proc/{hub.process.pid}/maps")
        assert "pydantic_core" not in mapped.read_text()
        body = {"jsonrpc": "2.0", "id": 1, "method": "tools/list"}
        headers = {"Accept": "application/json, text/event-stream", "Authorization": f"Bearer {token}"}
        answer = httpx2.post(f"{hub.url}/mcp", json=body, headers=headers, timeout=PATIENCE_S)
        assert "fetch_inbox" in answer.text
        assert "pydantic_core" in mapped.read_text()
        assert hub.stop() == 0


def test_the_doctor_names_the_form_of_the_installation(hub: RunningHub) -> None:
    *_, told = hub.ask("doctor")
    assert told == {
        "check": "this installation",
        "good": True,
        "detail": f"tocsin {__version__}, {package_form()} form",
    }
    assert package_form() == ("pure" if str(exchange.__file__).endswith(".py") else "compiled")


def ran(command: Any, *words: str) -> tuple[int, list[Any]]:
    """Run a command, and return its exit code and the values that it got."""
    got: list[Any] = []
    try:
        command.main(words, obj=got)
    except SystemExit as end:
        return int(end.code or 0), got
    return 0, got


class Colour(StrEnum):
    RED = "red"
    DARK_BLUE = "dark-blue"


def of_every_kind(
    context: typer.Context,
    text: str,
    count: Annotated[int, typer.Option()] = 3,
    share: Annotated[float | None, typer.Option()] = None,
    path: Annotated[Path, typer.Option()] = Path("here"),
    names: Annotated[list[str] | None, typer.Option("--name")] = None,
    limited: Annotated[int, typer.Option(max=5)] = 1,
    existing: Annotated[Path | None, typer.Option(exists=True)] = None,
    flag: Annotated[bool, typer.Option("--flag")] = False,
    colour: Annotated[Colour, typer.Option()] = Colour.RED,
    other: Annotated[Colour | None, typer.Option()] = None,
) -> None:
    context.obj.append((text, count, share, path, names, limited, existing, flag, colour, other))


@pytest.mark.parametrize(
    "words",
    [
        "hello",
        "hello --count 5 --share 0.5 --path there --name a --name b --limited 4 --flag",
        "hello --count 5.0",
        "hello --count five",
        "hello --share much",
        "hello --limited 9",
        "hello --limited -1",
        "hello --path /",
        "hello --existing /nowhere",
        "hello --existing /",
        "hello --colour dark-blue --other red",
        "hello --colour DARK_BLUE",
        "hello --colour Red",
        "",
    ],
)
def test_values_are_converted_as_typer_converts_them(words: str, capsys: pytest.CaptureFixture[str]) -> None:
    app = typer.Typer(add_completion=False, rich_markup_mode=None)
    app.command()(of_every_kind)
    typers_own, light = get_command(app), get_command(app)
    lighten(light)
    expected = ran(typers_own, *words.split())
    expected_text = capsys.readouterr()
    assert ran(light, *words.split()) == expected
    assert capsys.readouterr() == expected_text
    assert repr(ran(light, *words.split())) == repr(expected)


ROWS = [{"a": "x", "b_id": "longer [bold] value", "c": None}, {"a": ":bug:", "b_id": "", "c": 3}]


@pytest.mark.parametrize("rows", [ROWS, ROWS[:1], []])
def test_a_table_is_the_same_with_and_without_rich(
    rows: list[dict[str, Any]], capsys: pytest.CaptureFixture[str]
) -> None:
    table(rows, "a", "b_id", "c")
    plain = capsys.readouterr().out
    cells = [[str(row["a"]), str(row["b_id"]), "" if row["c"] is None else str(row["c"])] for row in rows]
    print_folded(["a", "b id", "c"], [[cell.replace(":bug:", "12345") for cell in row] for row in cells])
    assert plain.replace(":bug:", "12345") == capsys.readouterr().out


def test_a_record_is_the_same_with_and_without_rich(capsys: pytest.CaptureFixture[str]) -> None:
    record({"signal_id": "one", "x": "two words"})
    plain = capsys.readouterr().out
    print_folded((), [["message id", "one"], ["x", "two words"]], bold_names=True)
    assert plain == capsys.readouterr().out


def test_wide_characters_take_their_width(capsys: pytest.CaptureFixture[str]) -> None:
    table([{"a": "漢字", "b": "x"}, {"a": "k", "b": "y"}], "a", "b")
    assert capsys.readouterr().out == " a     b \n 漢字  x \n k     y \n"
    table([{"a": "\x1b[31mred\x07", "b": "two\nlines"}], "a", "b")
    assert capsys.readouterr().out == " a        b         \n [31mred  two lines \n"


def test_texts_are_printed_as_they_are_without_control_characters(capsys: pytest.CaptureFixture[str]) -> None:
    say("a :bug: [bold]\tthere\nand \x1b[31mred\x07")
    fail("not \x1b]0;title\x07 [this]", Exit.USAGE)
    told = capsys.readouterr()
    assert told.out == "a :bug: [bold]\tthere\nand [31mred\n"
    assert told.err == "not ]0;title [this]\n"
