"""What opinions remember of whom they have heard: a rule of several questions is about what was said
before."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any, Generic, TypeVar
from weakref import ref

from mooring.simulation.engine.event_loop import current_actor

M = TypeVar("M")


_ALL: list[Memories[Any]] = []


def forget_all() -> None:
    """At the end of a run: what is remembered of it would keep all of it."""
    for each in _ALL:
        each.clear()


class Memories(Generic[M]):
    """One for each object, by its identity, and for as long as the object lives, at most for a run."""

    def __init__(self, make: Callable[[], M]) -> None:
        self._make = make
        _ALL.append(self)
        self._by_id: dict[int, tuple[ref[object], M]] = {}

    def clear(self) -> None:
        """Forgets all."""
        self._by_id.clear()

    def of(self, one: object) -> M:
        """That of the object; made when it is asked for first."""
        found = self._by_id.get(id(one))
        if found is None or found[0]() is not one:
            found = self._by_id[id(one)] = (ref(one, self._forgetting(id(one))), self._make())
        return found[1]

    def known(self, one: object) -> M | None:
        """That of the object, if it was asked for before."""
        found = self._by_id.get(id(one))
        return found[1] if found is not None and found[0]() is one else None

    def of_this_process(self) -> M:
        """That of the life of a process that is at work; of the loop, where there are no processes."""
        return self.of(current_actor() or asyncio.get_running_loop())

    def _forgetting(self, number: int) -> Callable[[ref[object]], None]:
        def forget(gone: ref[object]) -> None:
            found = self._by_id.get(number)
            if found is not None and found[0] is gone:
                del self._by_id[number]

        return forget


def now() -> float:
    """The loop's time in seconds."""
    return asyncio.get_running_loop().time()
