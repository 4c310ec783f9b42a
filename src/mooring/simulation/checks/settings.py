"""What checkers must know of a scenario: its policies, timers, and what its storage can do. Nothing of its
parts."""

from __future__ import annotations

from typing import NamedTuple

from mooring.controllers.attachdetach.sweep import SWEEP_S
from mooring.controllers.attacher.definitions import UNDEFINED_VALIDITY_S
from mooring.controllers.fencing.detection import STORAGE
from mooring.kube.percentages import portion
from mooring.simulation.cluster.controllers import VERIFY_S
from mooring.simulation.cluster.fencing import fences_itself, policy_of
from mooring.simulation.cluster.scenario import Scenario
from mooring.simulation.engine.trace import Trace
from mooring.simulation.parts.machine import CLOCK_DRIFT, SELF_FENCE_S
from mooring.simulation.parts.storage import KINDS
from mooring.volumes.plugins.csi.driver import REQUEST_VALIDITY_S

WELL_KNOWN_DRIVERS = ("ebs",)
"""Ways to a cloud of which it is known that its detach cuts a node off (`volumes/revocation.py`)."""


class Settings(NamedTuple):
    """Times in seconds. `force_detach_after_s`: 0 where no timer may release anything; `deletion_confirms`:
    the deletion of a Node may. `lazy_claims`: claims wait for their first consumer. `validity_s`: for so long
    a request that was not answered counts as outstanding; what a CSI driver's storage does is not known.
    `undefined_s`: the same, where nothing defines the volume any more. `fence_budget`: so many nodes may be
    fenced at once; `fence_storm`: so many lost at once are a storm (0: any); `fence_releases_pods`: a fence
    of the storage may remove pods that still run; `fences_itself_s`: so long without an acknowledged renewal
    of its Lease, and a node ends its pods (0: it does not)."""

    grace_period_s: float = 40.0
    evict_after_s: float = 30.0
    force_detach_after_s: float = 0.0
    deletion_confirms: bool = False
    lazy_claims: bool = False
    validity_s: float = 30.0
    undefined_s: float = UNDEFINED_VALIDITY_S
    nodes: frozenset[str] = frozenset({"n0", "n1", "n2"})
    fence_budget: int = 0
    fence_storm: int = 0
    fence_releases_pods: bool = False
    fences_itself_s: float = 0.0
    veto_expires_s: float = 0.0
    """For so long a peer's word keeps a node from being fenced; 0: it does not."""
    vetoing_storages: frozenset[str] = frozenset()
    """The mechanisms whose storage keeps a node from being fenced that reads or writes."""
    sweeps_s: float = 0.0
    """In so many seconds the full sweep looks at each volume; 0: nothing tells of it."""
    verifies_s: float = 0.0
    """In so many seconds the attacher asks of each attached volume whether it is; 0: nothing tells of it."""

    @classmethod
    def of_scenario(cls, scenario: Scenario) -> Settings:
        """What the scenario says."""
        kind = KINDS[scenario.storage]
        by_force = scenario.driver in WELL_KNOWN_DRIVERS or (kind.revokes and scenario.driver == "plugin")
        return cls(
            grace_period_s=scenario.grace_period_s,
            evict_after_s=scenario.evict_after_s,
            force_detach_after_s=scenario.force_detach_after_s if by_force else 0.0,
            deletion_confirms=by_force and scenario.node_deletion_confirms_death,
            lazy_claims=scenario.driver == "ebs",
            validity_s=kind.validity_s if scenario.driver == "plugin" else REQUEST_VALIDITY_S,
            undefined_s=max(kind.validity_s, UNDEFINED_VALIDITY_S)
            if scenario.driver == "plugin"
            else REQUEST_VALIDITY_S,
            nodes=frozenset(scenario.node_names),
            fence_budget=_budget(scenario),
            fence_storm=policy_of(scenario.fencing).storm.nodes if scenario.fencing else 0,
            fence_releases_pods=policy_of(scenario.fencing).storage_releases_pods,
            fences_itself_s=SELF_FENCE_S * (1 - CLOCK_DRIFT) if fences_itself(scenario) else 0.0,
            veto_expires_s=_veto_expires(scenario),
            vetoing_storages=_vetoing_storages(scenario),
            sweeps_s=SWEEP_S,
            verifies_s=VERIFY_S if scenario.driver != "ebs" else 0.0,
        )

    @classmethod
    def of(cls, trace: Trace) -> Settings:
        """Those that were given for the trace; else those of a scenario whose storage cuts nodes off."""
        return trace.shared(cls, lambda _: _OTHERWISE)

    def hold_for(self, trace: Trace) -> None:
        """The checkers of the trace find them by it."""
        trace.share(self)


def _veto_expires(scenario: Scenario) -> float:
    peers = policy_of(scenario.fencing).peers if scenario.fencing else None
    return peers.expires_seconds if peers is not None and peers.veto else 0.0


def _vetoing_storages(scenario: Scenario) -> frozenset[str]:
    policy = policy_of(scenario.fencing)
    storages = (each.mechanism for each in policy.detectors if each.type == STORAGE)
    return frozenset(storages) if policy.quorum.veto else frozenset()


def _budget(scenario: Scenario) -> int:
    if not scenario.fencing:
        return 0
    budget, nodes = policy_of(scenario.fencing).budget, scenario.nodes
    share = max(portion(budget.max_share, nodes, up=False), 1) if budget.max_share else nodes
    return min(share, budget.max_concurrent or nodes)


_OTHERWISE = Settings(force_detach_after_s=360.0)
