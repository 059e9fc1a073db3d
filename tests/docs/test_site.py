"""The documentation site: it is complete, its links work, it can be searched, and it loads nothing from elsewhere."""

import os
import re
import shutil
import subprocess
import sys
import threading
from collections.abc import Iterator
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest
from playwright.sync_api import expect, sync_playwright

from tests.dashboard.browser import FLAGS, find_browser
from tests.patience import PATIENCE_S

ROOT = Path(__file__).resolve().parents[2]
#: Elements whose address a browser loads by itself.
_LOADED = re.compile(
    r"<(?:script|img|iframe|source|video|object|embed)\b[^>]*?\b(?:src|data)=[\"']?(?:https?:)?//[^\s>]+"
    r"|<link\b(?=[^>]*rel=[\"']?(?:stylesheet|preload|preconnect|icon|modulepreload|dns-prefetch))[^>]*href=[\"']?(?:https?:)?//[^\s>]+",
    re.IGNORECASE,
)


def build(config: Path, site: Path) -> "subprocess.CompletedProcess[str]":
    command = [
        sys.executable,
        "-m",
        "mkdocs",
        "build",
        "--config-file",
        str(config),
        "--site-dir",
        str(site),
    ]
    environment = {**os.environ, "NO_MKDOCS_2_WARNING": "1"}
    return subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, check=False)  # noqa: S603


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("site")
    done = build(ROOT / "mkdocs.yml", folder)
    assert done.returncode == 0, done.stdout + done.stderr
    return folder


def test_every_page_is_in_the_site_and_its_index(site: Path) -> None:
    for page in (ROOT / "docs").rglob("*.md"):
        name = page.relative_to(ROOT / "docs").as_posix().replace("README.md", "index.md").removesuffix(".md")
        assert (site / f"{name}.html").is_file(), name
    assert (site / "changelog.html").is_file()
    assert (site / "packaging" / "systemd" / "tocsin@.service").is_file()


def test_nothing_is_loaded_from_elsewhere(site: Path) -> None:
    pages = list(site.rglob("*.html"))
    assert len(pages) > 80
    for page in pages:
        assert _LOADED.findall(page.read_text(encoding="utf-8")) == [], page.name
    for style in site.rglob("*.css"):
        assert re.findall(r"(?:@import|url\()\s*[\"']?(?:https?:)?//", style.read_text(encoding="utf-8")) == [], (
            style.name
        )
    assert _LOADED.search('<script async src="https://cdn.example/a.js">') is not None
    assert _LOADED.search('<link href="//fonts.example/css" rel="stylesheet">') is not None


def small_site(folder: Path, pages: dict[str, str]) -> "subprocess.CompletedProcess[str]":
    """Build a site of a few pages with the project's own settings."""
    for name in ("tools/site_hooks.py", "mkdocs.yml", "CHANGELOG.md"):
        (folder / name).parent.mkdir(exist_ok=True)
        shutil.copy(ROOT / name, folder / name)
    (folder / "CHANGELOG.md").write_text("# Changelog\n")
    for name in ("docs", "packaging"):
        (folder / name).mkdir(exist_ok=True)
    for name, text in pages.items():
        (folder / "docs" / name).write_text(text)
    return build(folder / "mkdocs.yml", folder / "site")


@pytest.mark.parametrize("wrong", ["[a](nowhere.md)", "[a](glossary.md#nothing)"])
def test_a_dead_link_fails_the_build(tmp_path: Path, wrong: str) -> None:
    index = f"# Index\n\n## Reference\n\n[Glossary](glossary.md)\n\n{wrong}\n"
    done = small_site(tmp_path, {"index.md": index, "glossary.md": "# Glossary\n"})
    assert done.returncode != 0
    assert wrong.partition("](")[2].rstrip(")") in done.stderr
    assert small_site(tmp_path, {"index.md": index.replace(wrong, "")}).returncode == 0


def test_a_page_that_no_index_names_fails_the_build(tmp_path: Path) -> None:
    done = small_site(tmp_path, {"index.md": "# Index\n\n## Reference\n", "lost.md": "# Lost\n"})
    assert (done.returncode != 0, "lost.md" in done.stderr) == (True, True)


class Quiet(SimpleHTTPRequestHandler):
    """Serves files without logging."""

    def log_message(self, *_: object) -> None:
        """Log nothing."""


@pytest.fixture
def address(site: Path) -> Iterator[str]:
    with ThreadingHTTPServer(("127.0.0.1", 0), partial(Quiet, directory=str(site))) as server:
        threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True).start()
        yield f"http://127.0.0.1:{server.server_address[1]}"
        server.shutdown()


def test_a_reader_searches_and_no_request_leaves_the_site(address: str) -> None:
    asked: list[str] = []
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=find_browser(), args=list(FLAGS))
        page = browser.new_page()
        page.on("request", lambda request: asked.append(request.url))
        page.goto(f"{address}/index.html")
        page.get_by_label("Search", exact=True).first.click()
        # The page reads the words when a key is released, or a moment after the field gets the focus: they are typed.
        expect(page.get_by_text("Type to start searching")).to_be_visible(timeout=PATIENCE_S * 1000)
        page.get_by_placeholder("Search").press_sequentially("priority inheritance")
        expect(page.locator(".md-search-result__item").first).to_be_visible(timeout=PATIENCE_S * 1000)
        page.locator(".md-search-result__link").first.click()
        page.wait_for_url(re.compile(r"(leases|inheritance|priorities|glossary)"))
        browser.close()
    assert len(asked) > 5
    assert [url for url in asked if not url.startswith((address, "data:", "blob:"))] == []
