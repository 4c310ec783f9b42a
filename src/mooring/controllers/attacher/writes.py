"""Writes to VolumeAttachments. The answer of each write goes into the cache at once."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any

from mooring.controllers.attacher import requests
from mooring.controllers.attacher.request_ages import RequestAges
from mooring.kube.client import Client
from mooring.kube.errors import Conflict, NotFound, conflict
from mooring.kube.informer import Informer
from mooring.kube.objects import VolumeAttachment
from mooring.kube.times import Now, format_time
from mooring.volumes.errors import VolumeError
from mooring.volumes.names import ATTACH_REQUESTED_AT

MOST_TRIES = 5
"""So often is a write tried that another one has overtaken; the worker's backoff comes after that."""


class Writes:
    """Writes through the cache of VolumeAttachments."""

    def __init__(
        self, client: Client, cache: Informer[VolumeAttachment], ages: RequestAges, now: Now
    ) -> None:
        self.client = client
        self._cache = cache
        self._ages = ages
        self._now = now

    async def revise(self, record: VolumeAttachment, patch: Mapping[str, Any]) -> VolumeAttachment:
        """Patches the VolumeAttachment. Raises Conflict if it was written since it was read."""
        return self._accept(await self.client.revise(record, patch))

    async def annotate(self, record: VolumeAttachment, notes: Mapping[str, str | None]) -> VolumeAttachment:
        """The same for annotations; None removes one."""
        return await self.revise(record, {"metadata": {"annotations": dict(notes)}})

    async def erase(self, record: VolumeAttachment, annotation: str) -> None:
        """Removes an annotation, of whatever version."""
        patch = {"metadata": {"annotations": {annotation: None}}}
        self._accept(await self.client.revise(record, patch, any_version=True))

    async def withdraw(
        self, record: VolumeAttachment, annotation: str, notes: Mapping[str, str] = MappingProxyType({})
    ) -> None:
        """Removes the time of the latest request in `record`, which was answered or not sent. Times that
        another process has stored meanwhile stay."""
        latest = requests.times(record, annotation)[-1]

        def patch(live: VolumeAttachment) -> Mapping[str, Any]:
            rest = requests.without(requests.times(live, annotation), latest)
            return {"metadata": {"annotations": {**notes, annotation: rest}}}

        with contextlib.suppress(NotFound):
            written = await self._latest(record, patch)
            if written is not None:
                self._cache.accept(written)

    async def store_attached(
        self, record: VolumeAttachment, status: dict[str, Any]
    ) -> VolumeAttachment | None:
        """Stores that the attach request that is the latest on `record` was carried out. Of one that is being
        deleted only that the request was answered: another attacher may have detached the volume since.

        It is of one version: a write that arrives when its sender has long given it up must not say of a
        volume that was detached meanwhile that it is attached."""

        def patch(live: VolumeAttachment) -> Mapping[str, Any] | None:
            return {"status": status} if not live.deleting else None

        stored = await self._latest(record, patch, subresource="status")
        if stored is not None:
            return self._accept(stored)
        await self.withdraw(record, ATTACH_REQUESTED_AT)
        return None

    async def _latest(
        self,
        record: VolumeAttachment,
        patch: Callable[[VolumeAttachment], Mapping[str, Any] | None],
        subresource: str = "",
    ) -> VolumeAttachment | None:
        """Patches the record in its latest version with what `patch` says of that; None if that is nothing,
        or it is gone. Raises Conflict after a few: an API server that cannot keep what it was told refuses
        each write, and shows what was so before."""
        live: VolumeAttachment | None = record
        for _ in range(MOST_TRIES):
            if live is None or live.uid != record.uid or (wanted := patch(live)) is None:
                return None
            try:
                return await self.client.revise(live, wanted, subresource=subresource)
            except Conflict:
                live = await self.client.find(VolumeAttachment, record.name)
        raise conflict(f"VolumeAttachment {record.name} is written by another all the time")

    async def store_detached(self, record: VolumeAttachment) -> VolumeAttachment:
        """Stores that the volume is detached, in whatever version: it is being deleted, so nothing will
        attach it again."""
        return self._accept(await self._patch_status(record, {"attached": False, "detachError": None}))

    def shows(self, record: VolumeAttachment) -> bool:
        """Whether the cache has this VolumeAttachment."""
        cached = self._cache.get(record.name)
        return cached is not None and cached.uid == record.uid

    async def store_error(self, record: VolumeAttachment, field: str, error: Exception) -> None:
        """Stores why an attach or detach failed, under `field` of the status."""
        certain = "" if isinstance(error, VolumeError) else f"{type(error).__name__}: "
        status = {field: {"time": format_time(self._now()), "message": f"{certain}{error}"}}
        try:
            self._cache.accept(await self._patch_status(record, status))
        except NotFound:
            return

    async def forget_error(self, record: VolumeAttachment) -> None:
        """Takes the error off one that is attached. Raises Conflict if it was written since."""
        patch = {"status": {"attachError": None}}
        self._accept(await self.client.revise(record, patch, subresource="status"))

    async def _patch_status(self, record: VolumeAttachment, status: dict[str, Any]) -> VolumeAttachment:
        return await self.client.revise(record, {"status": status}, subresource="status", any_version=True)

    def _accept(self, record: VolumeAttachment) -> VolumeAttachment:
        """Takes the answer of a write into the cache without marking the key, since this key's worker goes on
        with it. Every other answer marks the key: it may show another client's deletion, which the watch
        would not show again."""
        self._cache.accept(record, tell=False)
        self._ages.note(record)
        return record
