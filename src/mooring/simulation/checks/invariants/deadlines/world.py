"""What exists at a moment of a run: objects as they are stored, and what is true of storage and machines."""

from __future__ import annotations

import math
from collections import defaultdict

from mooring.controllers.provisioning.askers import ASKED_BY
from mooring.controllers.provisioning.decide import BEGUN
from mooring.simulation.checks.invariants.deadlines.classes import ATTRIBUTES, CLASSES, Classes
from mooring.simulation.checks.invariants.deadlines.sources import Sources
from mooring.simulation.checks.invariants.fences import FENCES, OVER
from mooring.simulation.checks.invariants.kept_objects import SNAPSHOTS
from mooring.simulation.checks.invariants.node_reports import NodeReports, Report
from mooring.simulation.checks.invariants.objects import (
    ATTACHMENTS,
    CLAIMS,
    CONFIG_MAPS,
    SECRETS,
    VOLUMES,
    StoredObject,
    object_of,
)
from mooring.simulation.checks.invariants.places import UNSCHEDULABLE, Taint, tolerates
from mooring.simulation.checks.invariants.shut_out import ShutOut
from mooring.simulation.checks.invariants.statements import Statements
from mooring.simulation.cluster.other_parties import HOLDS
from mooring.simulation.engine.trace import Event, Trace
from mooring.volumes.exclusivity import ONE_POD_MODE

SETS = "statefulsets.apps"
CSI_NODES = "csinodes.storage.k8s.io"

Objects = dict[str, StoredObject]
Place = tuple[str, str]
"""Volume and node."""


def _repels(node: StoredObject) -> tuple[Taint, ...]:
    """The taints by which a node keeps pods away."""
    return (*node.spec.taints, UNSCHEDULABLE) if node.spec.unschedulable else node.spec.taints


def is_held(record: StoredObject) -> bool:
    """Whether nothing but finalizers of other parties keeps a VolumeAttachment that is being deleted."""
    finalizers = record.metadata.finalizers
    return record.going and bool(finalizers) and HOLDS.issuperset(finalizers)


class World:
    """Follows a trace. `changed` is set by whatever may begin or end a wait."""

    def __init__(self, trace: Trace) -> None:
        self.pods: Objects = {}
        self.claims: Objects = {}
        self.volumes: Objects = {}
        self.records: Objects = {}
        self.sets: Objects = {}
        self.csi_nodes: Objects = {}
        self.fences: Objects = {}
        self.config_maps: Objects = {}
        self.secrets: Objects = {}
        self.classes = Classes(trace)
        self.sources = Sources(trace)
        self._stripped: defaultdict[str, set[str]] = defaultdict(set)
        """Uid of a pod -> volumes whose claims went while it used them: users had stripped them."""
        self.filled: set[str] = set()  # uids of pods that have put too much into their volumes
        self._of_several: set[str] = set()  # uids of claims for which several processes have asked
        self._made: dict[str, float] = {}  # uid of a VolumeAttachment -> when it was made
        self._word: dict[str, float] = {}  # node -> when an operator has last said that it is dead
        trace.listen("plan.declared", self._declared)
        self.reports = NodeReports.of(trace)
        self.stated = Statements.of(trace)
        self.shut_out = ShutOut.of(trace)
        self.mounted: set[Place] = set()
        self.attached: set[Place] = set()
        self.off: set[str] = set()
        self.changed = False
        self._tables = {
            "pods": self.pods,
            CLAIMS: self.claims,
            VOLUMES: self.volumes,
            ATTACHMENTS: self.records,
            SETS: self.sets,
            CSI_NODES: self.csi_nodes,
            FENCES: self.fences,
            CONFIG_MAPS: self.config_maps,
            SECRETS: self.secrets,
        }
        trace.listen("store.written", self._written)
        trace.listen("store.deleted", self._deleted)
        trace.listen("truth.power", self._power)
        trace.listen("truth.filled", self._filled)
        trace.listen("truth.shut-out", self._door)
        trace.listen("truth.let-in", self._door)
        trace.listen("truth.mounted", lambda event: self._place(self.mounted, event, there=True))
        trace.listen("truth.unmounted", lambda event: self._place(self.mounted, event, there=False))
        trace.listen("truth.attached", lambda event: self._place(self.attached, event, there=True))
        trace.listen("truth.detached", lambda event: self._place(self.attached, event, there=False))

    def _written(self, event: Event) -> None:
        table = self._tables.get(event.fields["resource"])
        if table is not None:
            written = table[event.fields["name"]] = object_of(event)
            if table is self.records:
                self._made.setdefault(written.metadata.uid, event.time)
            if table is self.claims and " " in written.metadata.annotations.get(ASKED_BY, ""):
                self._of_several.add(written.metadata.uid)
            self.changed = True
        elif event.fields["resource"] in ("nodes", CLASSES, ATTRIBUTES, SNAPSHOTS):
            self.changed = True

    def _deleted(self, event: Event) -> None:
        table, name = self._tables.get(event.fields["resource"]), event.fields["name"]
        if table is self.claims and (claim := self.claims.get(name)) is not None and claim.spec.volume_name:
            for key, pod in self.pods.items():
                if pod.spec.node_name and not pod.ended and name in self.claims_of(key, pod):
                    self._stripped[pod.metadata.uid].add(claim.spec.volume_name)
        if table is not None:
            table.pop(name, None)
        self.changed = True

    def _declared(self, event: Event) -> None:
        if event.fields["out"]:
            self._word[event.fields["node"]] = event.time
        self.changed = True

    def _filled(self, event: Event) -> None:
        self.filled.add(event.fields["uid"])
        self.changed = True

    def _power(self, event: Event) -> None:
        (self.off.discard if event.fields["on"] else self.off.add)(event.actor)
        self.changed = True

    def _door(self, event: Event) -> None:
        self.changed = True

    def _place(self, places: set[Place], event: Event, *, there: bool) -> None:
        (places.add if there else places.discard)((event.fields["volume"], event.fields["node"]))
        self.changed = True

    # --- what follows from it

    def report(self, node: str) -> Report:
        """What the node has said."""
        return self.reports[node]

    def answers(self, node: str) -> bool:
        """Whether the Node exists and is not Unknown."""
        report = self.reports[node]
        return report.node is not None and report.node.ready != "Unknown"

    def silent_after(self, node: str, grace_s: float) -> float:
        """When the node counts as silent, if it gives no other sign of life."""
        return self.reports[node].sign + grace_s

    def is_being_fenced(self, node: str) -> bool:
        """Whether a fence of it is under way, which is asked before a Node that is gone says anything."""
        return any(
            each.spec.node_name == node and each.status.phase not in OVER for each in self.fences.values()
        )

    def is_dead(self, node: str) -> bool:
        """Whether an operator says so, and it is true."""
        return node in self.stated and node in self.off

    def is_left(self, record: StoredObject) -> bool:
        """Whether a VolumeAttachment was made after its Node was gone and declared dead: that word is written
        on those that there are, so another one is needed."""
        node = record.spec.node_name
        spoken = self._word.get(node, math.inf)
        return self.reports[node].node is None and self._made[record.metadata.uid] > spoken

    def is_kept(self, volume: str) -> bool:
        """Whether such a VolumeAttachment, or one that another party holds, keeps the volume."""
        ours = (each for each in self.records.values() if each.volume_name == volume)
        return any(self.is_left(each) or is_held(each) for each in ours)

    def may_be_asked_for(self, claim: StoredObject) -> bool:
        """Whether a claim that is to go stays for a while, as another process may be asking for it."""
        return claim.metadata.uid in self._of_several and BEGUN in claim.metadata.finalizers

    def is_for_one_pod(self, volume: str) -> bool:
        """Whether no two pods may use the volume, on whatever nodes."""
        return volume in self.volumes and ONE_POD_MODE in self.volumes[volume].spec.access_modes

    def takes_pods(self, node: StoredObject) -> bool:
        """Whether the scheduler may place a pod there, whichever it is."""
        return node.ready == "True" and not _repels(node)

    def takes(self, name: str, pod: StoredObject) -> bool:
        """Whether the scheduler may place that pod on the node of that name."""
        node = self.reports[name].node
        if node is None or node.ready != "True" or name not in (pod.spec.affinity.only_on or (name,)):
            return False
        return tolerates(pod.spec.tolerations, _repels(node))

    def can_attach(self, node: str, volume: str) -> bool:
        """Whether the driver of the volume is there; a volume of a plugin needs none."""
        of_driver = volume in self.volumes and self.volumes[volume].spec.csi is not None
        return not of_driver or self.has_driver(node)

    def has_driver(self, node: str) -> bool:
        """Whether the node service of a CSI driver is registered there."""
        return node in self.csi_nodes and bool(self.csi_nodes[node].spec.drivers)

    def volumes_of(self, name: str, pod: StoredObject) -> list[str]:
        """The volumes of a pod's claims, "" for a claim that is not bound, or that goes."""
        return [self._volume_of(claim) for claim in self.claims_of(name, pod)]

    @staticmethod
    def claims_of(name: str, pod: StoredObject) -> list[str]:
        """The claims of the pod of that name."""
        namespace = name.partition("/")[0]
        return [f"{namespace}/{claim}" for claim in pod.claims]

    def lacks_content(self, name: str, pod: StoredObject) -> bool:
        """Whether a ConfigMap or Secret is gone that the pod of that name shows."""
        namespace = name.partition("/")[0]
        return any(
            f"{namespace}/{each}" not in self._tables[resource]
            for volume in pod.spec.volumes
            for resource, each in volume.objects
        )

    def _volume_of(self, name: str) -> str:
        claim = self.claims.get(name)
        bound = claim is not None and claim.status.phase == "Bound" and not claim.going
        return claim.spec.volume_name if claim is not None and bound else ""

    def stripped_claims(self) -> set[str]:
        """The claims that pods name which have a node and have not ended, and that are gone: users have
        stripped them."""
        holders = ((name, pod) for name, pod in self.pods.items() if pod.spec.node_name and not pod.ended)
        return {claim for name, pod in holders for claim in self.claims_of(name, pod)} - self.claims.keys()

    def users(self) -> dict[str, list[tuple[str, StoredObject]]]:
        """Volume -> the pods that have a node and have not ended, with their names."""
        found: defaultdict[str, list[tuple[str, StoredObject]]] = defaultdict(list)
        for name, pod in self.pods.items():
            if pod.spec.node_name and not pod.ended:
                for claim in self.claims_of(name, pod):
                    if claim in self.claims:
                        found[self.claims[claim].spec.volume_name].append((name, pod))
                for volume in self._stripped.get(pod.metadata.uid, ()):
                    found[volume].append((name, pod))
        return found

    def places(self) -> dict[str, set[str]]:
        """Volume -> the nodes that have it, or that a VolumeAttachment names."""
        found: defaultdict[str, set[str]] = defaultdict(set)
        for record in self.records.values():
            found[record.volume_name].add(record.spec.node_name)
        for volume, node in (*self.mounted, *self.attached):
            found[volume].add(node)
        return found
