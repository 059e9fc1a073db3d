"""Wheel and sdist: complete, small, and enough for the README's example in an empty environment."""

import email
import importlib.util
import os
import re
import shutil
import subprocess
import sys
import sysconfig
import tarfile
import venv
import zipfile
from pathlib import Path
from typing import Any

import msgspec
import pytest

import tocsin
from tests.patience import PATIENCE_S

ROOT = Path(__file__).resolve().parents[2]
UV = Path(sys.executable).parent / "uv"
#: What `pip install tocsin` may take, everything that it brings along included.
BASE_MB = 20
SOAK = bool(os.environ.get("TOCSIN_SOAK"))


def uv(*arguments: str | Path, **environment: str) -> str:
    done = subprocess.run(  # noqa: S603
        [UV, *arguments],
        capture_output=True,
        text=True,
        check=False,
        cwd=ROOT,
        env={**os.environ, "UV_SYSTEM_CERTS": "1", **environment},
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.fixture(scope="module")
def packages(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """The wheel, built out of the sdist as `make dist` does it, and the sdist."""
    folder = tmp_path_factory.mktemp("dist")
    uv("build", "--offline", "--no-build-isolation", "--python", sys.executable, "--out-dir", folder)
    (wheel,), (sdist,) = folder.glob("*.whl"), folder.glob("*.tar.gz")
    return wheel, sdist


def environment_with(folder: Path, *wanted: str | Path) -> Path:
    """Make an empty environment, install into it, and return its Python; from the cache where that has everything."""
    venv.create(folder, with_pip=False)
    python = folder / "bin" / "python"
    try:
        uv("pip", "install", "--quiet", "--offline", "--python", python, *wanted)
    except AssertionError:
        uv("pip", "install", "--quiet", "--python", python, *wanted)
    return python


@pytest.fixture(scope="module")
def base(packages: tuple[Path, Path], tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An environment with what `pip install tocsin` brings, and nothing else."""
    return environment_with(tmp_path_factory.mktemp("base"), packages[0])


def run(python: Path, *arguments: str, cwd: Path) -> "subprocess.CompletedProcess[str]":
    environment = {"PATH": os.environ["PATH"], "HOME": str(cwd)}
    return subprocess.run(  # noqa: S603
        [python, *arguments], capture_output=True, text=True, check=False, cwd=cwd, env=environment, timeout=PATIENCE_S
    )


def test_the_wheel_has_everything_that_the_package_has(packages: tuple[Path, Path]) -> None:
    """Data files and the dashboard's libraries too, which are in no repository."""
    there = {
        path.relative_to(ROOT / "src").as_posix()
        for path in (ROOT / "src" / "tocsin").rglob("*")
        if path.is_file() and "__pycache__" not in path.parts
    }
    packed = set(zipfile.ZipFile(packages[0]).namelist())
    assert there - packed == set()
    assert {name for name in packed - there if ".dist-info/" not in name} == set()


def test_the_sdist_has_what_the_makefile_needs(packages: tuple[Path, Path]) -> None:
    with tarfile.open(packages[1]) as archive:
        names = {name.partition("/")[2] for name in archive.getnames()}
    for needed in (
        "Makefile",
        "CHANGELOG.md",
        "LICENSE",
        "README.md",
        "requirements/dev.lock",
        "tools/generate_docs.py",
    ):
        assert needed in names
    assert {name.split("/")[0] for name in names} >= {"src", "tests", "bench", "docs", "packaging", "requirements"}


def test_the_packages_readme_links_only_to_what_is_there(packages: tuple[Path, Path]) -> None:
    archive = zipfile.ZipFile(packages[0])
    (name,) = (name for name in archive.namelist() if name.endswith(".dist-info/METADATA"))
    metadata = email.message_from_string(archive.read(name).decode())
    shown = str(metadata.get_payload())
    assert "For you, if several coding agents" in shown
    assert metadata["Description-Content-Type"] == "text/markdown"
    assert re.findall(r"\]\((?!https://)", shown) == []
    classifiers = metadata.get_all("Classifier") or []
    assert {f"Programming Language :: Python :: 3.{minor}" for minor in range(11, 15)} <= set(classifiers)


def test_the_links_of_a_published_readme_are_absolute() -> None:
    spec = importlib.util.spec_from_file_location("metadata_hook", ROOT / "packaging" / "metadata_hook.py")
    assert spec is not None
    assert spec.loader is not None
    hook = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(hook)
    text = "![a](docs/a.png) [b](docs/b.md#c) [d](https://d.example) `[e](f)`\n```\n[g](h)\n```\n[i](#i)"
    address = "https://code.example/tocsin"
    assert hook.published_readme(text, address, "1.2.3") == (
        f"![a]({address}/raw/v1.2.3/docs/a.png) [b]({address}/blob/v1.2.3/docs/b.md#c) "
        "[d](https://d.example) `[e](f)`\n"
        "```\n[g](h)\n```\n[i](#i)"
    )
    assert hook.published_readme(text, "", "1.2.3").startswith(" b [d](https://d.example) `[e](f)`\n")
    assert hook.addresses(address)["Source"] == address
    assert hook.addresses("") == {}


def test_the_base_install_is_small(base: Path) -> None:
    (site,) = (base.parent.parent / "lib").glob("python*/site-packages")
    sizes = {
        package.name: sum(path.stat().st_size for path in package.rglob("*") if path.is_file())
        for package in site.iterdir()
        if package.is_dir()
    }
    assert sum(sizes.values()) / 1e6 < BASE_MB, sorted(sizes.items(), key=lambda item: -item[1])[:5]


def test_the_readmes_example_runs_with_nothing_but_the_base(base: Path, tmp_path: Path) -> None:
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    example = re.search(r"^```python\n(.*?)^```", readme, re.MULTILINE | re.DOTALL)
    assert example is not None
    done = run(base, "-W", "error", "-c", example[1], cwd=tmp_path)
    assert done.returncode == 0, done.stderr


def test_the_command_line_without_its_extra_says_which_one_it_needs(base: Path, tmp_path: Path) -> None:
    assert run(base, "-m", "tocsin", "--version", cwd=tmp_path).stdout == f"tocsin {tocsin.__version__}\n"
    done = run(base, "-m", "tocsin", "serve", cwd=tmp_path)
    assert done.returncode == 1
    assert "pip install 'tocsin[cli]'" in done.stderr


def compile_tool() -> Any:
    """The program that builds the compiled form."""
    spec = importlib.util.spec_from_file_location("compile_tool", ROOT / "tools" / "compile.py")
    assert spec is not None
    assert spec.loader is not None
    tool = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(tool)
    return tool


def test_a_wheel_for_this_platform_has_the_same_files_and_the_compiled_modules(
    packages: tuple[Path, Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pure = tmp_path / "dist" / packages[0].name
    pure.parent.mkdir()
    shutil.copy(packages[0], pure)
    suffix = sysconfig.get_config_var("EXT_SUFFIX")
    compiled = {f"tocsin__mypyc{suffix}", f"tocsin/core/exchange{suffix}"}
    for name in (*compiled, "tocsin/core/exchange.py", ".made-of"):
        (tmp_path / "compiled" / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / "compiled" / name).write_bytes(b"machine code")
    tool = compile_tool()
    monkeypatch.setattr(tool, "TARGET", tmp_path / "compiled")
    made = tool.make_wheel(pure)
    python = f"cp{sys.version_info.major}{sys.version_info.minor}"
    assert made.name.startswith(f"tocsin-{tocsin.__version__}-{python}-{python}-")
    with zipfile.ZipFile(pure) as before, zipfile.ZipFile(made) as after:
        assert set(after.namelist()) - set(before.namelist()) == compiled
        assert set(before.namelist()) - set(after.namelist()) == set()
        folder = f"tocsin-{tocsin.__version__}.dist-info"
        about = after.read(f"{folder}/WHEEL").decode()
        rows = after.read(f"{folder}/RECORD").decode().splitlines()
    assert "Root-Is-Purelib: false" in about
    assert f"Tag: {made.stem.split('-', 2)[2]}\n" in about
    assert {row.split(",")[0] for row in rows} == set(zipfile.ZipFile(made).namelist())
    python_of = environment_with(tmp_path / "env", made, "--no-deps")
    installed = run(python_of, "-c", "import tocsin.form as f; print(f.package_form())", cwd=tmp_path)
    assert installed.stdout == "compiled\n", installed.stderr


EXCHANGE = """
import asyncio, sys
from tocsin import Tocsin
from tocsin.core import exchange
from tocsin.form import package_form

async def main():
    async with await Tocsin.open(sys.argv[1]) as bus:
        async with bus.join("ada") as ada, bus.join("bob") as bob:
            await ada.send(to="bob", type="StatusUpdate", payload={"text": "hello"})
            async for message in bob.inbox():
                print(message.payload["text"], package_form(), exchange.__file__.endswith(".so"))
                break

asyncio.run(main())
"""


@pytest.mark.skipif(not SOAK, reason="compiling takes minutes: make soak")
def test_the_compiled_wheel_sends_and_receives_out_of_an_empty_environment(
    packages: tuple[Path, Path], tmp_path: Path
) -> None:
    """The libraries are those of this environment, so that nothing is fetched."""
    pure = shutil.copy(packages[0], tmp_path)
    command = [sys.executable, "tools/compile.py", "--wheel", str(pure)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)  # noqa: S603
    assert done.returncode == 0, done.stderr
    python = environment_with(tmp_path / "env", done.stdout.strip(), "--no-deps")
    environment = {
        "PATH": os.environ["PATH"],
        "HOME": str(tmp_path),
        "PYTHONPATH": str(Path(msgspec.__file__).parents[1]),
    }
    told = subprocess.run(  # noqa: S603
        [python, "-c", EXCHANGE, str(tmp_path / "data")],
        cwd=tmp_path,
        env=environment,
        capture_output=True,
        text=True,
        check=False,
        timeout=PATIENCE_S,
    )
    assert told.stdout == "hello compiled True\n", told.stderr


@pytest.mark.skipif(not SOAK, reason="installs all of the server: make soak")
def test_a_hub_starts_out_of_an_empty_environment(packages: tuple[Path, Path], tmp_path: Path) -> None:
    python = environment_with(tmp_path / "server", f"{packages[0]}[server,postgres,mcp]")
    made = run(python, "-m", "tocsin", "init", cwd=tmp_path)
    assert made.returncode == 0, made.stderr
    command = [str(python), "-m", "tocsin", "serve", "--port", "0"]
    with subprocess.Popen(command, cwd=tmp_path, stdout=subprocess.PIPE, text=True) as hub:  # noqa: S603
        assert hub.stdout is not None
        try:
            assert hub.stdout.readline().startswith("serving project default at http://127.0.0.1:")
        finally:
            hub.terminate()
    assert hub.returncode == 0
