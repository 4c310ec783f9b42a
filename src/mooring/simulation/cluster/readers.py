"""What a program reads that is no controller: a list as of a version, a list in pages, and versions of which
it has heard elsewhere (another replica, a cluster that was restored from a backup), not there yet.

What it was answered is told to the trace (`told.read`).
"""

from __future__ import annotations

import asyncio
from contextlib import suppress
from typing import NamedTuple

import msgspec

from mooring.kube.errors import ApiError, KubeError
from mooring.kube.objects import Node, Object, PersistentVolumeClaim, Pod, VolumeAttachment
from mooring.simulation.cluster.cluster import SimulatedCluster
from mooring.simulation.cluster.plan import PlanStep
from mooring.simulation.cluster.workloads import NAMESPACE

KINDS: tuple[type[Object], ...] = (Pod, VolumeAttachment, PersistentVolumeClaim, Node)
EXACTLY, NOT_OLDER, IN_PAGES, ONE = range(4)
"""Ways of reading."""
WAYS = 4
PAGE, PAUSE_S = 1, 0.7
"""How long a page is, and for how long it is looked at before the next one."""


class _Meta(msgspec.Struct, frozen=True, rename="camel"):
    resource_version: str = ""
    continue_: str = msgspec.field(default="", name="continue")
    namespace: str = ""
    name: str = ""


class _Item(msgspec.Struct, frozen=True):
    metadata: _Meta


class _List(msgspec.Struct, frozen=True):
    metadata: _Meta
    items: list[_Item] = []


class Window(NamedTuple):
    """The versions that the API server can answer with, at a moment."""

    floor: int
    newest: int


_decode = msgspec.json.Decoder(_List).decode


class Readers:
    """Each method is a kind of action."""

    def __init__(self, cluster: SimulatedCluster) -> None:
        self._cluster, self._api = cluster, cluster.api

    async def read_back(self, step: PlanStep) -> None:
        """Reads objects of one kind (`how`, and in which way) as they were `value` writes ago; negative: as
        they will be so many writes from now."""
        kind, way = KINDS[step.how % len(KINDS)], step.how // len(KINDS) % WAYS
        store = self._cluster.store
        if store is None:
            return
        asked = max(store.version - int(step.value), 1)
        with suppress(KubeError):
            if way == IN_PAGES:
                await self._read_pages(kind)
            elif way == ONE:
                await self._read(kind, way, asked, (("resourceVersion", str(asked)),), name="none-such")
            else:
                match = "Exact" if way == EXACTLY else "NotOlderThan"
                query = (("resourceVersion", str(asked)), ("resourceVersionMatch", match))
                await self._read(kind, way, asked, query)

    async def _read_pages(self, kind: type[Object]) -> None:
        """What is written between two pages shows in none of them."""
        page, items, asked = _Meta(continue_="begin"), list[_Item](), 0
        while page.continue_:
            token = (("continue", page.continue_),) if asked else ()
            found = await self._read(kind, IN_PAGES, asked, (("limit", str(PAGE)), *token), items)
            if found is None:
                return
            page, items = found.metadata, [*items, *found.items]
            asked = int(page.resource_version)
            await asyncio.sleep(PAUSE_S)

    async def _read(
        self,
        kind: type[Object],
        way: int,
        asked: int,
        query: tuple[tuple[str, str], ...],
        before: list[_Item] | None = None,
        name: str = "",
    ) -> _List | None:
        """The list, if there is one. `before`: what former pages of it had."""
        began, status, answer = self._window(), 200, None
        try:
            path = kind.RESOURCE.path(NAMESPACE, name) if name else kind.RESOURCE.path()
            answer = _decode(await self._api.request("GET", path, query=query))
        except ApiError as error:
            status = error.status
        more = bool(answer is not None and answer.metadata.continue_)
        items = [*(before or []), *(answer.items if answer is not None else [])]
        self._cluster.trace(
            "user",
            "told.read",
            resource=kind.RESOURCE.plural,
            way=way,
            asked=asked,
            status=status,
            version=int(answer.metadata.resource_version) if answer is not None else 0,
            _began=began,
            _ended=self._window(),
            _items=None if more else {_key(each): int(each.metadata.resource_version) for each in items},
        )
        return answer

    def _window(self) -> Window:
        store = self._cluster.store
        return Window(store.floor, store.version) if store is not None else Window(0, 0)


def _key(item: _Item) -> tuple[str, str]:
    return item.metadata.namespace, item.metadata.name
