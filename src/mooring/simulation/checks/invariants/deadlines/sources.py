"""What claims are to be copies of: whether a copy can be made, and what is kept for one."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import msgspec

from mooring.controllers.provisioning.originals import CLONED
from mooring.kube.objects.snapshots import VolumeSnapshot
from mooring.simulation.checks.invariants.objects import StoredObject
from mooring.simulation.engine.trace import Event, Trace

SNAPSHOTS = "volumesnapshots.snapshot.storage.k8s.io"
_decode = msgspec.json.Decoder(VolumeSnapshot).decode


class Sources:
    """Follows a trace."""

    def __init__(self, trace: Trace) -> None:
        self._snapshots: dict[str, VolumeSnapshot] = {}
        trace.listen("store.written", self._written)
        trace.listen("store.deleted", self._deleted)

    def is_there(self, name: str, claim: StoredObject, claims: Mapping[str, StoredObject]) -> bool:
        """Whether a copy can be made: its snapshot is ready, or its original is bound, and stays. Those that
        users have taken away, or that are not taken yet, it waits for."""
        source = claim.spec.data_source
        where = f"{name.partition('/')[0]}/{source.name if source is not None else ''}"
        if source is not None and source.kind == "VolumeSnapshot":
            return where in self._snapshots and self._snapshots[where].status.ready_to_use
        original = claims.get(where)
        bound = original is not None and original.status.phase == "Bound"
        return (
            original is not None and bound and (not original.going or CLONED in original.metadata.finalizers)
        )

    def kept(self, claims: Mapping[str, StoredObject]) -> set[str]:
        """The claims that stay until a snapshot is taken of them, or a copy is made."""
        return {*self._taken(), *_copied(claims.items())}

    def _taken(self) -> Iterable[str]:
        for name, snapshot in self._snapshots.items():
            if not snapshot.status.ready_to_use:
                yield f"{name.partition('/')[0]}/{snapshot.spec.source.persistent_volume_claim_name}"

    def _written(self, event: Event) -> None:
        if event.fields["resource"] == SNAPSHOTS:
            self._snapshots[event.fields["name"]] = _decode(event.fields["_body"])

    def _deleted(self, event: Event) -> None:
        if event.fields["resource"] == SNAPSHOTS:
            self._snapshots.pop(event.fields["name"], None)


def _copied(claims: Iterable[tuple[str, StoredObject]]) -> Iterable[str]:
    for name, claim in claims:
        source = claim.spec.data_source
        if source is not None and source.kind == "PersistentVolumeClaim" and claim.status.phase != "Bound":
            yield f"{name.partition('/')[0]}/{source.name}"
