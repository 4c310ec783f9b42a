"""VolumeAttachments whose volume nothing defines any more, or never did: one that was made by a request which
took effect late, when its PersistentVolume had gone.

What such a volume's storage may still do nothing says, so a request about it counts for ten minutes
(docs/protocol.md, C15): for so long its VolumeAttachment rightly stays when all else is as it should be.
Which requests there were the storage says, and not the record.
"""

from __future__ import annotations

import math
from collections.abc import Iterable

from mooring.kube.objects import VolumeAttachment
from mooring.simulation.checks.invariants.objects import ATTACHMENTS, object_of
from mooring.simulation.engine.trace import Event, Trace

VALID_S = 600.0
VOLUMES = "persistentvolumes"


class Undefined:
    """The account of one trace, from its beginning."""

    def __init__(self, trace: Trace) -> None:
        self._defined: set[str] = set()
        self._asked: dict[tuple[str, str], float] = {}  # volume and node -> when the storage was asked last
        trace.listen("store.written", self._written)
        trace.listen("store.deleted", self._deleted)
        trace.listen("truth.begin", self._begin)

    @classmethod
    def of(cls, trace: Trace) -> Undefined:
        """The one of that trace."""
        return trace.shared(cls)

    def __contains__(self, event: Event) -> bool:
        """Whether the event is a write of such a VolumeAttachment."""
        return event.fields["resource"] == ATTACHMENTS and object_of(event).volume_name not in self._defined

    def defines(self, volume: str) -> bool:
        """Whether a PersistentVolume of that name defines the volume."""
        return volume in self._defined

    def stay(self, records: Iterable[VolumeAttachment], now: float) -> set[str]:
        """Those of them that are kept by a request that may still take effect, by their names."""
        return {
            each.name
            for each in records
            if (volume := each.spec.source.persistent_volume_name or "") not in self._defined
            and self._asked.get((volume, each.spec.node_name), -math.inf) + VALID_S > now
        }

    def _written(self, event: Event) -> None:
        if event.fields["resource"] == VOLUMES:
            self._defined.add(event.fields["name"])

    def _deleted(self, event: Event) -> None:
        if event.fields["resource"] == VOLUMES:
            self._defined.discard(event.fields["name"])

    def _begin(self, event: Event) -> None:
        self._asked[event.fields["volume"], event.fields.get("node", "")] = event.time
