"""L20: in the last three minutes no part reads anything live, but for the few that look again and again.

What a cache holds is not read: a part that has nothing to do asks for nothing.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from mooring.simulation.checks.invariants.objects import ATTACHMENTS, VOLUMES, object_of
from mooring.simulation.checks.invariants.writes import writer_of
from mooring.simulation.checks.liveness import Complaint
from mooring.simulation.checks.quiet_period import QuietPeriod
from mooring.simulation.cluster.cluster import SimulatedCluster
from mooring.simulation.engine.trace import Event
from mooring.volumes.attachment_lock import ATTACHED_TO
from mooring.volumes.exclusivity import ONE_POD_MODE

LOOKS_LIVE: Mapping[tuple[str, str], str] = {
    ("attacher", "csinodes"): "verifies what is attached: by the name that the driver has for the node",
    ("node-agent", "configmaps"): "a volume that has a token is written anew from time to time",
    ("node-agent", "secrets"): "the same",
    ("node-agent", "persistentvolumeclaims"): "of a pod that waits, and is tried again",
    **{
        ("mooring-modifier", each): "of a volume whose storage refuses its class, and which is tried again"
        for each in ("persistentvolumeclaims", "persistentvolumes", "volumeattributesclasses")
    },
}
"""Reader and resource, each with the reason why that is read while all is quiet."""
SELDOM: Mapping[tuple[str, str], int] = {
    ("node-agent", "nodes"): 2,  # its report, every five minutes, was overtaken by another's write
    ("node-agent", "leases"): 2,  # then it looks whether it still has the node's name, too
}
"""So often at the most is that read which comes up by chance."""
READS_LIVE = ("fencing-controller",)
"""Readers that decide upon nothing that a cache has, and look as often as there is something to fence."""
VERIFIER = ("attacher", VOLUMES)
"""It verifies what is attached: of CSI volumes without a lock from its cache, of others live."""


class QuietReads:
    """L20, on one run."""

    def __init__(self, cluster: SimulatedCluster, quiet: QuietPeriod) -> None:
        self._quiet, self._silent = quiet, cluster.silent
        self._cached: dict[str, bool] = {}
        """PersistentVolume -> whether the attacher may have it from a cache."""
        self._one_pod: set[str] = set()
        """PersistentVolumes that only one pod may use, and their VolumeAttachments: what another pod of that
        node reads time and again."""
        self._read: dict[tuple[str, str], int] = {}
        cluster.trace.listen("asked.read", self._note)
        cluster.trace.listen("store.written", self._written)

    def _written(self, event: Event) -> None:
        resource, name = event.fields["resource"], event.fields["name"]
        if resource == VOLUMES:
            volume = object_of(event)
            locked = ATTACHED_TO in volume.metadata.annotations
            self._cached[name] = volume.spec.csi is not None and not locked
            if ONE_POD_MODE in volume.spec.access_modes:
                self._one_pod.add(name)
        elif resource == ATTACHMENTS and object_of(event).volume_name in self._one_pod:
            self._one_pod.add(name)

    def _note(self, event: Event) -> None:
        what = writer_of(event), event.fields["resource"]
        if event.time <= self._quiet.begins or what in LOOKS_LIVE or what[0] in READS_LIVE:
            return
        if what[0] == "node-agent" and event.fields["name"] in self._one_pod:
            return
        if what != VERIFIER or self._cached.get(event.fields["name"], False):
            self._read[what] = self._read.get(what, 0) + 1

    def complaints(self) -> Iterator[Complaint]:
        """What was read. Of a machine that is silent for good it may be looked again whether it still is."""
        for what, times in self._read.items() if not self._silent else ():
            if times > SELDOM.get(what, 0):
                yield "L20", f"{what[0]} reads {what[1]} while all is quiet: {times} times"
