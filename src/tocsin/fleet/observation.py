"""Figures, readiness and metrics of all open projects of a hub, from all of its processes."""

import asyncio
from collections.abc import Iterable

import msgspec
from prometheus_client import CollectorRegistry, Gauge, generate_latest

from tocsin.fleet.peers import Peers
from tocsin.hub.observability.exposition import exposed
from tocsin.hub.projects import AllReady, OpenProjectFigures
from tocsin.hub.service import Hub
from tocsin.journal import open_files

__all__ = ["FIGURES", "METRICS", "READINESS", "Observation", "merged"]

#: Questions that workers ask each other.
FIGURES, METRICS, READINESS = "figures", "metrics", "readiness"


class Observation:
    """Observes the open projects of this process, and asks the other processes for theirs."""

    def __init__(self, metrics_max: int) -> None:
        """`metrics_max` is the number of projects of this process that have metrics of their own."""
        self._metrics_max = metrics_max
        #: Number of this process among the workers.
        self.worker = 0
        #: The other workers; null if there are none.
        self.peers: Peers | None = None
        #: Projects with metrics of their own. A project stays among them, so that its series do not come and go.
        self._shown: dict[str, None] = {}

    def forget(self, project: str) -> None:
        """Give the place of a removed project in the metrics to another one."""
        self._shown.pop(project, None)

    async def answer(self, question: str, hubs: list[Hub]) -> bytes:
        """Answer a question of another worker; `hubs` are the open projects of this one."""
        if question == METRICS:
            return self._exposed(hubs)
        if question == READINESS:
            return msgspec.json.encode(await _readiness(hubs))
        return msgspec.json.encode(self._figures(hubs))

    async def figures(self, hubs: list[Hub]) -> tuple[list[OpenProjectFigures], int]:
        """Return the figures of all open projects by name, and the number of workers that do not answer."""
        answers = await self._ask(FIGURES)
        found = self._figures(hubs)
        for answer in answers:
            found += [] if answer is None else msgspec.json.decode(answer, type=list[OpenProjectFigures])
        return sorted(found, key=lambda one: one.project), answers.count(None)

    async def readiness(self, hubs: list[Hub]) -> AllReady:
        """Check in every open project whether commits work."""
        own, answers = await asyncio.gather(_readiness(hubs), self._ask(READINESS))
        known = [own, *(msgspec.json.decode(one, type=AllReady) for one in answers if one is not None)]
        return AllReady(sum(one.open for one in known), sum(one.not_ready for one in known), answers.count(None))

    async def metrics(self, hubs: list[Hub]) -> bytes:
        """Return the metrics of all open projects in Prometheus's text format."""
        answers = await self._ask(METRICS)
        texts = [self._exposed(hubs), *(one for one in answers if one is not None)]
        registry = CollectorRegistry()
        silent = Gauge("workers_silent", "Processes of the hub that did not answer this scrape.", registry=registry)
        silent.set(answers.count(None))
        return merged(texts) + generate_latest(registry)

    async def _ask(self, question: str) -> list[bytes | None]:
        return [] if self.peers is None else list((await self.peers.ask(question)).values())

    def _figures(self, hubs: list[Hub]) -> list[OpenProjectFigures]:
        return [_figures(hub, self.worker) for hub in hubs]

    def _exposed(self, hubs: list[Hub]) -> bytes:
        for hub in hubs:
            if len(self._shown) >= self._metrics_max:
                break
            self._shown.setdefault(hub.host.project)
        shown = [hub for hub in hubs if hub.host.project in self._shown]
        registry = CollectorRegistry()
        opened = Gauge("projects_open", "Open projects, by process.", ["worker"], registry=registry)
        opened.labels(str(self.worker)).set(len(hubs))
        hidden = Gauge(
            "projects_unlabelled",
            "Open projects without metrics of their own, because the process has as many as it may.",
            ["worker"],
            registry=registry,
        )
        hidden.labels(str(self.worker)).set(len(hubs) - len(shown))
        files = Gauge("open_files", "Open files and connections, by process.", ["worker"], registry=registry)
        files.labels(str(self.worker)).set(open_files.count())
        files_max = Gauge("open_files_max", "Open files that a process may have.", ["worker"], registry=registry)
        files_max.labels(str(self.worker)).set(open_files.limit())
        of_projects = exposed(hub.metrics.families(hub.host.exchange.state, hub.host.project) for hub in shown)
        return of_projects + generate_latest(registry)


def _figures(hub: Hub, worker: int) -> OpenProjectFigures:
    host, state = hub.host, hub.host.exchange.state
    return OpenProjectFigures(
        project=host.project,
        worker=worker,
        condition=host.condition,
        reason=host.reason,
        seq=state.seq,
        agents=len(state.agents),
        sessions=len(state.sessions),
        waiting=tuple(state.depths),
        dead_letters=len(state.dead),
    )


async def _readiness(hubs: Iterable[Hub]) -> AllReady:
    found = await asyncio.gather(*(hub.readiness.check() for hub in hubs))
    return AllReady(len(found), sum(not one.ready for one in found), 0)


def merged(texts: list[bytes]) -> bytes:
    """Join metrics of several processes: every metric once, with the samples of all of them."""
    if len(texts) == 1:
        return texts[0]
    families: dict[bytes, list[bytes]] = {}
    for text in texts:
        for part in text.split(b"# HELP ")[1:]:
            described, _, rest = part.partition(b"\n")
            kind, _, samples = rest.partition(b"\n")
            name = described.partition(b" ")[0]
            families.setdefault(name, [b"# HELP " + described + b"\n" + kind + b"\n"]).append(samples)
    return b"".join(part for family in families.values() for part in family)
