"""The shape of a simulated cluster, and which faults may strike it. Read from a file; by default each seed
draws its own (`cluster.swarm`).

    nodes: 3
    sets: {db: 2, web: 2}        # StatefulSets and their replicas; each pod has a volume of its own
    minutes: 30                  # simulated; faults strike in the first two thirds, then everything is healed
    calm_minutes: 10             # or so long before the end
    faults: 8                    # on average
    actions: 8                   # of users, on average
    only: [power-off, cut]       # kinds of faults; default: all that Mooring is to survive (docs/safety.md)
    every: false                 # each of them strikes once at the least
    on: [nodes]                  # what faults strike: nodes, controllers, or single parts (n0, attaching)
    steps:                       # what happens beside that, always at the same time
      - {at: 300, what: power-off, on: n0, value: 240}
    grace_period_s: 40           # a node that is silent for so long is Unknown
    evict_after_s: 30            # and its pods are evicted after so long
    force_detach_after_s: 360    # volumes that can be cut off are taken from it after so long; 0: never
    node_deletion_confirms_death: false
    companions: 0.3              # the share of faults that bring another one with them (`cluster.pairs`)
    weights: {drain: 3, skew: 0} # kinds of faults and actions: how often, where the others are 1
    driver: plugin               # plugin, csi, ebs: how the cluster reaches the storage
    zones: 2                     # of the cloud, if the driver is ebs; nodes take turns
    leases: false                # attachdetach and attacher work under Leases, as several instances do
    history: 0                   # so many changes the API server keeps for watches; 0: its own number
    history_bytes: 0             # and at most so many bytes of them; 0: its own number
    histories: {web: 0}          # the revisionHistoryLimit of a set; default: the API server's own
    collects_nodes: false        # the garbage collector follows Nodes: the CSINode of one that is gone
    disks: tuned                 # what the StorageClass of an ebs driver asks for (`cluster.disk_classes`)
    cloud: {volumes_lag_s: 4}    # its settings (`mooring.cloud.settings`); the rest is drawn, or EC2's own
    storage: array               # array, cloud (revokes), open (revokes, does not refuse), network (neither),
                                 # deferred (detaches later)
    fencing: {ladder: [{mechanism: bmc, confirmWith: [strip]}]}  # the spec of a FencePolicy for all nodes;
    each # node has a bmc and a power strip
                                 # (`parts.fence_device`: storage, portal, storage-a, portal-a: the storage)
    fenced: false                # each seed draws such a policy, whatever else it draws
    shut_out: false              # or one whose ladder ends with the storage, which shuts nodes out of volumes
    policy: rules.py             # a user's rules in place of ours (`cluster.user_rules`)
    swarm: false                 # each seed draws all of that itself
    workloads: {web: one-pod}    # what a set is, if not a StatefulSet with a disk for each pod
                                 # (`cluster.workloads`)
"""

from __future__ import annotations

from typing import Any

import msgspec


class PlanStep(msgspec.Struct, frozen=True, omit_defaults=True):
    """At `at` (seconds) `what` begins on a part; it lasts `value` seconds, or `value` says how much of it."""

    at: float
    what: str
    on: str
    value: float = 0.0
    how: int = 0

    def __str__(self) -> str:
        return f"{self.at:8.1f} s  {self.what} {self.on}" + (f" {self.value:.1f}" if self.value else "")


class Scenario(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """See the module. Times in seconds unless said otherwise."""

    nodes: int = 3
    sets: dict[str, int] = msgspec.field(default_factory=lambda: {"db": 2, "web": 2})
    minutes: float = 30
    faults: int = 8
    actions: int = 8
    only: tuple[str, ...] = ()
    every: bool = False
    weights: dict[str, float] = {}
    workloads: dict[str, str] = {}
    histories: dict[str, int] = {}
    storage: str = "array"
    driver: str = "plugin"
    leases: bool = False
    zones: int = 2
    collects_nodes: bool = False
    cloud: dict[str, Any] = {}
    disks: str = ""
    grace_period_s: float = 40.0
    on: tuple[str, ...] = ()
    steps: tuple[PlanStep, ...] = ()
    evict_after_s: int = 30
    force_detach_after_s: float = 360.0
    node_deletion_confirms_death: bool = False
    calm_minutes: float = 0
    history: int = 0
    history_bytes: int = 0
    companions: float = 0.3
    policy: str = ""
    """A file with rules of a user in place of ours (`cluster.user_rules`)."""
    swarm: bool = False
    """Each seed draws all other fields."""
    fencing: dict[str, Any] = {}
    """The spec of the FencePolicy that there is; empty: nothing is fenced."""
    fenced: bool = False
    """Each seed draws `fencing`."""
    shut_out: bool = False
    """And one whose ladder ends with the storage, which shuts a node out of volumes."""

    @property
    def node_names(self) -> list[str]:
        return [f"n{number}" for number in range(self.nodes)]

    @property
    def has_fencing(self) -> bool:
        return bool(self.fencing)

    @property
    def counts_what_nodes_move(self) -> bool:
        """Whether a detector goes by what a storage counts."""
        return any(each.get("type") == "Storage" for each in self.fencing.get("detectors", []))

    @property
    def is_confirmed(self) -> bool:
        """Whether no device's word counts alone: only then can one that lies be survived."""
        ladder = self.fencing.get("ladder", [])
        return bool(ladder) and all(each.get("confirmWith") for each in ladder)

    @property
    def end_s(self) -> float:
        return self.minutes * 60

    @property
    def heal_s(self) -> float:
        """From then on there are no faults."""
        return self.end_s - self.calm_minutes * 60 if self.calm_minutes else self.end_s * 2 / 3


USUAL = Scenario(workloads={"web": "one-pod"})
"""Three nodes, four volumes, thirty minutes, faults of all kinds."""
DEFAULT = Scenario(swarm=True)
"""What is played where nothing else is asked for."""
