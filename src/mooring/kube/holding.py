"""Holds objects with a finalizer while something is made of them: one rule for all that is copied.

Guarantees:
- What is held when `hold` returns stays held until `let_go` finds, live, that it is needed no more. A caller
  creates what needs an object, or lets it be seen by a list, before it holds the object.
- Neither believes the cache alone, which may be late: that of a process that has stood by, above all.
- Of one process, one task at a time holds an object or lets it go. Else one that has just looked who needs it
  would take the finalizer off under another, which has found it in its place.
- What another process has decided, and writes late, after it has lost its lease, takes no finalizer off: who
  finds an object held, and has not written it itself, changes it (docs/protocol.md, C3: a change of nothing
  leaves late writes valid).
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any, Generic, TypeVar

from mooring.key_locks import KeyLocks
from mooring.kube.client import Client
from mooring.kube.informer import Informer
from mooring.kube.objects import Object

T = TypeVar("T", bound=Object)
HELD_ANEW = "mooring.dev/held-anew"
"""Annotation of what a process holds that has found it held: the version that it has found."""


class Holder(Generic[T]):
    """Of the objects of one kind, with one finalizer. What is read or written gets into `cached`."""

    def __init__(self, client: Client, cached: Informer[T], finalizer: str) -> None:
        self._client = client
        self._cached = cached
        self._finalizer = finalizer
        self._turns = KeyLocks()
        self._held: set[str] = set()
        """Uids of what this process has held, and not let go since."""
        cached.when_gone(lambda each: self._held.discard(each.uid))

    def has(self, each: T) -> bool:
        """Whether the object, as it was read, is held."""
        return self._finalizer in each.metadata.finalizers

    async def hold(self, wanted: T) -> T:
        """Stores the finalizer, and returns the object as it is then. One that is being deleted takes none
        any more, and is returned without. Raises NotFound or Conflict if there is none of that uid."""
        async with self._turns[wanted.key]:
            live = await self._cached.same_live(wanted)
            if self.has(live) and live.uid not in self._held:
                patch = {"annotations": {HELD_ANEW: live.metadata.resource_version}}
            elif self.has(live) or live.deleting:
                return live
            else:
                patch = {"finalizers": [*live.metadata.finalizers, self._finalizer]}
            return self._remember(await self._store(live, patch))

    async def let_go(self, key: str, is_needed: Callable[[], Awaitable[bool]]) -> None:
        """Takes the finalizer off, unless the object is needed, which is asked live: a finalizer that is
        removed need not come back."""
        async with self._turns[key]:
            known = self._cached.get(key)
            if known is not None and self.has(known) and not await is_needed():
                rest = [each for each in known.metadata.finalizers if each != self._finalizer]
                self._held.discard(known.uid)  # this may come late, too
                await self._store(known, {"finalizers": rest or None, "annotations": {HELD_ANEW: None}})

    async def _store(self, read: T, patch: dict[str, Any]) -> T:
        answer = await self._client.revise(read, {"metadata": patch})
        self._cached.accept(answer)
        return answer

    def _remember(self, held: T) -> T:
        if self._cached.knows(held):  # else its end was told already
            self._held.add(held.uid)
        return held
