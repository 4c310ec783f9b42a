"""Fencing in a simulated cluster: its policy, its mechanisms, the devices behind them."""

from __future__ import annotations

from contextvars import Context
from typing import Any

import msgspec

from mooring.controllers.fencing.detection import STORAGE
from mooring.controllers.fencing.host_agent import KIND as HOST_AGENT
from mooring.controllers.fencing.kinds import FENCING_KINDS
from mooring.kube.client import Client
from mooring.kube.objects.apiextensions import CustomResourceDefinition
from mooring.kube.objects.fencing import FenceMechanism, FencePolicy, FencePolicySpec
from mooring.simulation.cluster.scenario import Scenario
from mooring.simulation.engine.randomness import stream
from mooring.simulation.engine.trace import Trace
from mooring.simulation.parts.fence_device import (
    KINDS,
    STORAGE_KINDS,
    Doors,
    FenceDevice,
    Power,
    StorageDevice,
)
from mooring.simulation.parts.storage_counts import Counts
from mooring.simulation.parts.storage_targets import Targets

PROCESS = "fencing"
SELF_RESET_S = 300.0
"""So long the mechanism that waits for nodes' own watchdogs may take."""
DEADLINE_S = 15.0
"""Of a mechanism's answer."""


def _drawn_peers(seed: int) -> dict[str, Any]:
    """What peers have to say, in some of the seeds."""
    chance = stream(seed, "swarm peers")
    choices: tuple[dict[str, Any], ...] = (
        {},
        {},
        {"expiresSeconds": 60.0},
        {"expiresSeconds": 60.0, "required": 1},
        {"veto": False, "required": 1},
    )
    peers = chance.choice(choices)
    return {"peers": peers} if peers else {}


def asks_peers(scenario: Scenario) -> bool:
    """Whether agents have doors at which their peers ask them."""
    return bool(scenario.fencing) and policy_of(scenario.fencing).peers is not None


def drawn_policy(seed: int) -> dict[str, Any]:
    """The spec of a FencePolicy of this seed."""
    chance = stream(seed, "swarm fencing")
    ladder = chance.choice(
        (
            [_rung("bmc")],
            [_rung("bmc", "strip")],
            [_rung("strip", "bmc")],
            [_rung("bmc", "strip"), _rung("strip", "bmc")],
            [_rung("bmc"), _rung("strip")],
        )
    )
    return {
        "ladder": ladder,
        "detectors": [{"type": "Ready", "forSeconds": chance.choice((0.0, 10.0))}],
        "budget": chance.choice(({}, {"maxConcurrent": 1, "maxShare": "100%"}, {"maxShare": "70%"})),
        "storm": {"nodes": chance.choice((0, 2, 2, 3)), "cooldownSeconds": chance.choice((0.0, 60.0))},
        "worth": {
            "onlyExclusive": chance.random() < 0.5,
            "forgiveness": chance.choice(("Ignore", "Ignore", "Honour")),
        },
        "after": chance.choice(("Leave", "PowerOn", "PowerOn")),
        **_drawn_peers(seed),
    }


def drawn_storage_policy(seed: int) -> dict[str, Any]:
    """The same, with a ladder at whose end the storage shuts the node out."""
    chance = stream(seed, "swarm storage fencing")
    ladder = chance.choice(
        (
            [_rung("storage", "portal")],
            [_rung("storage", "portal")],
            [_rung("storage-a", "portal-a")],
            [_rung("storage")],
            [_rung("bmc", "strip"), _rung("storage", "portal")],
            [_rung("strip", "bmc"), _rung("storage-a", "portal-a")],
            [_rung("bmc"), _rung("storage")],
        )
    )
    policy = drawn_policy(seed)
    policy |= {"ladder": ladder, "storageReleasesPods": chance.random() < 0.5}
    return policy | _drawn_counting(seed, policy["detectors"], str(ladder[-1]["mechanism"]))


def _drawn_counting(seed: int, others: list[Any], storage: str) -> dict[str, Any]:
    """What the storage counts is a detector in half of the seeds, and in some of them its vote is needed."""
    chance = stream(seed, "swarm counting")
    counting = {"type": STORAGE, "mechanism": storage, "forSeconds": chance.choice((0.0, 20.0))}
    quorum = chance.choice(({}, {"required": 2}, {"veto": False, "required": 2}))
    return {"detectors": [*others, counting], "quorum": quorum} if chance.random() < 0.5 else {}


def devices_of(scenario: Scenario) -> list[str]:
    """The kinds of devices that there are: those of scope Storage where the policy names one of them."""
    policy = policy_of(scenario.fencing)
    named = {name for each in policy.ladder for name in (each.mechanism, *each.confirm_with)}
    named |= {each.mechanism for each in policy.detectors}
    return [*KINDS, *(kind for kind in STORAGE_KINDS if kind in named)]


def fences_itself(scenario: Scenario) -> bool:
    """Whether nodes have watchdogs, and the policy waits for them."""
    ladder = policy_of(scenario.fencing).ladder if scenario.fencing else ()
    return any(each.mechanism == HOST_AGENT for each in ladder)


def _rung(mechanism: str, *confirm_with: str) -> dict[str, Any]:
    return {"mechanism": mechanism, "confirmWith": list(confirm_with), "retries": 1}


def policy_of(fencing: dict[str, Any]) -> FencePolicySpec:
    """Raises msgspec.ValidationError."""
    return msgspec.convert(fencing, FencePolicySpec)


def make_devices(
    scenario: Scenario, power: Power, targets: Targets, trace: Trace, seed: int, context: Context
) -> dict[str, FenceDevice]:
    """By the type that a FenceMechanism names."""
    names = scenario.node_names

    def neighbour(node: str) -> str:
        return names[(names.index(node) + 1) % len(names)]

    counts = Counts(targets, trace, seed)

    def made(kind: str) -> FenceDevice:
        more = neighbour, trace, stream(seed, f"device {kind}"), context
        if kind in STORAGE_KINDS:
            return StorageDevice(kind, Doors(targets, STORAGE_KINDS[kind]), counts, *more)
        return FenceDevice(kind, power, *more)

    trace.listen("truth.power", lambda event: power.note(event.actor, event.fields["on"]))
    return {kind: made(kind) for kind in devices_of(scenario)}


async def create_fencing(api: Client, scenario: Scenario) -> None:
    """The kinds, the mechanisms and the policy, as the scenario has it."""
    for body in FENCING_KINDS:
        await api.create(CustomResourceDefinition, body)
    for kind in devices_of(scenario):
        mechanism = {"type": kind, "timeoutSeconds": DEADLINE_S}
        await api.create(FenceMechanism, {"metadata": {"name": kind}, "spec": mechanism})
    if fences_itself(scenario):
        spec = {"type": HOST_AGENT, "timeoutSeconds": SELF_RESET_S}
        await api.create(FenceMechanism, {"metadata": {"name": HOST_AGENT}, "spec": spec})
    policy = {"metadata": {"name": "policy"}, "spec": scenario.fencing}
    await api.create(FencePolicy, policy)
