"""Who a program runs as: tokens of its environment, `--as`, and the agent of its working tree."""

import json
from pathlib import Path

import pytest

from tocsin.cli.hooks.files import apply
from tocsin.cli.hooks.trees import agent_changes
from tocsin.cli.identity import AGENT_FILE, Identity, TreeAgent, identify, trees_of
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


def brings(folder: Path, agent: str, data: Path) -> None:
    """Write the file of a working tree as a cloned repository has it: nobody has installed it."""
    (folder / ".tocsin").mkdir(parents=True, exist_ok=True)
    (folder / ".tocsin" / "agent.json").write_text(json.dumps({"agent": agent, "data": str(data)}))


def works_in(folder: Path, agent: str, data: Path) -> None:
    for change in agent_changes(folder, TreeAgent(AGENT_FILE, agent, data)):
        apply(change)


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


def test_a_cloned_repository_does_not_make_its_programs_the_agent_of_another(
    shop: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    clone = tmp_path / "clone"
    brings(clone, "lead", shop / ".tocsin")
    monkeypatch.chdir(clone)
    with pytest.raises(Unusable, match=r"did not write it for this folder.*hooks install"):
        who()
    linked = tmp_path / "linked"
    linked.mkdir()
    (linked / ".tocsin").symlink_to(shop / ".tocsin")
    monkeypatch.chdir(linked)
    with pytest.raises(Unusable, match="did not write it for this folder"):
        who()


def test_a_list_that_a_repository_brings_gives_it_no_token_of_another(
    shop: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    clone = tmp_path / "clone"
    works_in(clone, "lead", clone / "data")
    (clone / "data" / "tokens").symlink_to(shop / ".tocsin" / "tokens")
    monkeypatch.chdir(clone)
    with pytest.raises(Unusable, match="is a link that leads out of"):
        who()


def test_a_program_that_has_its_own_identity_needs_none_of_its_folder(
    shop: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    clone = tmp_path / "clone"
    brings(clone, "lead", shop / ".tocsin")
    monkeypatch.chdir(clone)
    assert identify(Path("data"), "ada").agent == "ada"
    monkeypatch.setenv("TOCSIN_TOKEN_FILE", str(shop / ".tocsin" / "tokens" / "writer2.token"))
    assert (who().agent, who().data, who().instead_of) == ("writer2", Path(".tocsin"), None)


def test_a_folder_belongs_to_the_agent_that_was_installed_last_and_then_to_nobody(shop: Path) -> None:
    lead, writer = (TreeAgent(AGENT_FILE, agent, shop / ".tocsin") for agent in ("lead", "writer2"))
    assert trees_of(lead) == [str(shop)]
    works_in(shop, "writer2", shop / ".tocsin")
    works_in(shop, "writer2", shop / ".tocsin")
    assert (who().agent, trees_of(lead), trees_of(writer)) == ("writer2", [], [str(shop)])
    for change in agent_changes(shop, None):
        apply(change)
    assert (who().is_known, trees_of(writer)) == (False, [])
    assert agent_changes(shop, None) == []
    assert not list(shop.rglob("*.before-tocsin"))


def test_a_person_who_types_a_name_is_that_agent(shop: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TOCSIN_TOKEN", secret("writer2"))
    assert token_from(shop / ".tocsin", "lead") == secret("lead")
    monkeypatch.setenv("TOCSIN_TOKEN", "")
    (shop / ".tocsin" / "admin.token").write_text("admin")
    assert token_from(shop / ".tocsin", None) == "admin", "an empty variable is none"
