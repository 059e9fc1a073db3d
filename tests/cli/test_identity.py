"""Who a program runs as: tokens of its environment, `--as`, and the agent of its working tree."""

import json
from pathlib import Path

import pytest

from tocsin.cli.identity import Identity, identify
from tocsin.cli.remote import Unusable, token_from

_VARIABLES = ("TOCSIN_TOKEN", "TOCSIN_TOKEN_FILE", "TOCSIN_DATA", "CLAUDE_PROJECT_DIR")


def secret(agent: str) -> str:
    return f"tcs_id{agent}_secret"


@pytest.fixture
def shop(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A project of the lead, in which this process is, with the tokens of lead and writer2."""
    for name in _VARIABLES:
        monkeypatch.delenv(name, raising=False)
    folder = tmp_path / "shop"
    (folder / ".git").mkdir(parents=True)
    (folder / ".tocsin" / "tokens").mkdir(parents=True)
    for agent in ("lead", "writer2"):
        (folder / ".tocsin" / "tokens" / f"{agent}.token").write_text(secret(agent))
    works_in(folder, "lead", folder / ".tocsin")
    monkeypatch.chdir(folder)
    return folder


def works_in(folder: Path, agent: str, data: Path) -> None:
    (folder / ".tocsin").mkdir(parents=True, exist_ok=True)
    (folder / ".tocsin" / "agent.json").write_text(json.dumps({"agent": agent, "data": str(data)}))


def who() -> Identity:
    return identify(Path(".tocsin"), None)


def test_a_program_in_a_sub_folder_is_the_agent_of_its_working_tree(
    shop: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    deep = shop / "src" / "deep"
    deep.mkdir(parents=True)
    monkeypatch.chdir(deep)
    assert (who().agent, who().data, who().token()) == ("lead", shop / ".tocsin", secret("lead"))
    assert not (deep / ".tocsin").exists()


def test_a_working_tree_within_another_does_not_take_its_agent(shop: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    within = shop / "worktrees" / "dev"
    within.mkdir(parents=True)
    (within / ".git").write_text("gitdir: elsewhere")
    monkeypatch.chdir(within)
    assert not who().is_known
    works_in(within, "writer2", shop / ".tocsin")
    assert (who().agent, who().token()) == ("writer2", secret("writer2"))


def test_a_hook_belongs_to_the_folder_in_which_the_coding_agent_was_started(
    shop: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.chdir(tmp_path)
    assert not who().is_known
    monkeypatch.setenv("CLAUDE_PROJECT_DIR", str(shop))
    assert who().agent == "lead"


def test_a_token_of_the_process_takes_precedence_over_its_folder(shop: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TOCSIN_TOKEN", secret("writer2"))
    assert (who().agent, who().token(), who().instead_of) == ("writer2", secret("writer2"), "lead")
    monkeypatch.delenv("TOCSIN_TOKEN")
    monkeypatch.setenv("TOCSIN_TOKEN_FILE", str(shop / ".tocsin" / "tokens" / "writer2.token"))
    assert (who().agent, who().token(), who().instead_of) == ("writer2", secret("writer2"), "lead")


def test_a_token_of_the_process_takes_precedence_over_a_name_in_a_file(
    shop: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TOCSIN_TOKEN", secret("writer2"))
    found = identify(Path(".tocsin"), "lead")
    assert (found.agent, found.token(), found.instead_of) == ("writer2", secret("writer2"), "lead")


def test_two_tokens_that_differ_are_refused_with_both_names(shop: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TOCSIN_TOKEN", secret("writer2"))
    monkeypatch.setenv("TOCSIN_TOKEN_FILE", str(shop / ".tocsin" / "tokens" / "lead.token"))
    with pytest.raises(Unusable, match="TOCSIN_TOKEN is a token of writer2 and TOCSIN_TOKEN_FILE is a token of lead"):
        who()
    monkeypatch.setenv("TOCSIN_TOKEN", secret("lead"))
    assert who().agent == "lead"


def test_a_missing_token_is_named_by_its_file(shop: Path) -> None:
    token = shop / ".tocsin" / "tokens" / "lead.token"
    token.unlink()
    assert str(token.parent) in who().missing()
    assert "agents add lead --save" in who().missing()
    named = identify(Path(".tocsin"), None, Path("no.token"))
    assert named.missing() == "there is no token: no.token (--token-file) does not exist"


def test_a_file_that_names_no_agent_is_told(shop: Path) -> None:
    (shop / ".tocsin" / "agent.json").write_text("{}")
    with pytest.raises(Unusable, match=r"agent\.json does not name an agent"):
        who()


def test_a_person_who_types_a_name_is_that_agent(shop: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TOCSIN_TOKEN", secret("writer2"))
    assert token_from(shop / ".tocsin", "lead") == secret("lead")
    monkeypatch.setenv("TOCSIN_TOKEN", "")
    (shop / ".tocsin" / "admin.token").write_text("admin")
    assert token_from(shop / ".tocsin", None) == "admin", "an empty variable is none"
