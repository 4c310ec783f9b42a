"""Writes to VolumeAttachments; what each of them gives back goes into the cache."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

from mooring.controllers.attacher import requests
from mooring.kube.client import Client
from mooring.kube.errors import Conflict, NotFound
from mooring.kube.informer import Informer
from mooring.kube.objects import VolumeAttachment
from mooring.kube.times import Now, format_time
from mooring.volumes.errors import VolumeError


class Writes:
    """The cache, and what is written through to it."""

    def __init__(self, client: Client, cache: Informer[VolumeAttachment], now: Now) -> None:
        self.client = client
        self._cache = cache
        self._now = now

    async def revise(self, record: VolumeAttachment, patch: Mapping[str, Any]) -> VolumeAttachment:
        """Conflict if anybody has written it since it was read."""
        return self._accept(await self.client.revise(record, patch))

    async def annotate(self, record: VolumeAttachment, notes: Mapping[str, str | None]) -> VolumeAttachment:
        """The same, of annotations; None takes one away."""
        return await self.revise(record, {"metadata": {"annotations": dict(notes)}})

    async def withdraw(
        self, record: VolumeAttachment, annotation: str, notes: Mapping[str, str] = MappingProxyType({})
    ) -> None:
        """The latest request in `record` was answered, or not sent: it is not outstanding. Those that another process
        has noted meanwhile stay."""
        latest, live = requests.times(record, annotation)[-1], record
        while live is not None and live.uid == record.uid:
            rest = requests.without(requests.times(live, annotation), latest)
            try:
                patch = {"metadata": {"annotations": {**notes, annotation: rest}}}
                self._cache.accept(await self.client.revise(live, patch))
                return
            except Conflict:
                live = await self.client.find(VolumeAttachment, record.name)
            except NotFound:
                return

    async def store_status(self, record: VolumeAttachment, status: dict[str, Any]) -> VolumeAttachment:
        """Whatever else was written since: the status is ours."""
        return self._accept(await self._patch_status(record, status))

    async def store_error(self, record: VolumeAttachment, field: str, error: Exception) -> None:
        """What an attach or detach came to, in words."""
        certain = "" if isinstance(error, VolumeError) else f"{type(error).__name__}: "
        status = {field: {"time": format_time(self._now()), "message": f"{certain}{error}"}}
        try:
            self._cache.accept(await self._patch_status(record, status))
        except NotFound:
            return

    async def _patch_status(self, record: VolumeAttachment, status: dict[str, Any]) -> VolumeAttachment:
        return await self.client.revise(record, {"status": status}, subresource="status", any_version=True)

    def _accept(self, record: VolumeAttachment) -> VolumeAttachment:
        """The answer of a write with which the worker of this record goes on: its key need not be marked for it. (What
        it does not go on with may hold somebody else's deletion, of which the watch would then say nothing any more.)
        """
        self._cache.accept(record, tell=False)
        return record
