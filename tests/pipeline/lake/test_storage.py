"""Storage: URLs, and files in a folder and on S3."""

from pathlib import Path

import pytest

from tocsin.pipeline.errors import StorageUnknown, StorageUnreachable
from tocsin.pipeline.lake.storage import Storage, open_storage


@pytest.fixture(params=["local", "s3"])
def storage(request: pytest.FixtureRequest, tmp_path: Path) -> Storage:
    return open_storage(tmp_path / "x" if request.param == "local" else request.getfixturevalue("s3"))


@pytest.mark.parametrize(
    ("given", "url"),
    [
        ("s3://bucket/a/b/", "s3://bucket/a/b"),
        ("S3A://bucket/a", "s3a://bucket/a"),
        (Path("gs://bucket/a"), "gs://bucket/a"),
        ("abfss://box@account.dfs.core.windows.net/a", "abfss://box@account.dfs.core.windows.net/a"),
        ("hdfs://host:9000/a", "hdfs://host:9000/a"),
        ("file:///var/lake", "/var/lake"),
        ("/var/lake", "/var/lake"),
    ],
)
def test_a_url_names_a_storage(given: str | Path, url: str) -> None:
    assert open_storage(given).url == url


@pytest.mark.parametrize("given", ["s4://bucket/a", "http://host/a", "jdbc:/host"])
def test_a_scheme_that_is_not_known_is_an_error(given: str) -> None:
    with pytest.raises(StorageUnknown, match=r"there is no storage .*s3://"):
        open_storage(given)


@pytest.mark.parametrize(
    ("url", "environment", "problem"),
    [
        ("az://box/lake", {}, "Account must be specified"),
        ("hdfs://nowhere.invalid:9000/lake", {}, "failed to lookup address"),
        ("gs://bucket/lake", {"GOOGLE_SERVICE_ACCOUNT": "/nowhere/key.json"}, "/nowhere/key.json"),
    ],
)
def test_a_storage_that_cannot_be_reached_says_what_to_check(
    url: str, environment: dict[str, str], problem: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """No network is needed: each of the libraries is asked, and refuses for a reason of its own."""
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    with pytest.raises(StorageUnreachable, match=r"Check the URL, and \w+.* in the environment") as refused:
        open_storage(url).check()
    text = str(refused.value)
    assert text.startswith(f"{url} cannot be reached: ")
    assert problem in text
    assert "\n" not in text
    assert "\x1b" not in text


def test_a_storage_that_answers_passes_the_check(storage: Storage) -> None:
    storage.check()


def test_files_are_written_listed_read_and_deleted(storage: Storage, tmp_path: Path) -> None:
    assert storage.listed() == {}
    assert storage.size("a/b") is None
    name = "a/project=a%2Fb c/one.zst"
    with storage.create(name) as out:
        out.write(b"12345" * 4_000_000)
    (tmp_path / "source").write_bytes(b"678")
    storage.put(tmp_path / "source", "c")
    assert {path: found.bytes for path, found in storage.listed().items()} == {name: 20_000_000, "c": 3}
    assert list(storage.listed("a")) == [name]
    assert storage.read(name) == b"12345" * 4_000_000
    with storage.open("c") as file:
        file.seek(1)
        assert file.read() == b"78"
    with pytest.raises(FileNotFoundError):
        storage.read("none")
    storage.delete(["c", "none"])
    storage.delete_folder("a")
    assert storage.listed() == {}
