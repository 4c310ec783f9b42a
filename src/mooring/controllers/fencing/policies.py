"""What is wrong with a FencePolicy, said in its status as soon as it is made. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import msgspec

from mooring.controllers.fencing.conditions import condition
from mooring.controllers.fencing.detection import SHORTEST_S, STORAGE, policies_of
from mooring.controllers.fencing.host_agent import KIND as HOST_AGENT
from mooring.fence.interface import Scope
from mooring.kube.objects import Node
from mooring.kube.objects.fencing import FenceMechanism, FencePolicy, PeerRules
from mooring.kube.printable import counted
from mooring.kube.selectors import InvalidSelector, label_selector_of
from mooring.kube.times import Now, format_time
from mooring.volumes.peers import MOST_PEERS

DETECTORS = ("Ready", "Condition", "Mechanism", STORAGE)


def judged_policy(
    policy: FencePolicy,
    policies: Iterable[FencePolicy],
    mechanisms: Sequence[FenceMechanism],
    nodes: Sequence[Node],
    now: Now,
) -> dict[str, Any] | None:
    """The status that the policy should have; None if it has that."""
    others = [each for each in policies if each.name != policy.name]
    mine = [each for each in nodes if policies_of(each, [policy])]
    problems = problems_of(policy, {each.name: each.status.scope for each in mechanisms})
    problems += _confirms_a_reset(policy, {each.name: each.spec.type for each in mechanisms})
    problems += _overlaps(policy, others, mine)
    status, reason, message = "True", "Accepted", f"it covers {counted(len(mine), 'node')}"
    if problems:
        status, reason, message = "False", "NotUsable", "; ".join(problems)
    elif policy.spec.paused:
        status, reason, message = "False", "Paused", policy.spec.paused
    ready = condition(policy.status.conditions, "Ready", status, reason, message[:1000], format_time(now()))
    wanted = {"observedGeneration": policy.metadata.generation, "nodes": len(mine), "conditions": [ready]}
    seen: dict[str, Any] = msgspec.to_builtins(policy.status)
    return None if all(seen.get(key, 0) == value for key, value in wanted.items()) else wanted


def problems_of(policy: FencePolicy, scopes: Mapping[str, str]) -> list[str]:
    """What keeps the policy from doing what it says, in sentences. `scopes`: of the mechanisms that there
    are, by name; "" where that is not known yet."""
    spec, found = policy.spec, list[str]()
    try:
        label_selector_of(spec.node_selector)
    except InvalidSelector as error:
        found.append(f"its nodeSelector cannot be read: {error}")
    if not spec.ladder:
        found.append("its ladder is empty: nothing would be tried before a person is asked")
    named = {each.mechanism for each in spec.ladder}
    named |= {name for each in spec.ladder for name in each.confirm_with}
    named |= {each.mechanism for each in spec.detectors if each.type in ("Mechanism", STORAGE)}
    found += [f"there is no FenceMechanism {name!r}" for name in sorted(named - set(scopes))]
    found += [
        f"rung {number} ({each.mechanism}) shows {scopes[each.mechanism]} alone, which releases no pod and ends the "
        "ladder: put it last"
        for number, each in enumerate(spec.ladder[:-1], 1)
        if scopes.get(each.mechanism, "") not in ("", Scope.POWER)
    ]
    found += [
        f"rung {number} is confirmed by itself: a second source is another mechanism"
        for number, each in enumerate(spec.ladder, 1)
        if each.mechanism in each.confirm_with
    ]
    found += [
        f"there is no detector of type {each.type!r}: there are {', '.join(DETECTORS)}"
        for each in spec.detectors
        if each.type not in DETECTORS
    ]
    if not spec.detectors:
        found.append("it has no detectors: no node would ever count as lost")
    found += _of_peers(spec.peers) if spec.peers is not None else []
    if spec.quorum.required > len(spec.detectors):
        found.append(f"its quorum asks for {spec.quorum.required} detectors of {len(spec.detectors)}")
    return found


def _of_peers(peers: PeerRules) -> list[str]:
    found = list[str]()
    if not peers.veto and peers.required <= 0:
        found.append("its peers neither veto nor are required: nothing would come of what they say")
    if peers.required > MOST_PEERS:
        found.append(f"it requires {peers.required} peers, and {MOST_PEERS} are asked at the most")
    if not peers.expires_seconds >= SHORTEST_S:
        found.append(
            f"what its peers say expires before others have answered: give it {SHORTEST_S:g} s or more"
        )
    return found


def _confirms_a_reset(policy: FencePolicy, types: Mapping[str, str]) -> list[str]:
    """`types`: of the mechanisms, by name. A machine that has reset itself is on again."""
    return [
        f"rung {number} ({each.mechanism}) is of type {HOST_AGENT}, and asks {', '.join(each.confirm_with)} to agree: "
        "a machine that has been reset is on again, which they would take for a contradiction"
        for number, each in enumerate(policy.spec.ladder, 1)
        if types.get(each.mechanism) == HOST_AGENT and each.confirm_with
    ]


def _overlaps(policy: FencePolicy, others: Sequence[FencePolicy], nodes: Sequence[Node]) -> list[str]:
    """The policies that select a node of this one, too: none of them counts for it."""
    shared = {each.name: node.name for node in nodes for each in policies_of(node, others)}
    return [f"FencePolicy {name} selects node {node}, too" for name, node in sorted(shared.items())]
