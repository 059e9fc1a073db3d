"""Make the pictures of the README: a recording of the dashboard during the demo, and a screenshot.

The demo runs as `make demo` does. A browser opens its sign-in link, goes through the pages as a newcomer would, and
decides the approval that the demo left open.
"""

import base64
import os
import re
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from playwright.sync_api import Page, sync_playwright
from tests.dashboard.browser import FLAGS, find_browser

from demo.animation import Frame, animate

ROOT = Path(__file__).resolve().parent.parent
IMAGES = ROOT / "docs" / "images"
WIDTH, HEIGHT = 1040, 660
#: Quality of the frames, percent; and the largest size of a picture, bytes.
_QUALITY, _BYTES_MAX = 55, 500_000
_LOOK_MS, _STAY_MS = 700, 2200


class Recorder:
    """Takes the frames of a recording."""

    def __init__(self, page: Page) -> None:
        self.page = page
        self._session = page.context.new_cdp_session(page)
        self.frames: list[Frame] = []

    def take(self, duration_ms: int) -> None:
        """Take a frame that is shown for some time."""
        options = {"format": "webp", "quality": _QUALITY}
        shot = self._session.send("Page.captureScreenshot", options)
        self.frames.append(Frame(base64.b64decode(shot["data"]), duration_ms))

    def open(self, page: str, wait_for: str) -> None:
        """Open a page of the dashboard by its name in the navigation."""
        self.page.locator("nav").get_by_text(page, exact=True).click()
        self.page.get_by_text(wait_for).locator("visible=true").first.wait_for()
        self.page.wait_for_timeout(_LOOK_MS)
        self.take(_STAY_MS)


def record(link: str, demo: "subprocess.Popen[str]") -> None:
    """Follow the demo in a browser and write the pictures."""
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=find_browser(), args=list(FLAGS))
        context = browser.new_context(viewport={"width": WIDTH, "height": HEIGHT}, color_scheme="light")
        recorder = Recorder(context.new_page())
        page = recorder.page
        page.goto(link)
        page.locator('.connection[data-status="live"]').wait_for()
        for line in demo.stdout or ():
            if "Try this" in line:
                break
            if re.match(r" ?\d+ of \d+", line):
                recorder.take(_LOOK_MS)
        page.wait_for_timeout(_STAY_MS)
        recorder.take(_STAY_MS)
        page.set_viewport_size({"width": 1280, "height": 900})
        page.wait_for_timeout(_LOOK_MS)
        page.screenshot(path=IMAGES / "overview.png")
        page.set_viewport_size({"width": WIDTH, "height": HEIGHT})
        recorder.open("Messages", "TASK_")
        recorder.open("Leases", "src/billing/")
        recorder.open("Dead letters", "erin")
        recorder.open("Human inbox", "merge invoices")
        page.get_by_role("button", name="Approve", exact=True).click()
        page.wait_for_timeout(_LOOK_MS)
        recorder.take(_STAY_MS)
        browser.close()
    write("demo.webp", animate(recorder.frames, WIDTH, HEIGHT))
    write("overview.png", (IMAGES / "overview.png").read_bytes())


def write(name: str, content: bytes) -> None:
    """Write a picture; one that is too large for a README is an error."""
    if len(content) > _BYTES_MAX:
        sys.exit(f"{name} has {len(content):,} bytes, more than {_BYTES_MAX:,}: lower the quality or the size")
    (IMAGES / name).write_bytes(content)
    sys.stdout.write(f"wrote docs/images/{name}: {len(content):,} bytes\n")


@contextmanager
def running_demo() -> Iterator["subprocess.Popen[str]"]:
    """Run the demo in a folder of its own until the end of the block."""
    with tempfile.TemporaryDirectory() as folder:
        command = [sys.executable, "-m", "demo", "--port", "0", "--without-pipeline"]
        environment = {**os.environ, "PYTHONPATH": f"{ROOT / 'src'}:{ROOT}", "COLUMNS": "100", "TERM": "dumb"}
        demo = subprocess.Popen(command, cwd=folder, env=environment, stdout=subprocess.PIPE, text=True)  # noqa: S603
        try:
            yield demo
        finally:
            demo.send_signal(signal.SIGINT)
            demo.communicate()


def main() -> None:
    """Write the pictures."""
    IMAGES.mkdir(parents=True, exist_ok=True)
    with running_demo() as demo:
        for line in demo.stdout or ():
            if found := re.search(r"http\S+/sign-in\?link#code=\S+", line):
                record(found[0], demo)
                return
    sys.exit("the demo did not start")


if __name__ == "__main__":
    main()
