"""Feeds the model from the API: an informer for each kind, and the times at which the model works.

Guarantees: it lists and watches, and nothing else; a kind that may not be read, or is not known to the
cluster, is said (`reads`) and keeps nothing else from being shown; explanations are given in slices of
SLICE_S, so that a change is on its way within FLUSH_S also while thousands of objects are explained.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from random import Random
from typing import Any

import structlog

from mooring.kube.client import Client
from mooring.kube.errors import ApiError, Forbidden, NotFound, Unauthorized
from mooring.kube.informer import Informer
from mooring.kube.objects import Object
from mooring.kube.objects.fencing import NodeFence
from mooring.page.history import Batch
from mooring.page.model import Model
from mooring.page.text import message
from mooring.page.truth import Looks
from mooring.page.world import KINDS

log = structlog.get_logger(component="page")

FLUSH_S = 0.03
SLICE_S = 0.008
BEGIN_S = 5.0
"""The page is shown after so many seconds, also while a kind has not been read."""
AGAIN_S = 2.0
SHARE = 0.01
"""Of everything, so much is explained anew every AGAIN_S seconds."""
LOOK_S = 0.25

Tell = Callable[[Batch], None]


class Following:
    """Runs the informers and the model. `tell` is called with each batch of changes."""

    def __init__(self, client: Client, model: Model, tell: Tell, looks: Looks | None = None) -> None:
        self._model, self._tell, self._looks = model, tell, looks
        self.informers: list[Informer[Any]] = [
            Informer[Any](client, kind, random=Random(number)) for number, kind in enumerate(KINDS)
        ]
        for informer in self.informers:
            informer.add_handler(self._changed)
        self._woken = asyncio.Event()
        self.begun = asyncio.Event()

    async def run(self) -> None:
        """Follows until cancelled."""
        async with asyncio.TaskGroup() as group:
            for informer in self.informers:
                group.create_task(informer.run())
            group.create_task(self._work())
            group.create_task(self._sweep())
            if self._looks is not None:
                group.create_task(self._look(self._looks))

    def reads(self) -> list[dict[str, str]]:
        """What is not read, and why; `right` if it is a right that is missing."""
        found: list[dict[str, str]] = []
        for informer in self.informers:
            trouble, plural = informer.trouble, informer.kind.RESOURCE.plural
            if trouble is None or (informer.kind is NodeFence and isinstance(trouble, NotFound)):
                continue
            row = {"kind": plural, "message": message(str(trouble))}
            if isinstance(trouble, Forbidden | Unauthorized):
                row["right"] = "get, list, watch"
            found.append(row)
        return found

    def connected(self) -> bool:
        """Whether the API server answers anything."""
        troubles = [informer.trouble for informer in self.informers]
        return any(each is None or isinstance(each, ApiError) for each in troubles)

    def _changed(self, old: Object | None, new: Object | None) -> None:
        self._model.apply(old, new)
        self._woken.set()

    async def _work(self) -> None:
        loop = asyncio.get_running_loop()
        latest = loop.time() + BEGIN_S
        while any(not each.version and each.trouble is None for each in self.informers):
            if loop.time() > latest:
                break
            await asyncio.sleep(FLUSH_S)
        while self._model.behind:
            self._model.flush()
            await asyncio.sleep(0)
        self._model.record()
        self.begun.set()
        while True:
            await self._woken.wait()
            await asyncio.sleep(FLUSH_S)
            self._woken.clear()
            while self._model.busy:
                self._pass_on(self._model.flush())
                if not self._model.behind:  # what is seen goes before why it is so
                    end = loop.time() + SLICE_S
                    self._pass_on(self._model.explain(lambda end=end: loop.time() > end))
                await asyncio.sleep(0)

    def _pass_on(self, batch: Batch | None) -> None:
        if batch is not None:
            self._tell(batch)

    async def _sweep(self) -> None:
        while True:
            await asyncio.sleep(AGAIN_S)
            self._model.again(SHARE)
            self._woken.set()

    async def _look(self, looks: Looks) -> None:
        await self.begun.wait()
        while True:
            try:
                self._model.see(await looks.look(self._model.handles()))
                if self._model.busy:
                    self._woken.set()
            except Exception as error:  # what is reported is shown also where truth cannot be had
                log.warning("cannot look", error=repr(error))
            await asyncio.sleep(LOOK_S)
