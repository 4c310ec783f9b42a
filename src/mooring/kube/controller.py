"""The plan that every controller has: informers → queue of keys → reconcile one key → write.

A controller subclasses `Controller`, makes its informers with `watch`, says which keys a change touches, and
reconciles one key at a time. It remembers nothing that it could not read again: after a restart every key is
marked once.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Hashable, Iterable
from random import Random
from typing import Any, Generic, TypeVar

import structlog

from mooring.kube.client import Client
from mooring.kube.errors import ApiError, Conflict, NotFound, is_refusal
from mooring.kube.events import Recorder
from mooring.kube.informer import Indexer, Informer
from mooring.kube.objects import Object
from mooring.kube.times import Now
from mooring.kube.workqueue import WorkQueue

K = TypeVar("K", bound=Hashable)
T = TypeVar("T", bound=Object)

WALL_CLOCK_S = 60.0
"""So long at the most is a time of the wall clock waited for without looking at it again."""
SOON_TRIES, SLOWER_TIMES = 4, 5
"""What was decided on something old is decided again at once so often; then the time doubles, so often."""


class Controller(Generic[K]):
    """One controller; `name` is its Kubernetes name, used for logs and as the source of its events. `K`: its
    keys."""

    name = "controller"
    workers = 8

    def __init__(self, client: Client, *, now: Now, random: Random) -> None:
        self.client = client
        self.now = now
        self.random = random
        self.queue: WorkQueue[K] = WorkQueue(name=self.name)
        self.recorder = Recorder(client, self.name, now=now, random=random)
        self.log: Any = structlog.get_logger(component=self.name)
        self._informers: list[Informer[Any]] = []
        self._overtaken: dict[K, int] = {}  # key -> how often in a row it was decided on something old

    def watch(
        self,
        kind: type[T],
        touches: Callable[[T], Iterable[K]] | None = None,
        *,
        matters: Callable[[T], object] | None = None,
        differ: Callable[[T, T], Iterable[K] | None] | None = None,
        indexers: dict[str, Indexer[T]] | None = None,
        field_selector: str = "",
        keep: Callable[[T], T] | None = None,
        gather: float = 0.0,
    ) -> Informer[T]:
        """An informer of a kind; a change marks the keys that `touches` gives for the old and the new object.

        With `matters`, a change that leaves its value equal marks nothing: heartbeats, or a controller's own
        notes of an error, which must not end that error's backoff. With `differ`, a change marks only the
        keys that it gives for old and new, if it does not give None. `keep` gives what of an object is kept,
        and `gather` how late its changes may be known.
        """
        informer = Informer(
            self.client,
            kind,
            random=self.random,
            indexers=indexers,
            field_selector=field_selector,
            keep=keep,
            gather=gather,
        )
        if touches is not None:

            def changed(old: T, new: T) -> Iterable[K]:
                if matters is not None and matters(old) == matters(new):
                    return ()
                keys = differ(old, new) if differ is not None else None
                return dict.fromkeys((*touches(old), *touches(new))) if keys is None else keys

            def mark(old: T | None, new: T | None) -> None:
                if old is not None and new is not None:
                    keys = changed(old, new)
                else:
                    keys = touches(new) if new is not None else touches(old) if old is not None else ()
                for key in keys:
                    self.queue.add(key)

            informer.add_handler(mark)
        self._informers.append(informer)
        return informer

    def look_again(self, key: K, seconds: float) -> None:
        """Wants work on the key when so many seconds of the wall clock have passed, and once a minute until
        then: that clock may be set meanwhile, and the wait would be as wrong as it was."""
        self.queue.add_after(key, min(seconds, WALL_CLOCK_S))

    def cache(self, kind: type[T]) -> Informer[T]:
        """What this controller knows of a kind. A test that runs no watches puts there what they would
        bring."""
        return next(informer for informer in self._informers if informer.kind is kind)

    @property
    def caches(self) -> tuple[Informer[Any], ...]:
        """The caches of all kinds that this controller watches."""
        return tuple(self._informers)

    async def reconcile(self, key: K) -> None:
        """Makes one key true. Raising brings the key back after its backoff."""
        raise NotImplementedError

    def concerned(self, key: K) -> Iterable[tuple[Object | None, str]]:
        """On which objects users look for what becomes of the key, each with the code under which an event
        says there what the API server refuses; None in the place of one that is gone. Without any they are
        told otherwise."""
        return ()

    async def synced(self) -> None:
        """Returns when work may begin: when all caches are filled."""
        for informer in self._informers:
            await informer.synced()

    async def started(self) -> None:
        """Called once, after `synced` and before the first key is worked on."""

    async def run(self) -> None:
        """Runs until cancelled."""
        async with asyncio.TaskGroup() as group:
            group.create_task(self.follow())
            await self.lead()

    async def follow(self) -> None:
        """Fills the caches, and keeps them current; writes nothing. A candidate does so while it stands
        by."""
        async with asyncio.TaskGroup() as group:
            for informer in self._informers:
                group.create_task(informer.run())

    async def lead(self) -> None:
        """Does the work, beside `follow`: first what has changed last, if it has stood by. Once: another
        controller takes this one's place, and what waits here waits there, too. A timer that goes on would
        keep these caches, and count its key as waiting for good."""
        self.queue.newest_first()
        try:
            async with asyncio.TaskGroup() as group:
                group.create_task(self.recorder.run())
                await self.synced()
                await self.started()
                self.log.info("started", keys=len(self.queue))
                await self.queue.run(self.workers, self._reconcile)
        finally:
            self.queue.close()

    async def _reconcile(self, key: K) -> None:
        try:
            await self.reconcile(key)
        except (Conflict, NotFound) as error:
            # What was decided upon has changed: decide again soon, on newer knowledge. The key rests
            # meanwhile: the writes of a rival would wake it at once, and two could hinder each other for
            # ever. Its worker does not: of a controller that has one, all other keys would wait.
            self.log.debug("decided on something old", key=str(key), error=str(error))
            tries = self._overtaken[key] = self._overtaken.get(key, 0) + 1
            slower = 2.0 ** min(
                max(tries - SOON_TRIES, 0), SLOWER_TIMES
            )  # where the cache is late, hurry is in vain
            self.queue.rest(key, (0.02 + 0.03 * self.random.random()) * slower)
        except ApiError as error:
            if is_refusal(error):
                for about, code in self.concerned(key):  # at each try: an event is kept for an hour only
                    if about is not None:
                        self.recorder.event(about, "Warning", code, str(error))
            raise
        else:
            self._overtaken.pop(key, None)
