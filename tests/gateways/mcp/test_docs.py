"""The pages about MCP are true: every tool and argument is there, and the examples are what is installed."""

import json
import re
import tomllib
from pathlib import Path

import pytest

from tocsin.cli.hooks.files import ClaudeFiles, CodexFiles, Wiring
from tocsin.gateways.mcp.methods import RESOURCES
from tocsin.gateways.mcp.schemas import input_schema
from tocsin.gateways.mcp.tools import TOOLS
from tocsin.hub.config import ServerConfig

DOCS = Path(__file__).resolve().parents[3] / "docs"
REFERENCE = (DOCS / "reference" / "mcp.md").read_text()
WIRING = Wiring("tocsin", None)


@pytest.mark.parametrize("tool", TOOLS)
def test_the_reference_names_every_tool_and_argument(tool: str) -> None:
    section = REFERENCE.split(f"### `{tool}`\n")[1].split("\n### ")[0].split("\n## ")[0]
    for name in input_schema(TOOLS[tool])["properties"]:
        row = re.search(rf"^\| `{name}` \| .+ \| .* \| (.+) \|$", section, re.MULTILINE)
        assert row is not None, f"{name} is not explained"


def test_the_reference_names_every_limit_and_resource() -> None:
    for name in ServerConfig.__struct_fields__:
        if name.startswith("mcp_"):
            assert f"`{name}`" in REFERENCE
    for resource in RESOURCES:
        assert f"`{resource.uri}`" in REFERENCE


def fences(page: str, language: str) -> list[str]:
    return re.findall(rf"^```{language}\n(.*?)^```", (DOCS / "how-to" / page).read_text(), re.MULTILINE | re.DOTALL)


def test_the_examples_are_what_is_installed(tmp_path: Path) -> None:
    servers, _ = ClaudeFiles(tmp_path, user=False).changes(WIRING)
    (shown,) = fences("claude-code.md", "json")
    assert json.loads(shown) == json.loads(servers.after or "")
    config, _ = CodexFiles(tmp_path, user=False).changes(WIRING)
    (shown,) = fences("codex-cursor.md", "toml")
    assert tomllib.loads(shown) == tomllib.loads(config.after or "")
    (shown,) = fences("codex-cursor.md", "json")
    server = json.loads(shown)["mcpServers"]["tocsin"]
    assert server["args"][:2] == [*WIRING.arguments, "--token-file"]
    assert Path(server["args"][2]).is_absolute()
