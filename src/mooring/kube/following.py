"""The objects of several kinds, followed together: for views that are drawn anew when anything has changed.

Guarantees: once the context is entered, the first list of each kind is there; `changed` returns for each
change that comes after it was called last. It reads only. It does not know what the objects are for.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from random import Random, SystemRandom
from types import TracebackType
from typing import Any, Self, TypeVar, cast

from mooring.kube.client import Client
from mooring.kube.errors import Forbidden, NotFound
from mooring.kube.informer import Informer
from mooring.kube.objects import Object

T = TypeVar("T", bound=Object)


class Following:
    """Watches all objects of `kinds`, in all namespaces; of `optional` kinds those that the API server
    knows."""

    def __init__(
        self,
        client: Client,
        kinds: Sequence[type[Object]],
        optional: Sequence[type[Object]] = (),
        *,
        random: Random | None = None,
    ) -> None:
        self._client = client
        self._kinds = kinds
        self._optional = optional
        self._random = random or SystemRandom()
        self._informers: dict[type[Object], Informer[Any]] = {}
        self._tasks: list[asyncio.Task[None]] = []
        self._change = asyncio.Event()
        self.revision = 0
        """Another number after each change of an object."""

    def of(self, kind: type[T]) -> list[T]:
        """The objects of a kind as they are known now; none of a kind that the API server does not know."""
        informer = self._informers.get(kind)
        return cast("list[T]", informer.items()) if informer is not None else []

    @property
    def silence(self) -> str:
        """Why nothing new is heard of one of the kinds, so that what is known may be old; "" while all are
        watched."""
        return next((str(each.trouble) for each in self._informers.values() if each.trouble), "")

    def _note(self) -> None:
        self.revision += 1
        self._change.set()

    def touch(self) -> None:
        """Makes `changed` return, although nothing has changed."""
        self._change.set()

    async def changed(self) -> None:
        """Returns once something has changed since it returned last, or whether a kind is heard of."""
        await self._change.wait()
        self._change.clear()

    async def __aenter__(self) -> Self:
        """KubeError if the API server does not answer, or refuses one of the kinds."""
        for kind in (*self._kinds, *self._optional):
            if await self._is_known(kind):
                informer = Informer(self._client, kind, random=self._random)
                informer.add_handler(lambda old, new: self._note())
                informer.on_trouble = self.touch
                self._informers[kind] = informer
        self._tasks = [asyncio.create_task(each.run()) for each in self._informers.values()]
        try:
            for each in self._informers.values():
                await each.synced()
        except BaseException:
            await self._end()
            raise
        return self

    async def _is_known(self, kind: type[Object]) -> bool:
        """Asks for one object, so that a refusal is an error now and not a watch that is tried for ever."""
        try:
            await self._client.version(kind)
        except (NotFound, Forbidden):
            if kind in self._optional:
                return False
            raise
        return True

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self._end()

    async def _end(self) -> None:
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
