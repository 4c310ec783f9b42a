"""Fencing in a simulated cluster: its policy, its mechanisms, the devices behind them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextvars import Context
from typing import Any

import msgspec

from mooring.controllers.fencing.kinds import FENCING_KINDS
from mooring.kube.client import Client
from mooring.kube.objects.apiextensions import CustomResourceDefinition
from mooring.kube.objects.fencing import FenceMechanism, FencePolicy, FencePolicySpec
from mooring.simulation.engine.randomness import stream
from mooring.simulation.engine.trace import Trace
from mooring.simulation.parts.fence_device import KINDS, FenceDevice, Power

PROCESS = "fencing"
DEADLINE_S = 15.0
"""Of a mechanism's answer."""


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
    }


def _rung(mechanism: str, *confirm_with: str) -> dict[str, Any]:
    return {"mechanism": mechanism, "confirmWith": list(confirm_with), "retries": 1}


def policy_of(fencing: dict[str, Any]) -> FencePolicySpec:
    """Raises msgspec.ValidationError."""
    return msgspec.convert(fencing, FencePolicySpec)


def make_devices(
    names: Sequence[str], power: Power, trace: Trace, seed: int, context: Context
) -> dict[str, FenceDevice]:
    """By the type that a FenceMechanism names. `names`: of the nodes."""

    def neighbour(node: str) -> str:
        return names[(names.index(node) + 1) % len(names)]

    trace.listen("truth.power", lambda event: power.note(event.actor, event.fields["on"]))
    return {
        kind: FenceDevice(kind, power, neighbour, trace, stream(seed, f"device {kind}"), context)
        for kind in KINDS
    }


async def create_fencing(api: Client, spec: Mapping[str, Any]) -> None:
    """The kinds, the mechanisms and the policy, which has that spec."""
    for body in FENCING_KINDS:
        await api.create(CustomResourceDefinition, body)
    for kind in KINDS:
        mechanism = {"type": kind, "timeoutSeconds": DEADLINE_S}
        await api.create(FenceMechanism, {"metadata": {"name": kind}, "spec": mechanism})
    policy = {"metadata": {"name": "policy"}, "spec": spec}
    await api.create(FencePolicy, policy)
