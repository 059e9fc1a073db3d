"""Backups: what is in one that was made under load, what is refused, and whether a hub serves what was restored."""

import asyncio
import contextlib
import shutil
from collections.abc import AsyncIterator
from pathlib import Path

import msgspec
import pytest
from typer.testing import CliRunner

from tests.fleet.hubs import Address, serving
from tocsin.cli.commands import app
from tocsin.core.errors import StateConflict, TocsinError
from tocsin.fleet.backups import restoring
from tocsin.fleet.backups.archive import check_archive
from tocsin.fleet.backups.exports import Exports
from tocsin.fleet.backups.making import make_backup
from tocsin.fleet.backups.manifest import MANIFEST, BackupError, read_manifest
from tocsin.fleet.backups.restoring import restore_backup

SENDERS = 8


class Load:
    """Senders that go on until they are stopped."""

    def __init__(self, address: Address, token: str, prefix: str) -> None:
        self._address = address
        self._token = token
        self._prefix = prefix
        #: Ids of the messages that the hub has confirmed, in order.
        self.confirmed: list[str] = []

    @contextlib.asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        """Send for as long as the context lasts."""
        senders = [asyncio.create_task(self._send(number)) for number in range(SENDERS)]
        try:
            yield
        finally:
            for sender in senders:
                sender.cancel()
            await asyncio.gather(*senders, return_exceptions=True)

    async def reached(self, count: int) -> None:
        """Wait until so many messages are confirmed."""
        async with asyncio.timeout(60):
            while len(self.confirmed) < count:
                await asyncio.sleep(0)

    async def _send(self, number: int) -> None:
        count = 0
        while True:
            count += 1
            text = f"{self._prefix}_{number}_{count}"
            answer = await self._address.send(self._token, "bob", "bob", text)
            assert answer.status_code == 200, answer.text
            self.confirmed.append(f"msg_1_{text}")


async def _unlimited(address: Address, admin: str) -> str:
    """Let an agent of a project send as much as it can; return its token."""
    changed = {"policy": {"bucket": {"capacity": 10**9, "refill_per_s": 10**9}}, "scope": "change"}
    answer = await address.call("PUT", "/v1/policy", admin, changed)
    assert answer.status_code == 200, answer.text
    return await address.agent(admin, "bob")


async def test_a_backup_under_load_has_everything_that_was_confirmed_before_it(tmp_path: Path) -> None:
    data, backup, restored = tmp_path / "data", tmp_path / "backup", tmp_path / "restored"
    async with serving(data) as address:
        (data / "tocsin.yaml").write_text("aging: {threshold_s: 77}\n")
        tokens = {"home": await _unlimited(address, address.admin)}
        tokens["acme"] = await _unlimited(address, await address.add("acme"))
        loads = {name: Load(address, token, name) for name, token in tokens.items()}
        async with contextlib.AsyncExitStack() as sending:
            for load in loads.values():
                await sending.enter_async_context(load.running())
            for load in loads.values():
                await load.reached(50)
            before = {name: list(load.confirmed) for name, load in loads.items()}
            made = await asyncio.to_thread(make_backup, data, backup)
            counts = {name: len(load.confirmed) for name, load in loads.items()}
            for name, load in loads.items():
                await load.reached(counts[name] + 20)
        assert {one.project for one in made.projects} == {"home", "acme"}
    await asyncio.to_thread(restore_backup, backup, restored)
    assert (restored / "tocsin.yaml").read_text() == "aging: {threshold_s: 77}\n"
    assert (restored / "admin.token").stat().st_mode & 0o777 == 0o600
    async with serving(restored) as address:
        for name, token in tokens.items():
            for message_id in before[name]:
                found = await address.call("GET", f"/v1/messages/{message_id}", token)
                assert found.status_code == 200, f"{message_id} of {name} is lost"
            assert (await address.send(token, "bob", "bob", "after the restore")).status_code == 200


@pytest.fixture
async def backed_up(tmp_path: Path) -> Path:
    """Return a backup of a home project and the project `acme`, each with a message."""
    async with serving(tmp_path / "data") as address:
        for admin in (address.admin, await address.add("acme")):
            bob = await address.agent(admin, "bob")
            assert (await address.send(bob, "bob", "bob", "kept")).status_code == 200
    make_backup(tmp_path / "data", tmp_path / "backup")
    return tmp_path / "backup"


def _flip(file: Path) -> None:
    content = bytearray(file.read_bytes())
    content[len(content) // 2] ^= 0xFF
    file.write_bytes(content)


@pytest.mark.parametrize(
    "name", ["journal.db", "tables.db", "tokens.db", "admin.token", "projects/acme/journal.db", "projects.db"]
)
@pytest.mark.parametrize("damage", ["flipped", "missing"])
async def test_a_damaged_backup_is_refused_and_nothing_is_left_behind(
    backed_up: Path, tmp_path: Path, name: str, damage: str
) -> None:
    if damage == "flipped":
        _flip(backed_up / name)
    else:
        (backed_up / name).unlink()
    with pytest.raises(BackupError, match=f"the backup is damaged: {name}"):
        restore_backup(backed_up, tmp_path / "restored")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["backup", "data"]


async def test_damage_from_before_the_backup_is_found_when_it_is_made(backed_up: Path, tmp_path: Path) -> None:
    import apsw

    journal = apsw.Connection(str(tmp_path / "data" / "journal.db"))
    journal.execute("UPDATE journal SET events = zeroblob(10) WHERE first_seq = 1")
    journal.close()
    with pytest.raises(BackupError, match="project home is damaged"):
        make_backup(tmp_path / "data", tmp_path / "second")
    assert not (tmp_path / "second").exists()


async def test_a_list_that_names_files_elsewhere_or_is_of_another_layout_is_refused(
    backed_up: Path, tmp_path: Path
) -> None:
    manifest = read_manifest(backed_up)
    outside = msgspec.structs.replace(manifest.files[0], path="../data/admin.token")
    for changed, told in (
        (msgspec.structs.replace(manifest, files=[outside]), "outside"),
        (msgspec.structs.replace(manifest, format=2), "layout 2"),
    ):
        (backed_up / MANIFEST).write_bytes(msgspec.json.encode(changed))
        with pytest.raises(BackupError, match=told):
            restore_backup(backed_up, tmp_path / "restored")
    (backed_up / MANIFEST).write_bytes(b'{"format": 1')
    with pytest.raises(BackupError, match="cannot be read"):
        restore_backup(backed_up, tmp_path / "restored")


async def test_nothing_is_overwritten(backed_up: Path, tmp_path: Path) -> None:
    data = tmp_path / "data"
    with pytest.raises(StateConflict, match="exists"):
        make_backup(data, backed_up)
    with pytest.raises(BackupError, match="in the data folder"):
        make_backup(data, data / "backup")
    with pytest.raises(BackupError, match="not empty"):
        restore_backup(backed_up, data)
    with pytest.raises(BackupError, match="not empty"):
        restore_backup(backed_up, data, "acme")


async def test_of_two_backups_to_one_name_at_once_one_is_refused_and_nothing_is_left_of_it(
    backed_up: Path, tmp_path: Path
) -> None:
    data, target = tmp_path / "data", tmp_path / "second"
    (tmp_path / ".second.partial-killed").mkdir()  # of a backup that was killed: it is in nobody's way

    def another(project: str) -> None:
        if not target.exists():
            make_backup(data, target)

    with pytest.raises(StateConflict, match=f"{target} exists, perhaps made by another process just now") as refused:
        make_backup(data, target, told=another)
    assert refused.value.code == "E_STATE_002"
    assert sorted(path.name for path in tmp_path.iterdir()) == [".second.partial-killed", "backup", "data", "second"]
    restore_backup(target, tmp_path / "restored")


async def test_of_two_restores_to_one_place_at_once_one_is_refused_and_nothing_is_left_of_it(
    backed_up: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    place = tmp_path / "restored"

    def restored_meanwhile(folder: Path) -> None:
        monkeypatch.undo()
        restore_backup(backed_up, place)

    monkeypatch.setattr(restoring, "sync_tree", restored_meanwhile)
    with pytest.raises(StateConflict, match=f"{place} exists, perhaps made by another process just now"):
        restore_backup(backed_up, place)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["backup", "data", "restored"]


def test_a_backup_that_is_refused_says_what_to_do(tmp_path: Path) -> None:
    (tmp_path / "backup").mkdir()
    told = CliRunner().invoke(app, ["backup", str(tmp_path / "backup"), "--data", str(tmp_path)])
    assert (told.exit_code, "choose another name" in told.output) == (3, True)


async def test_a_folder_that_a_hub_serves_is_refused(backed_up: Path, tmp_path: Path) -> None:
    data = tmp_path / "data"
    shutil.rmtree(data / "projects" / "acme")
    async with serving(data):
        with pytest.raises(BackupError, match="a hub serves"):
            restore_backup(backed_up, data, "acme")
    restore_backup(backed_up, data, "acme")


async def test_one_project_of_a_backup_is_added_to_another_hub_with_its_tokens(backed_up: Path, tmp_path: Path) -> None:
    admin = (backed_up / "projects" / "acme" / "admin.token").read_text().strip()
    async with serving(tmp_path / "other"):
        pass
    restore_backup(backed_up, tmp_path / "other", "acme")
    async with serving(tmp_path / "other") as address:
        status = await address.call("GET", "/v1/status", admin)
        assert (status.json()["project"], status.json()["waiting"]["Info"]) == ("acme", 1)


async def test_a_project_is_exported_over_http_and_restored(tmp_path: Path) -> None:
    archive = tmp_path / "acme.tar"
    async with serving(tmp_path / "data") as address:
        acme = await address.add("acme")
        bob = await address.agent(acme, "bob")
        await address.send(bob, "bob", "bob", "kept")
        exported = await address.call("GET", "/v1/projects/acme/export", address.admin)
        assert (exported.status_code, exported.headers["content-type"]) == (200, "application/x-tar")
        archive.write_bytes(exported.content)
        assert (await address.call("GET", "/v1/projects/home/export", address.admin)).status_code == 200
        assert (await address.call("GET", "/v1/projects/none/export", address.admin)).status_code == 404
        assert (await address.call("GET", "/v1/projects/acme/export", acme)).status_code == 404
        assert (await address.call("GET", "/v1/projects/acme/export", bob)).status_code == 403
        assert (await address.call("GET", "/v1/projects/acme/export", None)).status_code == 401
        assert not list((tmp_path / "data").glob(".export*"))
    check_archive(archive)
    restore_backup(archive, tmp_path / "other")
    async with serving(tmp_path / "other") as address:
        assert await address.inbox(bob) == ["kept"]


async def test_an_incomplete_archive_is_refused(backed_up: Path, tmp_path: Path) -> None:
    from tocsin.fleet.backups.archive import packed

    whole = b"".join(packed(backed_up))
    for length in (0, 100, len(whole) // 2, len(whole) - 40_000):
        (tmp_path / "some.tar").write_bytes(whole[:length])
        with pytest.raises(BackupError, match=r"damaged|is not a backup"):
            restore_backup(tmp_path / "some.tar", tmp_path / "restored")
    assert not (tmp_path / "restored").exists()
    assert not list(tmp_path.glob(".*"))


async def test_projects_in_postgresql_are_left_to_its_own_tools(tmp_path: Path) -> None:
    address = "postgresql://tocsin:secret@localhost/tocsin"
    told = CliRunner().invoke(app, ["backup", str(tmp_path / "backup"), "--store", address])
    assert told.exit_code == 2
    assert "pg_dump" in told.output
    assert "secret" not in told.output
    with pytest.raises(TocsinError, match="pg_dump"):
        async with Exports(tmp_path, address).export("acme"):
            raise AssertionError("nothing is exported")
