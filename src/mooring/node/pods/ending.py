"""How a pod, or one container of it, is brought to its end. Pure.

Rules: the pod-safety document (grace periods only shrink, an agent that was restarted starts the period anew,
at least 2 s lie between SIGTERM and SIGKILL), and Kubernetes' for hooks and sidecars: a preStop hook runs
within the grace period and comes before SIGTERM; sidecars are ended after the other containers, the last one
first.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from mooring.kube.objects import Container, Pod
from mooring.node.pods.facts import Do, Facts, Memory, Plan, Stop, Termination

MINIMUM_GRACE_S = 2.0
USUAL_GRACE_S = 30.0
"""Kubernetes' own, for a pod of which nothing is known when the node goes."""


def terminate(facts: Facts, memory: Memory, now: float) -> Plan:
    """The next thing to do about a pod that is to end and has processes."""
    if not _alive(facts, memory):
        return Plan(((Do.KILL, ""),), memory)
    begun, extra = memory.termination, MINIMUM_GRACE_S if _has_hooks(facts) else 0.0
    termination = shrink(begun, now, grace_period(facts), extra)
    memory = replace(memory, termination=termination)
    if now >= termination.deadline:
        return Plan(((Do.KILL, "its grace period is over"),), memory)
    due = sidecar_to_end(facts)
    new = due is not None and due not in memory.stops
    if due is not None and new:
        memory = replace(
            memory, stops={**memory.stops, due: Stop(facts.verdict(due).attempt, termination.deadline)}
        )
    if begun is None:
        return Plan(((Do.TERMINATE, ""),), memory, termination.deadline)
    hurry = ((Do.HURRY, ""),) if extra and termination.deadline < begun.deadline else ()
    stop = ((Do.STOP_CONTAINER, due),) if due is not None and new else ()
    return Plan((*hurry, *stop), memory, termination.deadline)


def ends_with_the_first(facts: Facts) -> list[str]:
    """The containers that get SIGTERM when the pod ends: all but sidecars, unless nothing else runs."""
    assert facts.sandbox is not None
    names = [container.name for container in facts.pod.spec.containers] if facts.pod else []
    names = list(dict.fromkeys([*names, *facts.sandbox.containers]))
    sidecars = _sidecars(facts.pod)
    others = [name for name in names if name not in sidecars]
    first = sidecar_to_end(facts)
    return others if first is None else [first]


def sidecar_to_end(facts: Facts) -> str | None:
    """The sidecar whose turn it is: nothing but sidecars runs any more, and none that came after it."""
    assert facts.sandbox is not None
    running = [name for name in facts.sandbox.containers if facts.runs(name)]
    sidecars = [name for name in _sidecars(facts.pod) if name in running]
    return sidecars[-1] if sidecars and len(sidecars) == len(running) else None


def _sidecars(pod: Pod | None) -> list[str]:
    return [container.name for container in pod.spec.init_containers if container.is_sidecar] if pod else []


def grace_period(facts: Facts) -> float:
    """Seconds; 0 for a pod that was removed from the API by force. When the node goes, one that is not there
    may not have been listed yet."""
    pod = facts.pod
    if pod is None:
        return USUAL_GRACE_S if facts.shutting_down else 0.0
    if pod.metadata.deletion_grace_period_seconds is not None:
        return float(pod.metadata.deletion_grace_period_seconds)
    return float(pod.spec.termination_grace_period_seconds)


def shrink(begun: Termination | None, now: float, grace: float, extra: float = 0.0) -> Termination:
    """The termination under the grace period of now: it may come earlier than planned, never later.
    `extra` is for SIGTERM when hooks have used up the period."""
    if begun is None:
        return Termination(now, now + max(MINIMUM_GRACE_S, grace) + extra)
    earliest = max(begun.signalled_at + MINIMUM_GRACE_S, now + grace + extra)
    return replace(begun, deadline=min(begun.deadline, earliest))


def pre_stop(container: Container) -> bool:
    """It has a hook that must run before SIGTERM."""
    return container.lifecycle is not None and container.lifecycle.pre_stop is not None


def _has_hooks(facts: Facts) -> bool:
    spec = facts.pod.spec if facts.pod else None
    return spec is not None and any(
        pre_stop(container) for container in (*spec.init_containers, *spec.containers)
    )


def _alive(facts: Facts, memory: Memory) -> bool:
    """Whether a container runs, or may: the runtime was asked for an attempt that it does not show yet."""
    assert facts.sandbox is not None
    records = facts.sandbox.containers
    if any(record.exit_code is None for record in records.values()):
        return True
    return any(
        name not in records or records[name].attempt < request.attempt
        for name, request in memory.requested.items()
    )


# --- one container


@dataclass(frozen=True)
class Endings:
    """What is to be done now about containers that hooks or probes have condemned."""

    actions: tuple[tuple[Do, str], ...]
    stops: dict[str, Stop]
    wake_at: float | None


def end_condemned(facts: Facts, memory: Memory, now: float) -> Endings:
    """SIGTERM with the container's grace period, then SIGKILL, each once."""
    actions: list[tuple[Do, str]] = []
    stops: dict[str, Stop] = {}
    for name, verdict in facts.verdicts.items():
        if not verdict.end or facts.verdict(name) is not verdict or not facts.runs(name):
            continue
        stop = memory.stops.get(name)
        if stop is None or stop.attempt != verdict.attempt:
            actions.append((Do.STOP_CONTAINER, name))
            grace = grace_period(facts) if verdict.grace_s is None else verdict.grace_s
            stop = Stop(verdict.attempt, shrink(None, now, grace, _extra(facts, name)).deadline)
        elif now >= stop.deadline and not stop.killed:
            actions.append((Do.KILL_CONTAINER, name))
            stop = replace(stop, killed=True)
        stops[name] = stop
    waiting = [stop.deadline for stop in stops.values() if not stop.killed]
    return Endings(tuple(actions), stops, min(waiting, default=None))


def _extra(facts: Facts, name: str) -> float:
    spec = facts.pod.spec if facts.pod else None
    containers = (*spec.init_containers, *spec.containers) if spec else ()
    hooked = any(container.name == name and pre_stop(container) for container in containers)
    return MINIMUM_GRACE_S if hooked else 0.0
