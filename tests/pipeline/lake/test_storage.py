"""Storage: URLs, and files in a folder and on S3."""

import os
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
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


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[str]]:
    """Requests to an instance metadata service on loopback, in an environment without credentials."""
    found: list[str] = []

    class Metadata(BaseHTTPRequestHandler):
        def do_PUT(self) -> None:
            found.append(self.path)
            self.send_error(404)

        def log_message(self, *_: object) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Metadata)
    threading.Thread(target=server.serve_forever, args=(0.01,)).start()
    for name in [name for name in os.environ if name.startswith("AWS_")]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("AWS_REGION", "us-east-1")
    for name in ("AWS_METADATA_ENDPOINT", "AWS_EC2_METADATA_SERVICE_ENDPOINT", "AWS_ENDPOINT_URL"):
        monkeypatch.setenv(name, f"http://127.0.0.1:{server.server_port}")
    yield found
    server.shutdown()
    server.server_close()


def test_s3_without_credentials_is_refused_before_the_metadata_service_is_asked(asked: list[str]) -> None:
    with pytest.raises(StorageUnreachable, match=r"no credentials\. Check the URL, and AWS_ACCESS_KEY_ID"):
        open_storage("s3://bucket/no-credentials").check()
    with pytest.raises(StorageUnreachable, match="no credentials"):
        Storage("s3a://bucket/no-credentials").listed()
    assert asked == []


def test_s3_uses_the_credentials_of_an_instance_if_the_environment_asks_for_them(
    asked: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "false")
    with pytest.raises(StorageUnreachable):
        open_storage("s3://bucket/instance-credentials").check()
    assert asked == ["/latest/api/token"]


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
