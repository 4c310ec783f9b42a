"""Lists in pages. EC2's own pages cannot serve: they have a minimum size, and their tokens expire.

A request for the first page reads the list anew. The following pages come from that list while it is younger
than `YOUNG_S`, so that many small pages do not cost many calls; after that they read it anew, too.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from typing import Generic, TypeVar

from mooring.csi.driver.capacity import GIB
from mooring.csi.driver.paging import page
from mooring.csi.proto import csi_pb2 as csi
from mooring.ebs.ec2.records import Volume
from mooring.ebs.topology import volume_topology

YOUNG_S = 10.0

_Item = TypeVar("_Item")


class Listing(Generic[_Item]):
    """The pages of one kind of list. `time` is the event loop's."""

    def __init__(self, time: Callable[[], float]) -> None:
        self._time = time
        self._key: object = None
        self._read_at = float("-inf")
        self._items: Mapping[str, _Item] = {}

    async def page(
        self,
        request: csi.ListVolumesRequest | csi.ListSnapshotsRequest,
        key: object,
        read: Callable[[], Awaitable[Mapping[str, _Item]]],
    ) -> tuple[dict[str, _Item], str]:
        """The items of the page, and the next page's token. `key` identifies the list. Raises CsiError,
        ABORTED, for a token that this driver has not given out; and what `read` raises."""
        is_same = bool(request.starting_token) and key == self._key and self._time() < self._read_at + YOUNG_S
        items = self._items if is_same else await read()
        if request.max_entries and not is_same:
            self._key, self._read_at, self._items = key, self._time(), items
        return page(items, request)


def volume_message(volume: Volume, context: Mapping[str, str] | None = None) -> csi.Volume:
    """The volume as CSI's message."""
    return csi.Volume(
        volume_id=volume.id,
        capacity_bytes=volume.size * GIB,
        volume_context=context,
        accessible_topology=[volume_topology(volume.zone)],
    )


def entry(volume: Volume) -> csi.ListVolumesResponse.Entry:
    """The volume and the nodes to which it is attached; a detaching one still counts as attached."""
    nodes = sorted(each.instance_id for each in volume.attachments if each.instance_id)
    status = csi.ListVolumesResponse.VolumeStatus(published_node_ids=nodes)
    return csi.ListVolumesResponse.Entry(volume=volume_message(volume), status=status)
