"""What a pod's status says, computed from what is. Pure.

The same facts give the same status, so a status is written only when it differs from the one written last.
Phases, reasons and conditions are Kubernetes'.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from mooring.kube.objects import Container, ContainerStatus, Pod
from mooring.kube.reason import Reason
from mooring.kube.times import format_time, parse_time
from mooring.node.pods.decide import goal, may_pass, outcome, wants_restart
from mooring.node.pods.facts import Facts, Goal, Memory
from mooring.node.runtime import START_ERROR, ContainerRecord

OVERDUE = Reason("DeadlineExceeded", "Pod was active on the node longer than the specified deadline")
SHUTDOWN = Reason("Terminated", "Pod was terminated in response to imminent node shutdown.")


@dataclass(frozen=True)
class Surroundings:
    """What the status needs besides the facts: `problems` says why a container cannot be made; `now` is a
    stamp."""

    address: str
    now: str
    problems: Mapping[str, Reason]


OURS = frozenset({"Initialized", "ContainersReady", "Ready", "DisruptionTarget"})
"""The conditions that an agent writes."""


def pod_status(facts: Facts, memory: Memory, around: Surroundings) -> dict[str, Any]:
    """The status of a pod that the API server knows, as a body for a patch."""
    pod = facts.pod
    assert pod is not None
    main = [_container_status(facts, memory, around, container) for container in pod.spec.containers]
    init = [_container_status(facts, memory, around, container) for container in pod.spec.init_containers]
    phase = _phase(facts, main, init)
    status: dict[str, Any] = {
        "phase": phase,
        "conditions": _conditions(facts, main, phase, around.now),
        "containerStatuses": main,
        "hostIP": around.address,
        "hostIPs": [{"ip": around.address}],
        "startTime": pod.status.start_time or around.now,
    }
    if pod.metadata.generation:
        status["observedGeneration"] = pod.metadata.generation
    if facts.sandbox is not None:
        address = facts.sandbox.address or around.address
        status |= {"podIP": address, "podIPs": [{"ip": address}]}
    if init:
        status["initContainerStatuses"] = init
    if late := [_container_status(facts, memory, around, each) for each in pod.spec.ephemeral_containers]:
        status["ephemeralContainerStatuses"] = [{**each, "ready": False} for each in late]
    why = facts.volumes.evicted or (OVERDUE if facts.overdue else SHUTDOWN if facts.shutting_down else None)
    if why is not None and phase == "Failed" and not pod.status.reason:
        status |= {"reason": why.code, "message": why.message}
    return status


def shows(pod: Pod, status: Mapping[str, Any]) -> bool:
    """Whether the pod's status still has the phase and conditions of `status`. Others may write them: a node
    whose agent is silent gets its pods' Ready taken away."""
    held = {condition.type: condition.status for condition in pod.status.conditions}
    ours = {condition["type"]: condition["status"] for condition in status["conditions"]}
    return pod.status.phase == status["phase"] and ours.items() <= held.items()


def is_ahead(pod: Pod, now: datetime) -> bool:
    """Whether a condition is said to be so since a time that has not come: this machine's clock was ahead.
    Who waits until the pod was ready for some seconds would wait as long as the clock was wrong; `pod_status`
    mends it."""
    since = (each.last_transition_time for each in pod.status.conditions if each.type in OURS)
    return any(time and parse_time(time) > now for time in since)


def initialized(facts: Facts) -> bool:
    """Every init container has ended well in the pod's present sandbox."""
    pod, sandbox = facts.pod, facts.sandbox
    if pod is None or not pod.spec.init_containers:
        return True
    return sandbox is not None and all(may_pass(facts, container) for container in pod.spec.init_containers)


# --- phase


def _phase(facts: Facts, main: Sequence[dict[str, Any]], init: Sequence[dict[str, Any]]) -> str:
    pod = facts.pod
    assert pod is not None
    if pod.finished:
        return pod.status.phase
    # Others take a pod that has ended for one that uses nothing any more (kubernetes #108366).
    if (ended := outcome(facts)) is not None and not facts.any_runs:
        return ended
    if goal(facts) is not Goal.RUN and not facts.running:
        return "Succeeded" if all(_exit_code(status) == 0 for status in main) else "Failed"
    # A phase never goes back, also not on a machine that has lost what it knew of its containers.
    began = all("waiting" not in status["state"] or status["lastState"] for status in main)
    return "Running" if began or pod.status.phase == "Running" else "Pending"


def _exit_code(status: Mapping[str, Any]) -> int | None:
    return status["state"].get("terminated", {}).get("exitCode")


# --- containers


def _container_status(
    facts: Facts, memory: Memory, around: Surroundings, container: Container
) -> dict[str, Any]:
    pod, record = facts.pod, facts.record(container.name)
    assert pod is not None
    state = _state(facts, memory, around, container, record)
    running = "running" in state
    before = record if record is not None and "waiting" in state else record.last if record else None
    known = next((status for status in _known(pod) if status.name == container.name), None)
    return {
        "name": container.name,
        "image": container.image,
        "imageID": "",
        "containerID": _container_id(pod, container.name, record) if record else "",
        "state": state,
        "lastState": {"terminated": _terminated(pod, container.name, before)} if before else {},
        "ready": _ready(facts, container) if running else _ended_well(pod, container, record),
        "started": running and facts.started(container.name),
        "restartCount": record.attempt if record else known.restart_count if known else 0,
    }


def _ready(facts: Facts, container: Container) -> bool:
    """Of a container that runs."""
    verdict = facts.verdict(container.name)
    return verdict.started and verdict.ready


def _ended_well(pod: Pod, container: Container, record: ContainerRecord | None) -> bool:
    init = _is_init(pod, container) and not container.is_sidecar
    return init and record is not None and record.exit_code == 0


def _state(
    facts: Facts, memory: Memory, around: Surroundings, container: Container, record: ContainerRecord | None
) -> dict[str, Any]:
    pod = facts.pod
    assert pod is not None
    if record is None or (record.exit_code is not None and container.name in around.problems):
        return {"waiting": _waiting(facts, around, container)}
    if record.exit_code is None:
        return {"running": {"startedAt": _time(record.started_at)}}
    restart = memory.restarts.get(container.name)
    again = goal(facts) is Goal.RUN and wants_restart(_policy(pod, container), record.exit_code)
    if again and restart is not None and restart.delay:
        message = f"back-off {restart.delay:.0f}s restarting failed container={container.name} pod={pod.key}"
        return {"waiting": {"reason": "CrashLoopBackOff", "message": message}}
    return {"terminated": _terminated(pod, container.name, record)}


def _waiting(facts: Facts, around: Surroundings, container: Container) -> dict[str, str]:
    problem = around.problems.get(container.name)
    if problem is not None:
        return {"reason": problem.code, "message": problem.message}
    assert facts.pod is not None
    waiting = "; ".join(
        f"volume {name}: {why.message}" for name, why in sorted(facts.volumes.waiting.items())
    )
    code = "PodInitializing" if facts.pod.spec.init_containers else "ContainerCreating"
    return {"reason": code, "message": waiting} if waiting else {"reason": code}


def _terminated(pod: Pod, name: str, record: ContainerRecord) -> dict[str, Any]:
    code = record.exit_code if record.exit_code is not None else START_ERROR
    terminated: dict[str, Any] = {
        "exitCode": code,
        "reason": "StartError" if record.error else "Completed" if code == 0 else "Error",
        "startedAt": _time(record.started_at),
        "finishedAt": _time(record.finished_at or record.started_at),
        "containerID": _container_id(pod, name, record),
    }
    if record.error or record.message:
        terminated["message"] = record.error or record.message
    if record.signal:
        terminated["signal"] = record.signal
    return terminated


def _known(pod: Pod) -> tuple[ContainerStatus, ...]:
    status = pod.status
    return (
        *status.init_container_statuses,
        *status.container_statuses,
        *status.ephemeral_container_statuses,
    )


def _is_init(pod: Pod, container: Container) -> bool:
    return any(container is other for other in pod.spec.init_containers)


def _policy(pod: Pod, container: Container) -> str:
    """An init container that ended well is never started again, an ephemeral one never, a sidecar always."""
    if any(container is other for other in pod.spec.ephemeral_containers):
        return "Never"
    if container.is_sidecar:
        return "Always"
    if _is_init(pod, container) and pod.spec.restart_policy == "Always":
        return "OnFailure"
    return pod.spec.restart_policy


def _container_id(pod: Pod, name: str, record: ContainerRecord) -> str:
    return f"mooring://{pod.uid}/{name}/{record.attempt}"


def _time(seconds: float) -> str:
    return format_time(datetime.fromtimestamp(seconds, UTC))


# --- conditions


def _conditions(
    facts: Facts, main: Sequence[Mapping[str, Any]], phase: str, now: str
) -> list[dict[str, Any]]:
    pod = facts.pod
    assert pod is not None
    unready = [status["name"] for status in main if not status["ready"]]
    why = _unready_reason(phase, unready)
    done = phase == "Succeeded" or initialized(facts)
    gates = [] if unready else _closed_gates(pod)
    closed = Reason("ReadinessGatesNotReady", f"conditions that are not true: {', '.join(gates)}")
    conditions = [
        ("Initialized", done, _uninitialized_reason(facts)),
        ("ContainersReady", not unready, why),
        ("Ready", not unready and not gates, closed if gates else why),
    ]
    return [
        _condition(pod, kind, now, holds=holds, why=reason) for kind, holds, reason in conditions
    ] + _disruption(facts, now)


def _uninitialized_reason(facts: Facts) -> Reason:
    pod = facts.pod
    assert pod is not None
    inits = pod.spec.init_containers
    unfinished = [each.name for each in inits if facts.sandbox is None or not may_pass(facts, each)]
    message = f"containers with incomplete status: [{' '.join(unfinished)}]"
    return Reason("ContainersNotInitialized", message)


def _closed_gates(pod: Pod) -> list[str]:
    """The conditions that others must make true before the pod is ready."""
    held = {condition.type: condition.status for condition in pod.status.conditions}
    wanted = [gate.get("conditionType", "") for gate in pod.spec.readiness_gates]
    return [kind for kind in wanted if held.get(kind) != "True"]


def _unready_reason(phase: str, unready: list[str]) -> Reason:
    if phase == "Succeeded":
        return Reason("PodCompleted", "")
    if phase == "Failed":
        return Reason("PodFailed", "")
    return Reason("ContainersNotReady", f"containers with unready status: [{' '.join(unready)}]")


def _condition(pod: Pod, kind: str, now: str, *, holds: bool, why: Reason) -> dict[str, Any]:
    status = "True" if holds else "False"
    held = next((condition for condition in pod.status.conditions if condition.type == kind), None)
    kept = held.last_transition_time if held and held.status == status else None
    since = kept if kept and parse_time(kept) <= parse_time(now) else now
    # An empty reason takes away what an earlier report said: conditions are merged by type.
    code, message = ("", "") if holds else why
    condition = {
        "type": kind,
        "status": status,
        "lastTransitionTime": since,
        "reason": code,
        "message": message,
    }
    seen = {"observedGeneration": pod.metadata.generation} if pod.metadata.generation else {}
    return {**condition, **seen}


def _disruption(facts: Facts, now: str) -> list[dict[str, Any]]:
    if not facts.shutting_down or facts.pod is None:
        return []
    why = Reason("TerminationByKubelet", SHUTDOWN.message)
    return [{**_condition(facts.pod, "DisruptionTarget", now, holds=True, why=why), "reason": why.code}]
