"""Rules and dashboard: every metric and label in them is one that a real hub exports, and promtool agrees with them."""

import json
import os
import re
import subprocess
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml
from bench.peers.servers import locate
from prometheus_client import Metric
from prometheus_client.parser import text_string_to_metric_families

from tests.cli.processes import RunningHub
from tocsin.hub.observability.counters import Counts, Latencies
from tocsin.hub.observability.metrics import Metrics

ROOT = Path(__file__).resolve().parents[2]
RULES = ROOT / "packaging" / "prometheus" / "rules.yml"
BOARD = ROOT / "packaging" / "grafana" / "tocsin.json"
#: What Prometheus itself makes, and what it adds to every series of a target.
ITS_OWN = {"up"}
TARGET_LABELS = {"job", "project", "instance"}
_SELECTOR = re.compile(r"([a-zA-Z_:][\w:]*)\s*\{([^}]*)\}")
_GROUPING = re.compile(r"\bby \(([^)]*)\)")
_LABEL = re.compile(r"(\w+)\s*(?:=~|!~|!=|=)")


def rules() -> list[dict[str, Any]]:
    document = yaml.safe_load(RULES.read_text(encoding="utf-8"))
    return [rule for group in document["groups"] for rule in group["rules"]]


def panels() -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = json.loads(BOARD.read_text(encoding="utf-8"))["panels"]
    return found


def expressions() -> Iterator[tuple[str, str]]:
    for rule in rules():
        yield rule.get("alert") or rule["record"], rule["expr"]
    for panel in panels():
        for target in panel["targets"]:
            yield f"panel {panel['title']}", target["expr"]


@pytest.fixture(scope="module")
def families(tmp_path_factory: pytest.TempPathFactory) -> list[Metric]:
    """The metrics of a real hub."""
    with RunningHub(tmp_path_factory.mktemp("hub") / "data") as hub:
        token = hub.json("agents", "add", "prometheus", "--role", "clone")["token"]
        request = urllib.request.Request(f"{hub.url}/metrics", headers={"Authorization": f"Bearer {token}"})  # noqa: S310
        with urllib.request.urlopen(request) as answer:  # noqa: S310
            return list(text_string_to_metric_families(answer.read().decode()))


@pytest.fixture(scope="module")
def exported(families: list[Metric]) -> set[str]:
    """The names of all series that a real hub can have."""
    suffixes = {"counter": ("_total",), "histogram": ("_bucket", "_count", "_sum"), "gauge": ("",)}
    return {family.name + end for family in families for end in suffixes[family.type]}


@pytest.fixture(scope="module")
def labels(families: list[Metric]) -> dict[str, set[str]]:
    """The labels of each metric: as they were declared, or as the gauges have them, which always have samples."""
    metrics = vars(Metrics(1)).values()
    counted = {metric.name: set(metric.labels) for metric in metrics if isinstance(metric, Counts | Latencies)}
    gauges = {
        family.name: {label for sample in family.samples for label in sample.labels}
        for family in families
        if family.type == "gauge"
    }
    return counted | gauges


@pytest.mark.parametrize(("where", "expr"), list(expressions()), ids=lambda value: str(value)[:40])
def test_every_series_is_one_that_a_hub_exports(
    where: str, expr: str, exported: set[str], labels: dict[str, set[str]]
) -> None:
    selectors = _SELECTOR.findall(expr)
    assert selectors, f"{where} looks at nothing"
    known: set[str] = set(TARGET_LABELS)
    for name, chosen in selectors:
        assert name in exported | ITS_OWN, f"{where}: no hub exports {name}"
        own = labels.get(name) or labels.get(re.sub("_(bucket|total|count|sum)$", "", name)) or set()
        assert set(_LABEL.findall(chosen)) <= own | TARGET_LABELS, f"{where}: {name} has the labels {sorted(own)}"
        assert 'job="tocsin"' in chosen, f"{where}: {name} may be somebody else's"
        known |= own
    for grouping in _GROUPING.findall(expr):
        assert {label.strip() for label in grouping.split(",")} <= known | {"le"}, f"{where} groups by {grouping}"
    assert expr.count("(") == expr.count(")")


def test_a_metric_that_is_not_there_is_noticed(exported: set[str]) -> None:
    assert "messages_sent_total" in exported
    assert "messages_sent" not in exported


def test_alerts_say_what_is_wrong_and_how_bad_it_is() -> None:
    page = (ROOT / "docs" / "how-to" / "prometheus.md").read_text(encoding="utf-8")
    for rule in rules():
        if "alert" in rule:
            assert rule["labels"]["severity"] in {"info", "warning", "critical"}
            assert "{{ $labels.project }}" in rule["annotations"]["summary"]
            assert f"`{rule['alert']}`" in page, f"{rule['alert']} is not explained"


def test_panels_are_explained_and_do_not_overlap() -> None:
    taken: set[tuple[int, int]] = set()
    for panel in panels():
        assert panel["description"].endswith(".")
        place = panel["gridPos"]
        cells = {
            (x, y)
            for x in range(place["x"], place["x"] + place["w"])
            for y in range(place["y"], place["y"] + place["h"])
        }
        assert not cells & taken, panel["title"]
        taken |= cells
    assert max(x for x, _ in taken) == 23
    assert len({panel["id"] for panel in panels()}) == len(panels())


@pytest.mark.skipif(not os.environ.get("TOCSIN_SOAK"), reason="fetches promtool where it is not installed: make soak")
def test_promtool_agrees() -> None:
    promtool = str(locate("promtool", "prometheus"))
    for command in (
        ["check", "rules", "rules.yml"],
        ["test", "rules", "rules_test.yml"],
        ["check", "config", "--syntax-only", "prometheus.yml"],
    ):
        done = subprocess.run([promtool, *command], cwd=RULES.parent, capture_output=True, text=True, check=False)  # noqa: S603
        assert done.returncode == 0, done.stdout + done.stderr
