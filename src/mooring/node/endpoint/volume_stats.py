"""Measures how full volumes are, and lets none that does not answer keep anything waiting.

A file system whose server has gone may answer never, and nothing can end the call. Guarantees: a measurement
has threads of its own (`mooring.mounts.blocking.apart`); no volume is asked again while it is being asked, so
that no more threads wait than there are such volumes; `measure` returns within its deadline. What was asked
is known for a while. It must not know pods or claims.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Mapping
from typing import NamedTuple

import structlog

from mooring.mounts.blocking import apart
from mooring.volumes.interfaces import Metrics, MetricsNotSupported, Volume

DEADLINE_S = 5.0
"""Half of the time that a scrape has by default."""
AT_ONCE = 16
PLACE_S = 1.0
"""How long a volume counts as one of those that are asked at once."""

log = structlog.get_logger("node-agent")


class _Answer(NamedTuple):
    metrics: Metrics | None
    """None: it has none."""
    at: float


class VolumeStats:
    """What is known of the volumes of one node, by their paths."""

    def __init__(self, deadline_s: float = DEADLINE_S) -> None:
        self._deadline_s = deadline_s
        self._answers: dict[str, _Answer] = {}
        self._asking: dict[str, asyncio.Task[None]] = {}
        self._told: dict[str, str] = {}
        self._places = asyncio.Semaphore(AT_ONCE)

    @property
    def unanswered(self) -> int:
        """How many volumes are being asked just now, or do not answer."""
        return len(self._asking)

    async def measure(self, volumes: Iterable[Volume], max_age_s: float = 0.0) -> Mapping[str, Metrics]:
        """The use of those that have figures, no older than `max_age_s`; left out are those that do not
        answer in time."""
        by_path = {volume.get_path(): volume for volume in volumes}
        self._forget(by_path.keys())
        oldest = asyncio.get_running_loop().time() - max_age_s
        due = [path for path in by_path if not self._is_known(path, oldest)]
        asked = {path: self._ask(path, by_path[path]) for path in due}
        if asked:
            await asyncio.wait(asked.values(), timeout=self._deadline_s)
        for path, task in asked.items():
            if not task.done():
                self._tell(path, f"it has not said within {self._deadline_s:g} s how full it is")
        found = {path: self._answers[path].metrics for path in by_path if self._is_known(path, oldest)}
        return {path: metrics for path, metrics in found.items() if metrics is not None}

    def _is_known(self, path: str, oldest: float) -> bool:
        return path in self._answers and self._answers[path].at >= oldest

    def _forget(self, paths: Iterable[str]) -> None:
        """What is not there any more."""
        kept = set(paths)
        for known in (self._answers, self._told):
            for path in known.keys() - kept:
                del known[path]

    def _ask(self, path: str, volume: Volume) -> asyncio.Task[None]:
        if (known := self._asking.get(path)) is not None:
            return known
        task = self._asking[path] = asyncio.create_task(self._answer(path, volume), name=f"stats of {path}")
        task.add_done_callback(lambda _: self._asking.pop(path))
        return task

    async def _answer(self, path: str, volume: Volume) -> None:
        async with self._places:
            looking = asyncio.create_task(_look(volume))
            await asyncio.wait({looking}, timeout=PLACE_S)
        metrics: Metrics | None = None
        try:
            metrics = await looking
            self._told.pop(path, None)
        except Exception as error:
            self._tell(path, f"{type(error).__name__}: {error}")
        self._answers[path] = _Answer(metrics, asyncio.get_running_loop().time())

    def _tell(self, path: str, problem: str) -> None:
        """Once, until it answers."""
        if self._told.get(path) != problem:
            self._told[path] = problem
            step = "look whether its storage is well; its figures are left out until it answers"
            log.warning("use of a volume not known", path=path, problem=problem, step=step)


async def _look(volume: Volume) -> Metrics | None:
    with apart():
        try:
            return await volume.get_metrics()
        except MetricsNotSupported:
            return None
