"""How a browser is found: each way in turn, played by small programs in place of apt-get and Playwright."""

from pathlib import Path

import pytest

from tests.dashboard.browser import NoBrowser, find_browser


def program(path: Path, script: str) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(f"#!/bin/sh\n{script}\n")
    path.chmod(0o755)
    return path


def installing(path: Path) -> str:
    return f'if [ "$1" = install ]; then printf "#!/bin/sh\\n" > {path}; /bin/chmod 755 {path}; fi'


def test_the_one_that_is_named(tmp_path: Path) -> None:
    named = program(tmp_path / "my-browser", "")
    assert find_browser({"TOCSIN_CHROMIUM": str(named), "PATH": ""}) == named


def test_a_name_that_is_none_is_told(tmp_path: Path) -> None:
    with pytest.raises(NoBrowser, match=r"TOCSIN_CHROMIUM is .*nowhere, which cannot be run"):
        find_browser({"TOCSIN_CHROMIUM": str(tmp_path / "nowhere"), "PATH": ""})


def test_the_machines_own_comes_first(tmp_path: Path) -> None:
    own = program(tmp_path / "google-chrome", "")
    program(tmp_path / "apt-get", installing(tmp_path / "chromium"))
    assert find_browser({"PATH": str(tmp_path)}, root=True) == own


def test_debians_package_where_it_may_be_installed(tmp_path: Path) -> None:
    program(tmp_path / "apt-get", installing(tmp_path / "chromium"))
    assert find_browser({"PATH": str(tmp_path)}, root=True) == tmp_path / "chromium"


def test_playwrights_download_where_it_may_not(tmp_path: Path) -> None:
    program(tmp_path / "apt-get", installing(tmp_path / "chromium"))
    theirs = program(tmp_path / "elsewhere" / "their-chromium", "")
    python = program(tmp_path / "python", f'if [ "$1" = -c ]; then echo {theirs}; fi')
    assert find_browser({"PATH": str(tmp_path)}, root=False, python=str(python)) == theirs


def test_playwrights_download_where_the_package_fails(tmp_path: Path) -> None:
    program(tmp_path / "apt-get", "echo 'E: Unable to locate package chromium' >&2; exit 100")
    theirs = program(tmp_path / "elsewhere" / "their-chromium", "")
    python = program(tmp_path / "python", f'if [ "$1" = -c ]; then echo {theirs}; fi')
    assert find_browser({"PATH": str(tmp_path)}, root=True, python=str(python)) == theirs


def test_nothing_at_all_says_what_was_tried_and_what_helps(tmp_path: Path) -> None:
    program(tmp_path / "apt-get", "echo 'E: Unable to locate package chromium' >&2; exit 100")
    python = program(tmp_path / "python", "echo 'no network' >&2; exit 1")
    with pytest.raises(NoBrowser) as raised:
        find_browser({"PATH": str(tmp_path)}, root=True, python=str(python))
    told = str(raised.value)
    assert "Debian's package: E: Unable to locate package chromium" in told
    assert "Playwright's download: no network" in told
    assert "TOCSIN_CHROMIUM=/path/to/chromium" in told
