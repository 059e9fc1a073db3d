"""Drivers of the real clients: how each is set up, connected to Tocsin, and run, headless and in a terminal.

A client has a home directory with what a person has set up before: a model's address and key, and that the person
trusts the project. It is connected to Tocsin by the commands and the files that the how-to pages name.
"""

import json
import os
import shlex
import subprocess
from pathlib import Path
from typing import Any, ClassVar

from tests.clients.cache import Installed
from tests.clients.ground import Ground
from tests.clients.model import Call, Request, Step
from tests.clients.terminal import Terminal

__all__ = ["Claude", "Client", "Codex", "Gemini", "Opencode", "client_of"]

#: Characters at the end of an API key by which Claude Code remembers that it was approved.
_KEY_END = 20


class Client:
    """One client program, run as one agent."""

    #: Arguments of a run without a terminal.
    headless: ClassVar[tuple[str, ...]] = ()
    #: Arguments of a run in a terminal: it asks for no permissions.
    interactive: ClassVar[tuple[str, ...]] = ()
    #: The text that a terminal shows once it takes a prompt.
    ready: ClassVar[str] = ""
    #: Options without which its commands run in a sandbox that has no network.
    unrestricted: ClassVar[tuple[str, ...]] = ()

    def __init__(self, installed: Installed, ground: Ground, agent: str, folder: Path | None = None) -> None:
        self.installed, self.ground, self.agent = installed, ground, agent
        #: The working directory.
        self.folder = folder or ground.project
        self.home = ground.home(agent)
        self.set_up()

    @property
    def key(self) -> str:
        """Return the API key, which names the agent in the model's record."""
        return self.agent

    @property
    def environment(self) -> dict[str, str]:
        """Return the variables that the client needs."""
        return {}

    @property
    def trusted(self) -> list[str]:
        """Return the folders that the person has said to trust: the project, and where the client runs."""
        return [str(folder) for folder in dict.fromkeys((self.ground.project, self.folder))]

    def set_up(self) -> None:
        """Write what a person has set up before."""

    def connect(self, *options: str) -> None:
        """Connect it to Tocsin in its working directory, as the how-to page says; options are the command's."""
        raise NotImplementedError

    def shell(self, command: str) -> Call:
        """Return a call of the client's own tool that runs a shell command."""
        raise NotImplementedError

    def delegate(self, prompt: str) -> list[Step]:
        """Return the steps that start a sub-agent and wait for it."""
        raise NotImplementedError

    def run(self, prompt: str, *options: str, **variables: str) -> "subprocess.CompletedProcess[str]":
        """Run it without a terminal until it has answered a prompt."""
        words = [*self.installed.words, *self.headless, *options, prompt]
        return self.ground.run(words, cwd=self.folder, agent=self.agent, variables=self.environment | variables)

    def open(self, *options: str, **variables: str) -> Terminal:
        """Run it in a terminal; what it asks first is left to the caller."""
        environment = self.ground.environment(self.agent, **self.environment, **variables)
        words = [*self.installed.words, *self.interactive, *options]
        return Terminal(self.ground, self.agent, words, self.folder, environment)

    def terminal(self, *options: str, **variables: str) -> Terminal:
        """Run it in a terminal, and wait until it takes a prompt."""
        terminal = self.open(*options, **variables)
        terminal.wait_for(self.ready)
        return terminal

    def _install(self, name: str, *options: str) -> None:
        """Run `tocsin hooks install`; from another folder than the project, with the project's data."""
        place = () if self.folder == self.ground.project else ("--data", os.path.relpath(self.ground.data, self.folder))
        self.ground.tocsin(*place, "--as", self.agent, "hooks", "install", name, *options, cwd=self.folder)

    @property
    def _identity(self) -> tuple[str, ...]:
        """Return the options that a person writes into the entries of a client which Tocsin does not install for."""
        return "--data", str(self.ground.data), "--as", self.agent

    def _write(self, path: Path, document: Any) -> None:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(document if isinstance(document, str) else json.dumps(document, indent=2), encoding="utf-8")


class Claude(Client):
    """Claude Code."""

    headless = ("-p", "--allowedTools", "mcp__tocsin,Bash,Agent", "--")
    interactive = ("--permission-mode", "acceptEdits", "--allowedTools", "mcp__tocsin,Bash,Agent")
    ready = "\N{HEAVY RIGHT-POINTING ANGLE QUOTATION MARK ORNAMENT}"

    @property
    def environment(self) -> dict[str, str]:
        return {
            "ANTHROPIC_BASE_URL": self.ground.model.url,
            "ANTHROPIC_API_KEY": self.key,
            "DISABLE_AUTOUPDATER": "1",
        }

    def set_up(self) -> None:
        trusted: dict[str, Any] = {"hasTrustDialogAccepted": True, "hasCompletedProjectOnboarding": True}
        trusted["enabledMcpjsonServers"] = ["tocsin"]
        remembered = {
            "hasCompletedOnboarding": True,
            "theme": "dark",
            "customApiKeyResponses": {"approved": [self.key[-_KEY_END:]], "rejected": []},
            "projects": dict.fromkeys(self.trusted, trusted),
        }
        self._write(self.home / ".claude.json", remembered)

    def enable_channels(self) -> None:
        """Write the account's feature gates for channels where the client caches them."""
        remembered = self.home / ".claude.json"
        gates = {"tengu_harbor": True, "tengu_harbor_permissions": True}
        caches = {"cachedGrowthBookFeatures": gates, "cachedFeatureFlags": gates}
        self._write(remembered, json.loads(remembered.read_text(encoding="utf-8")) | caches)

    def connect(self, *options: str) -> None:
        self._install("claude", *options)

    def shell(self, command: str) -> Call:
        return Call("Bash", {"command": command, "description": "Run it"})

    def delegate(self, prompt: str) -> list[Step]:
        return [Call("Agent", {"description": "Look", "prompt": prompt, "subagent_type": "general-purpose"})]


class Codex(Client):
    """Codex."""

    headless = ("exec", "--dangerously-bypass-hook-trust")
    interactive = ("--dangerously-bypass-hook-trust", "--ask-for-approval", "never")
    ready = "Ask Codex to do anything"
    unrestricted = ("--sandbox", "danger-full-access")

    @property
    def environment(self) -> dict[str, str]:
        return {"MODEL_KEY": self.key}

    def set_up(self) -> None:
        projects = "\n".join(f'[projects."{folder}"]\ntrust_level = "trusted"' for folder in self.trusted)
        self._write(
            self.home / ".codex" / "config.toml",
            f"""\
model = "gpt-5.5"
model_provider = "scripted"

[model_providers.scripted]
name = "scripted"
base_url = "{self.ground.model.url}/v1"
env_key = "MODEL_KEY"
wire_api = "responses"

# The person has been told of a newer model.
[notice.model_migrations]
"gpt-5.5" = "gpt-6-sol"

{projects}
""",
        )

    def connect(self, *options: str) -> None:
        self._install("codex", *options)

    def shell(self, command: str) -> Call:
        return Call("exec_command", {"cmd": command})

    def delegate(self, prompt: str) -> list[Step]:
        def wait(request: Request) -> Call:
            agent = json.loads(request.result_of("spawn_agent"))["agent_id"]
            return Call("multi_agent_v1__wait_agent", {"targets": [agent]})

        search = Call("tool_search", {"query": "spawn agent"})
        return [search, Call("multi_agent_v1__spawn_agent", {"message": prompt}), wait]


class Gemini(Client):
    """Gemini CLI."""

    headless = ("--yolo", "--model", "gemini-2.5-flash", "--prompt")
    interactive = ("--yolo", "--model", "gemini-2.5-flash")
    ready = r"Type your message"

    @property
    def environment(self) -> dict[str, str]:
        return {"GOOGLE_GEMINI_BASE_URL": self.ground.model.url, "GEMINI_API_KEY": self.key}

    def set_up(self) -> None:
        folder = self.home / ".gemini"
        self._write(folder / "settings.json", {"security": {"auth": {"selectedType": "gemini-api-key"}}})
        self._write(folder / "trustedFolders.json", dict.fromkeys(self.trusted, "TRUST_FOLDER"))

    def connect(self, *options: str) -> None:
        server = {"command": "tocsin", "args": [*self._identity, "mcp"]}
        check = {"type": "command", "command": f"tocsin {shlex.join(self._identity)} hooks check"}
        # Tocsin installs no checks here: these are what a person writes.
        hooks = {event: [{"hooks": [check]}] for event in ("AfterTool", "AfterAgent")}
        self._write(self.folder / ".gemini" / "settings.json", {"mcpServers": {"tocsin": server}, "hooks": hooks})

    def shell(self, command: str) -> Call:
        return Call("run_shell_command", {"command": command})

    def delegate(self, prompt: str) -> list[Step]:
        return [Call("invoke_agent", {"agent_name": "generalist", "prompt": prompt})]


class Opencode(Client):
    """opencode."""

    headless = ("run",)
    ready = "Ask anything"

    def set_up(self) -> None:
        options = {"baseURL": f"{self.ground.model.url}/v1", "apiKey": self.key}
        provider = {"npm": "@ai-sdk/openai-compatible", "name": "scripted", "options": options}
        provider |= {"models": {"model": {"name": "model"}}}
        settings = {"model": "scripted/model", "provider": {"scripted": provider}, "autoupdate": False}
        self._write(self.home / ".config" / "opencode" / "opencode.json", settings)

    def connect(self, *options: str) -> None:
        server = {"type": "local", "command": ["tocsin", *self._identity, "mcp"], "enabled": True}
        self._write(self.folder / "opencode.json", {"mcp": {"tocsin": server}})

    def shell(self, command: str) -> Call:
        return Call("bash", {"command": command, "description": "Run it"})

    def delegate(self, prompt: str) -> list[Step]:
        return [Call("task", {"description": "Look", "prompt": prompt, "subagent_type": "general"})]


_DRIVERS: dict[str, type[Client]] = {"claude": Claude, "codex": Codex, "gemini": Gemini, "opencode": Opencode}


def client_of(installed: Installed, ground: Ground, agent: str, folder: Path | None = None) -> Client:
    """Return the driver of a client."""
    return _DRIVERS[installed.client](installed, ground, agent, folder)
