"""Search for a browser, with small programs in place of apt-get and Playwright."""

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


def test_the_browser_of_the_environment_variable(tmp_path: Path) -> None:
    named = program(tmp_path / "my-browser", "")
    assert find_browser({"TOCSIN_CHROMIUM": str(named), "PATH": ""}) == named


def test_a_wrong_environment_variable_is_reported(tmp_path: Path) -> None:
    with pytest.raises(NoBrowser, match=r"TOCSIN_CHROMIUM is .*nowhere, which cannot be run"):
        find_browser({"TOCSIN_CHROMIUM": str(tmp_path / "nowhere"), "PATH": ""})


def test_a_browser_on_the_path_is_preferred(tmp_path: Path) -> None:
    own = program(tmp_path / "google-chrome", "")
    program(tmp_path / "apt-get", installing(tmp_path / "chromium"))
    assert find_browser({"PATH": str(tmp_path)}, root=True) == own


def test_the_headless_shell_is_preferred(tmp_path: Path) -> None:
    program(tmp_path / "chromium", "")
    shell = program(tmp_path / "chromium-headless-shell", "")
    assert find_browser({"PATH": str(tmp_path)}) == shell


@pytest.mark.parametrize("package", ["chromium-headless-shell", "chromium"])
def test_debians_package_is_installed_by_root(tmp_path: Path, package: str) -> None:
    refused = f'[ "$1" = update ] || [ "$4" = {package} ] || exit 100'
    program(tmp_path / "apt-get", f"{refused}\n{installing(tmp_path / package)}")
    assert find_browser({"PATH": str(tmp_path)}, root=True) == tmp_path / package


def test_playwrights_download_is_used_without_root(tmp_path: Path) -> None:
    program(tmp_path / "apt-get", installing(tmp_path / "chromium"))
    theirs = program(tmp_path / "elsewhere" / "their-chromium", "")
    python = program(tmp_path / "python", f'if [ "$1" = -c ]; then echo {theirs}; fi')
    assert find_browser({"PATH": str(tmp_path)}, root=False, python=str(python)) == theirs


def test_playwrights_download_is_used_if_the_package_fails(tmp_path: Path) -> None:
    program(tmp_path / "apt-get", "echo 'E: Unable to locate package chromium' >&2; exit 100")
    theirs = program(tmp_path / "elsewhere" / "their-chromium", "")
    python = program(tmp_path / "python", f'if [ "$1" = -c ]; then echo {theirs}; fi')
    assert find_browser({"PATH": str(tmp_path)}, root=True, python=str(python)) == theirs


def test_the_error_lists_what_was_tried_and_what_to_do(tmp_path: Path) -> None:
    program(tmp_path / "apt-get", "echo 'E: Unable to locate package chromium' >&2; exit 100")
    python = program(tmp_path / "python", "echo 'no network' >&2; exit 1")
    with pytest.raises(NoBrowser) as raised:
        find_browser({"PATH": str(tmp_path)}, root=True, python=str(python))
    detail = str(raised.value)
    assert "Debian's package chromium: E: Unable to locate package chromium" in detail
    assert "Playwright's download: no network" in detail
    assert "TOCSIN_CHROMIUM=/path/to/chromium" in detail
