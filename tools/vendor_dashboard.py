"""Copy the libraries of the dashboard's page from node_modules, with their licences.

No bundler is used: a browser loads the libraries as ES modules. Browsers do not resolve bare module names, so imports
between libraries are rewritten to paths. `vendor.json` lists the copied files.
"""

import hashlib
import json
import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
MODULES = ROOT / "node_modules"
VENDOR = ROOT / "src" / "tocsin" / "gateways" / "dashboard" / "page" / "vendor"
#: Files that the page loads, with their paths in `node_modules`.
FILES = {
    "preact.js": "preact/dist/preact.mjs",
    "preact-hooks.js": "preact/hooks/dist/hooks.mjs",
    "htm.js": "htm/dist/htm.module.js",
    "uplot.js": "uplot/dist/uPlot.esm.js",
    "uplot.css": "uplot/dist/uPlot.min.css",
    "swagger-ui.js": "swagger-ui-dist/swagger-ui-bundle.js",
    "swagger-ui.css": "swagger-ui-dist/swagger-ui.css",
}
_BARE_IMPORT = re.compile(r'(\bfrom\s*)"preact"')
_SOURCE_MAP = re.compile(r"\n?(?://|/\*)# sourceMappingURL=\S+(?: ?\*/)?\s*$")


def fetch() -> None:
    """Install the packages of package-lock.json."""
    npm = shutil.which("npm")
    if npm is None:
        sys.exit("the dashboard's libraries come from npm: install Node.js (https://nodejs.org), then `make dashboard`")
    command = [npm, "ci", "--ignore-scripts", "--no-audit", "--no-fund", "--loglevel=error"]
    done = subprocess.run(command, cwd=ROOT, check=False)  # noqa: S603
    if done.returncode:
        sys.exit("npm could not fetch the dashboard's libraries: see above, then `make dashboard` again")


def vendor() -> None:
    """Copy the files that the page loads."""
    shutil.rmtree(VENDOR, ignore_errors=True)
    VENDOR.mkdir(parents=True)
    packages: dict[str, Any] = {}
    for name, source in FILES.items():
        text = (MODULES / source).read_text(encoding="utf-8")
        text = _SOURCE_MAP.sub("\n", _BARE_IMPORT.sub(r'\1"./preact.js"', text))
        (VENDOR / name).write_text(text, encoding="utf-8")
        package = source.split("/")[0]
        facts = json.loads((MODULES / package / "package.json").read_text(encoding="utf-8"))
        entry = packages.setdefault(package, {"version": facts["version"], "license": facts["license"], "files": {}})
        entry["files"][name] = hashlib.sha256(text.encode()).hexdigest()
        shutil.copyfile(MODULES / package / "LICENSE", VENDOR / f"{package}.LICENSE.txt")
    # Written last, so that it exists only if everything was copied.
    (VENDOR / "vendor.json").write_text(json.dumps(packages, indent=2) + "\n", encoding="utf-8")


if __name__ == "__main__":
    fetch()
    vendor()
