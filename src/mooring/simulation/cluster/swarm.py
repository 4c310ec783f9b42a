"""Draws the cluster of a seed: each seed has its own storage, driver, workloads, kinds of faults and weights.

A run in which everything may happen shows less than many runs in which a few things happen often: what hides
a bug is left out of half of them ("swarm testing", Groce and others, ISSTA 2012). Guarantees: a seed always
draws the same; the 20 seeds from a multiple of 20 on have every driver, storage and kind of workload; in the
plans of the 100 from a multiple of 100 on every pair of kinds of faults comes up that can meet.

Knows nothing of how a fault is played.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cache
from itertools import combinations, cycle, islice
from random import Random
from typing import Any, TypeVar

from msgspec.structs import replace

from mooring.simulation.cluster.disk_classes import CLASSES, FIXED
from mooring.simulation.cluster.fencing import drawn_policy, drawn_storage_policy
from mooring.simulation.cluster.plan import (
    ACTIONS,
    COPYING,
    FENCE_ACTIONS,
    MODIFYING,
    faults_of,
    processes_of,
    suits,
)
from mooring.simulation.cluster.scenario import Scenario
from mooring.simulation.cluster.swarm_steps import with_steps_beside
from mooring.simulation.cluster.workloads import KINDS, OF_DRIVER, OF_PLUGIN, STATIC
from mooring.simulation.engine.randomness import dealt, stream

T = TypeVar("T")
Pair = frozenset[str]

WAYS: tuple[tuple[str, str], ...] = (
    *(("plugin", storage) for storage in ("array", "array", "array", "cloud", "cloud", "deferred")),
    *(("plugin", storage) for storage in ("open", "open", "network", "network")),
    *(("csi", storage) for storage in ("array", "array", "array", "cloud", "cloud", "cloud")),
    *(("ebs", "array") for _ in range(4)),
)
"""Twenty cards: drivers and the storage behind them. A CSI driver counts as one that refuses a second attach,
whatever its storage does; an `ebs` driver has a cloud of its own."""
NAMES = ("db", "web", "log")
REPLICAS = (1, 2, 2, 3)
JOB_PODS = (1, 3, 6)
WORKLOADS_BESIDE: Mapping[str, Mapping[str, int]] = {
    "dev": {"raw": 4, "raw-shared": 2},
    "own": {"passing": 5},
    "tmp": {"filling": 5},
    "www": {"sharing": 7},
    "conf": {"configured": 4},
    "big": {"growing": 3},
    "copied": {"kept": 6},
    "few": {"guarded": 6},
    "hand": {"named": 6, "reserved": 4, "scarce": 6},
    "speed": {"tuned": 3, "tuned-first": 3},
}
"""Names of workloads that are dealt beside the others, and their kinds: to so many of twenty seeds."""
FEW: Mapping[str, tuple[int, ...]] = {"conf": (1, 2), "big": (1,), "copied": (1, 2), "speed": (1, 2)}
"""Of these so many pods do: what is asked of them, none of the others changes."""
ALSO_DEALT = frozenset({"guarded", "scarce", "growing"})
"""Those of them that are dealt with the others, too."""
BESIDE: Mapping[str, int] = {
    "expire-watch": 7,
    "late-kind": 9,
    "upstream-attaches": 16,
    "doze": 16,
    "fail-store": 6,
    "lose-rare": 4,
    "webhook-fails": 6,
}
"""Kinds of faults that are dealt beside those of which each pair comes up: to so many of twenty seeds."""
BLOCK = 100
"""In so many seeds each pair of faults comes up."""
MOST_KINDS = 16
"""Of faults in one run."""
WEIGHTS = (0.3, 1.0, 1.0, 4.0)
NEED_A_THIRD = frozenset({"lose-machine", "remove-machine"})
"""Faults that can strike only where there are more than two machines."""
HISTORIES = (0, 0, 0, 40, 300)
"""Changes that the API server keeps: a watch that was broken for longer begins anew with a list."""
HISTORY_BYTES = (0, 0, 0, 100_000)
"""Bytes of them that it keeps at the most."""
BESIDE_ACTIONS = (
    *("edit-content", "fill", "restore-volume", "replace-class", "mistake-class", "mark"),
    *("read-back", "take-aside"),
    *COPYING,
    *MODIFYING,
)
"""Actions of which no weight is drawn: they are for one workload, or dealt beside the others."""
GIVEN_TO: Mapping[str, str] = {
    "growing": "grow-claim",
    "tenant": "delete-namespace",
    "ordered": "break-set",
    "filling": "fill",
    "configured": "edit-content",
    "kept": "take-snapshot",
    "tuned": "name-attributes",
    "tuned-first": "name-attributes",
    "named": "restore-volume",
    "reserved": "restore-volume",
}
"""Workloads that are there for one action: where users do anything, it is not left out."""
STRUCK_MINUTES = (6.0, 10.0, 16.0)
"""For so long faults strike."""
CALM_MINUTES = 8.0
"""And for so long all must come right."""
LONGER_CALM: tuple[tuple[str, float], ...] = (
    ("deferred", 128.0),  # storage that may do hours later what it was asked for
    ("array-takes-away", 14.0),  # is missed when what is attached is verified, and tried two minutes later
    ("job", 10.0),  # the backoff of its pods
    ("lose-machine 360", 12.0),  # what it has goes that many seconds after its pods
    ("strip-claim", 16.0),  # what nothing defines any more may be asked for ten minutes later
    ("strip-volume", 16.0),
    *(
        (kind, 16.0) for kind in STATIC
    ),  # users make a disk by hand in the place of one, whose volume they delete
)
"""Or so long, where a run has this storage, fault, workload or action."""


def drawn(seed: int, given: Scenario) -> Scenario:
    """The scenario of this seed: `given`, and what that leaves to be drawn: its policy, or all."""
    if not given.swarm:
        policy = _policy(seed, given)
        return replace(given, fencing=policy) if policy else given
    chance = stream(seed, "swarm")
    driver, storage = _way(seed)
    faults = _kinds_of_faults(seed)
    workloads = _workloads(seed, chance, driver)
    nodes = chance.choice((3, 4)) if NEED_A_THIRD & set(faults) else chance.choice((1, 2, 3))
    scenario = Scenario(
        policy=given.policy,
        nodes=nodes,
        zones=min(2, nodes),
        driver=driver,
        storage=storage,
        sets={name: _replicas(kind, chance) for name, kind in workloads.items()},
        workloads=workloads,
        minutes=chance.choice(STRUCK_MINUTES),
        only=tuple(faults),
        every=True,
        faults=chance.choice((len(faults), 10, 20)),
        companions=chance.choice((0.0, 0.3, 0.6)),
        actions=chance.choice((0, 4, 10, 24)),
        weights=_weights(
            chance, [*faults, *(kind for kind in ACTIONS if kind not in (*FENCE_ACTIONS, *BESIDE_ACTIONS))]
        ),
        on=chance.choice([(), (), ("nodes",), ("controllers",), *_single_parts(driver)]),
        leases=chance.random() < 0.4,
        collects_nodes=chance.random() < 0.5,
        force_detach_after_s=chance.choice((360.0, 45.0, 20.0, 0.0)),
        node_deletion_confirms_death=chance.random() < 0.25,
    )
    if not given.shut_out:
        scenario = _with_faults_beside(seed, _with_workloads_beside(seed, scenario))
    own = {GIVEN_TO[kind]: 4.0 for kind in scenario.workloads.values() if kind in GIVEN_TO}
    scenario = replace(scenario, weights=scenario.weights | own)
    actions = (
        {kind for kind, weight in scenario.weights.items() if weight} if scenario.actions else set[str]()
    )
    if policy := _policy(seed, given):
        struck = _that_shuts_out(seed, scenario) if given.shut_out else scenario
        scenario = _with_fencing(seed, struck, policy)
    history = stream(seed, "swarm history").choice(HISTORIES)
    of_bytes = stream(seed, "swarm history bytes").choice(HISTORY_BYTES)
    disks = stream(seed, "swarm disks").choice([*CLASSES]) if driver == "ebs" else ""
    if "tuned-first" in scenario.workloads.values() and disks in FIXED:
        disks = ""
    lost = f"lose-machine {scenario.force_detach_after_s:.0f}" if "lose-machine" in faults else ""
    calm = _calm({scenario.storage, *faults, *scenario.workloads.values(), *actions, lost})
    longer = replace(scenario, minutes=scenario.minutes + calm, calm_minutes=calm)
    return with_steps_beside(seed, replace(longer, history=history, history_bytes=of_bytes, disks=disks))


def _policy(seed: int, given: Scenario) -> dict[str, Any]:
    """The spec of the FencePolicy of this seed; empty: it draws none."""
    if given.shut_out:
        return drawn_storage_policy(seed)
    return drawn_policy(seed) if given.fenced else {}


def _that_shuts_out(seed: int, scenario: Scenario) -> Scenario:
    """Storage that is known by its targets. Most often one that only a fence keeps a node from."""
    chance = stream(seed, "swarm shut out")
    storage = chance.choice(("network", "network", "network", "array", "cloud", "open", "deferred"))
    return replace(scenario, driver="plugin", storage=storage)


def _with_fencing(seed: int, scenario: Scenario, policy: dict[str, Any]) -> Scenario:
    """A policy, what goes wrong with its devices, and three nodes at least: of fewer none may be lost."""
    chance = stream(seed, "swarm fences")
    made = replace(scenario, fencing=policy, nodes=max(scenario.nodes, 3))
    losses = ["lose-machine", "power-off", "cut"]
    kinds = [kind for kind in faults_of(made) if kind.startswith("fence-")]
    struck = {*scenario.only, *chance.sample(kinds, min(3, len(kinds))), *chance.sample(losses, 2)}
    weights = {
        kind: chance.choice(WEIGHTS)
        for kind in (*sorted(struck), *FENCE_ACTIONS)
        if kind not in scenario.weights
    }
    on = scenario.on if chance.random() < 0.7 else ("fencing",)
    return replace(
        made,
        zones=min(2, made.nodes),
        only=tuple(sorted(struck)),
        weights=scenario.weights | weights | dict.fromkeys(losses, 4.0),
        on=on,
        evict_after_s=scenario.evict_after_s,
    )


def _way(seed: int) -> tuple[str, str]:
    return dealt(seed, WAYS, "swarm way")


def _replicas(kind: str, chance: Random) -> int:
    return chance.choice(JOB_PODS if kind == "job" else REPLICAS)


def _workloads(seed: int, chance: Random, driver: str) -> dict[str, str]:
    """The kinds that this seed was dealt, and up to two others."""
    beside = {kind for kinds in WORKLOADS_BESIDE.values() for kind in kinds} - ALSO_DEALT
    common = [kind for kind in KINDS if kind not in beside]
    kinds = [kind for kind in common if driver == "plugin" or kind not in OF_PLUGIN]
    deck = [*islice(cycle(common), max(len(WAYS), len(common)))]
    cards = [deck[number :: len(WAYS)] for number in range(len(WAYS))]  # some are of two kinds
    first = [kind for kind in dealt(seed, cards, "swarm workload") if kind in kinds]
    return dict(
        zip(
            NAMES,
            [*(first or [chance.choice(kinds)]), *chance.sample(kinds, chance.choice((0, 1, 2)))],
            strict=False,
        )
    )


def _with_faults_beside(seed: int, scenario: Scenario) -> Scenario:
    """Those that this seed was dealt. From streams of their own: all else is drawn as without them."""
    cards = {kind: [number < many for number in range(len(WAYS))] for kind, many in BESIDE.items()}
    kinds = [
        kind for kind, deck in cards.items() if suits(kind, scenario) and dealt(seed, deck, f"swarm {kind}")
    ]
    weights = {kind: stream(seed, f"swarm weight {kind}").choice(WEIGHTS) for kind in kinds}
    return replace(scenario, only=tuple(sorted({*scenario.only, *kinds})), weights=scenario.weights | weights)


def _with_workloads_beside(seed: int, scenario: Scenario) -> Scenario:
    """The same for workloads."""
    for name, kinds in WORKLOADS_BESIDE.items():
        cards = [kind for kind, many in kinds.items() for _ in range(many)]
        kind = dealt(seed, [*cards, *([""] * (len(WAYS) - len(cards)))], f"swarm {name}")
        if kind and kind not in (OF_DRIVER if scenario.driver == "plugin" else OF_PLUGIN):
            chance = stream(seed, f"swarm replicas {name}")
            replicas = chance.choice(FEW[name]) if name in FEW else _replicas(kind, chance)
            sets, workloads = scenario.sets | {name: replicas}, scenario.workloads | {name: kind}
            scenario = replace(scenario, sets=sets, workloads=workloads)
    return scenario


def _calm(features: set[str]) -> float:
    return max([CALM_MINUTES, *(minutes for feature, minutes in LONGER_CALM if feature in features)])


def _single_parts(driver: str) -> list[tuple[str, ...]]:
    return [(process,) for process in processes_of(Scenario(driver=driver))]


def _weights(chance: Random, kinds: Sequence[str]) -> dict[str, float]:
    """Half of what users do is left out."""
    return {
        kind: 0.0 if kind in ACTIONS and chance.random() < 0.5 else chance.choice(WEIGHTS) for kind in kinds
    }


# --- kinds of faults, so that each pair of them comes up


def _kinds_of_faults(seed: int) -> list[str]:
    return _covering(seed // BLOCK)[seed % BLOCK]


@cache
def _covering(block: int) -> list[list[str]]:
    """The kinds of faults of each seed of a block."""
    chance, left = stream(block, "swarm faults"), possible_pairs()
    there = [_paired(_way(block * BLOCK + number)[0]) for number in range(BLOCK)]
    found: list[list[str]] = []
    for kinds in there:
        found.append(_chosen(chance, kinds, chance.randint(1, MOST_KINDS), left))
        left -= {frozenset(pair) for pair in combinations(found[-1], 2)}
    for pair in sorted(left, key=sorted):  # the shortest run that can have both takes the rest
        fitting = [number for number in range(BLOCK) if pair <= set(there[number])]
        shortest = min(fitting, key=lambda number: len(found[number]))
        found[shortest] = sorted({*found[shortest], *pair})
    return found


def possible_pairs() -> set[Pair]:
    """The kinds of faults that can strike the same cluster."""
    drivers = dict.fromkeys(driver for driver, _ in WAYS)
    return {frozenset(pair) for driver in drivers for pair in combinations(_paired(driver), 2)}


def _paired(driver: str) -> list[str]:
    return [kind for kind in faults_of(Scenario(driver=driver)) if kind not in BESIDE]


def _chosen(chance: Random, kinds: Sequence[str], number: int, left: set[Pair]) -> list[str]:
    """So many kinds, each of which makes as many new pairs as one can."""
    rest = chance.sample(kinds, len(kinds))
    chosen = [rest.pop()]
    while rest and len(chosen) < number:
        best = max(rest, key=lambda kind: sum(frozenset((kind, other)) in left for other in chosen))
        chosen.append(best)
        rest.remove(best)
    return sorted(chosen)


def description(scenario: Scenario) -> str:
    """A scenario in one line."""
    sets = ", ".join(
        f"{name} ({scenario.workloads.get(name, 'disk')}) {number}" for name, number in scenario.sets.items()
    )
    return (
        f"{scenario.nodes} nodes, driver {scenario.driver}, storage {scenario.storage}, {sets}, "
        f"{scenario.minutes:g} minutes"
    )
