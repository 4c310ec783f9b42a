"""Deletes the objects of a CustomResourceDefinition that is being deleted, and then the definition.

Upstream has a controller for this. Here the request that makes the next step possible performs it: the
deletion of the definition, and that of its last objects if finalizers hold some back.
"""

from __future__ import annotations

from dataclasses import dataclass

from mooring.apiserver.errors import Obj
from mooring.apiserver.objects.catalog import Catalog
from mooring.apiserver.objects.custom.kinds import kinds_of
from mooring.apiserver.objects.deletion import DeleteOptions
from mooring.apiserver.objects.kinds import BUILT_IN
from mooring.apiserver.objects.strategies.definitions import CLEANUP, STORAGE, is_established, is_terminating
from mooring.apiserver.requests.writes import Writer
from mooring.apiserver.routes import Route
from mooring.apiserver.store.object_store import decode
from mooring.apiserver.values.dotted import list_at

_CHANGES = frozenset({"delete", "deletecollection", "update", "patch"})


@dataclass(frozen=True, slots=True)
class Cleanup:
    """Removes the objects of definitions that are being deleted, and then the definitions."""

    writer: Writer
    catalog: Catalog

    def is_due(self, route: Route) -> bool:
        """Whether a request that has ended may have made a step possible."""
        kind = route.kind
        concerned = kind.storage == STORAGE or (kind.custom is not None and kind.custom.terminating)
        return concerned and route.verb in _CHANGES

    async def run(self) -> None:
        """Takes every step that is possible now."""
        for definition in self.catalog.definitions():
            if is_terminating(definition) and CLEANUP in list_at(definition, "metadata.finalizers"):
                await self._run(definition)

    async def _run(self, definition: Obj) -> None:
        if is_established(definition) and await self._instances_left(definition):
            return
        kind, key = BUILT_IN.by_storage[STORAGE], ("", definition["metadata"]["name"])
        head = self.writer.store.head(STORAGE, key)
        if head is None:
            return
        old, new = decode(head.body), decode(head.body)
        new["metadata"]["finalizers"] = [
            each for each in list_at(old, "metadata.finalizers") if each != CLEANUP
        ]
        await self.writer.replace(kind, head, old, new)

    async def _instances_left(self, definition: Obj) -> bool:
        store, kinds = self.writer.store, kinds_of(definition)
        if not kinds:
            return False
        kind = kinds[0].conversion.stored if kinds[0].conversion else kinds[0]
        for each in store.heads(kind.storage):
            head = store.head(kind.storage, each.key)
            if head is not None:
                await self.writer.delete_item(kind, head, decode(head.body), DeleteOptions())
        return bool(store.heads(kind.storage))
