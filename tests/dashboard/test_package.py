"""The wheel contains the page and its libraries, with their licences."""

import json
import re
import shutil
import subprocess
import sys
import zipfile
from pathlib import Path

from tocsin.gateways.dashboard.live import PATH as LIVE
from tocsin.wire.table import OPERATIONS

ROOT = Path(__file__).resolve().parents[2]
PAGE = ROOT / "src" / "tocsin" / "gateways" / "dashboard" / "page"
CALL = re.compile(r"""["`](/v1/[^"`?]*)["`]""")
IMPORT = re.compile(r"""(?:^import[^;"']*|\bimport\()["']([^"']+)["']""", re.MULTILINE)
#: Counts installations of swagger-ui-dist; its script is not run, and nothing of it is taken.
NOT_VENDORED = {"node_modules/@scarf/scarf"}
INSIDE = "tocsin/gateways/dashboard/page"


def test_a_wheel_has_the_page_and_its_libraries(tmp_path: Path) -> None:
    source = tmp_path / "source"
    kept = shutil.ignore_patterns("__pycache__", "*.egg-info")
    shutil.copytree(ROOT / "src", source / "src", ignore=kept)
    for name in ("pyproject.toml", "README.md", "LICENSE", ".gitignore", "packaging/metadata_hook.py"):
        (source / name).parent.mkdir(exist_ok=True)
        shutil.copyfile(ROOT / name, source / name)
    build = [str(Path(sys.executable).with_name("hatchling")), "build", "-t", "wheel", "-d", str(tmp_path / "dist")]
    done = subprocess.run(build, cwd=source, capture_output=True, text=True, check=False, timeout=120)  # noqa: S603
    assert done.returncode == 0, done.stderr
    (wheel,) = (tmp_path / "dist").glob("*.whl")
    with zipfile.ZipFile(wheel) as archive:
        names = set(archive.namelist())
        vendored = json.loads(archive.read(f"{INSIDE}/vendor/vendor.json"))
    files = {str(path.relative_to(PAGE)) for path in PAGE.rglob("*") if path.is_file()}
    assert {f"{INSIDE}/{name}" for name in files} <= names
    assert set(vendored) == {"htm", "preact", "swagger-ui-dist", "uplot"}
    for library in vendored:
        assert f"{INSIDE}/vendor/{library}.LICENSE.txt" in names


def test_the_vendored_versions_are_those_of_the_lock_file() -> None:
    lock = json.loads((ROOT / "package-lock.json").read_text())["packages"]
    vendored = json.loads((PAGE / "vendor" / "vendor.json").read_text())
    assert {name: library["version"] for name, library in vendored.items()} == {
        name.removeprefix("node_modules/"): package["version"]
        for name, package in lock.items()
        if name and name not in NOT_VENDORED
    }
    assert not any("resolved" in package for package in lock.values()), "a lock names no address"


def test_every_import_of_the_page_is_a_file_of_the_page() -> None:
    for path in PAGE.rglob("*.js"):
        for name in IMPORT.findall(path.read_text(encoding="utf-8")):
            assert (path.parent / name).resolve().is_relative_to(PAGE), f"{path.name} imports {name}"
            assert (path.parent / name).is_file(), f"{path.name} imports {name}"


def test_every_path_that_the_page_calls_belongs_to_an_operation() -> None:
    known = {re.sub(r"\{\w+\}", "*", operation.path) for operation in OPERATIONS.values()} | {LIVE}
    called = {
        re.sub(r"\$\{[^}]*\}", "*", path)
        for file in PAGE.rglob("*.js")
        if "vendor" not in file.parts
        for path in CALL.findall(file.read_text(encoding="utf-8"))
    }
    assert len(called) > 20
    # A path that is the beginning of others is completed where it is used.
    assert {path for path in called if not any(one == path or one.startswith(path + "/") for one in known)} == set()
