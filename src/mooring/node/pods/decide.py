"""What to do next about one pod on this node. Pure.

Rules: upstream's kubelet, and the pod-safety document for termination: grace periods only shrink, an agent that was
restarted starts the period anew, at least 2 s lie between SIGTERM and SIGKILL, a pod is removed from the API only when
its processes are gone and its volumes are unmounted. Times are the event loop's, in seconds.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from enum import Enum

from mooring.kube.objects import Container, Pod
from mooring.node.runtime import ContainerRecord, Sandbox
from mooring.node.volumes.decide import PodVolumes

MINIMUM_GRACE_S = 2.0
FIRST_BACKOFF_S = 10.0
LAST_BACKOFF_S = 300.0
BACKOFF_RESET_S = 600.0
ASK_AGAIN_S = 5.0
"""A request that has not shown by then was lost with its connection; the runtime ignores one that comes twice."""


class Goal(Enum):
    """What is to become of the pod."""

    RUN = "run"
    STOP = "stop"
    """It has finished, or the node shuts down: its processes end, its volumes are unmounted, it stays in the API."""
    REMOVE = "remove"
    """It was deleted: as STOP, then it leaves the API."""


@dataclass(frozen=True)
class Termination:
    """A termination that has begun: SIGTERM was sent at `signalled_at`, SIGKILL follows at `deadline`."""

    signalled_at: float
    deadline: float


@dataclass(frozen=True)
class Restart:
    """The backoff of one container: `attempt` was seen to end at `ended_at`; the next may start `delay` later."""

    attempt: int
    ended_at: float
    delay: float

    @property
    def due(self) -> float:
        return self.ended_at + self.delay


@dataclass(frozen=True)
class Request:
    """The runtime was asked for this attempt, at this time."""

    attempt: int
    at: float


@dataclass(frozen=True)
class Memory:
    """What the worker remembers of a pod from one decision to the next. Nothing of it must survive a restart."""

    termination: Termination | None = None
    restarts: Mapping[str, Restart] = field(default_factory=dict[str, Restart])
    requested: Mapping[str, Request] = field(default_factory=dict[str, "Request"])
    """The last attempt of each container that the runtime was asked for."""
    deleted: bool = False
    """The API server was told that the pod is gone from here."""


@dataclass(frozen=True)
class Facts:
    """The pod as it is. `pod` is None if the API server does not know it (any more)."""

    pod: Pod | None
    sandbox: Sandbox | None
    volumes: PodVolumes
    shutting_down: bool = False

    @property
    def running(self) -> bool:
        return self.sandbox is not None and self.sandbox.running

    def record(self, container: str) -> ContainerRecord | None:
        return self.sandbox.containers.get(container) if self.sandbox else None


class Do(Enum):
    """One thing to do."""

    WANT_VOLUMES = "want volumes"
    START_SANDBOX = "start sandbox"
    START_CONTAINER = "start container"
    TERMINATE = "terminate"
    KILL = "kill"
    RELEASE_VOLUMES = "release volumes"
    DELETE = "delete"
    FORGET = "forget"


@dataclass(frozen=True)
class Decision:
    """What to do now (the first that fails ends the round), and when to look again if nothing happens before."""

    actions: tuple[tuple[Do, str], ...] = ()
    memory: Memory = Memory()
    wake_at: float | None = None


def goal(facts: Facts) -> Goal:
    """What is to become of the pod."""
    if facts.pod is None or facts.pod.deleting:
        return Goal.REMOVE
    if facts.shutting_down or facts.pod.finished or outcome(facts) is not None:
        return Goal.STOP
    return Goal.RUN


def decide(facts: Facts, memory: Memory, now: float) -> Decision:
    """The next thing to do about the pod."""
    memory = replace(memory, restarts=_restarts(facts, memory, now))
    if goal(facts) is Goal.RUN:
        return _run(facts, memory, now)
    if facts.running:
        return _terminate(facts, memory, now)
    if facts.volumes.wanted or facts.volumes.held:
        return Decision(((Do.RELEASE_VOLUMES, ""),), memory)
    return _gone(facts, memory)


def outcome(facts: Facts) -> str | None:
    """ "Succeeded" or "Failed" once no container runs or will run again, else None."""
    pod = facts.pod
    if pod is None or facts.sandbox is None or pod.spec.restart_policy == "Always":
        return None
    if _init_failed(facts, pod):
        return "Failed"
    ends = [_end(facts, container, pod.spec.restart_policy) for container in pod.spec.containers]
    if None in ends:
        return None
    return "Succeeded" if all(code == 0 for code in ends) else "Failed"


def wants_restart(policy: str, exit_code: int) -> bool:
    """Whether a container that ended is started again."""
    return policy == "Always" or (policy == "OnFailure" and exit_code != 0)


def _init_failed(facts: Facts, pod: Pod) -> bool:
    records = [facts.record(container.name) for container in pod.spec.init_containers]
    return pod.spec.restart_policy == "Never" and any(record and record.exit_code for record in records)


def _end(facts: Facts, container: Container, policy: str) -> int | None:
    """The exit code of a container that is not started again."""
    record = facts.record(container.name)
    if record is None or record.exit_code is None or wants_restart(policy, record.exit_code):
        return None
    return record.exit_code


# --- running -------------------------------------------------------------------------------------------------------


def _run(facts: Facts, memory: Memory, now: float) -> Decision:
    memory = replace(memory, termination=None)
    if facts.volumes.stale and facts.running:
        return Decision(((Do.KILL, "a volume was taken from this node"),), memory)
    if facts.volumes.stale:
        return Decision(((Do.RELEASE_VOLUMES, ""),), memory)
    if not facts.volumes.wanted:
        # What was released is unmounted first: the pod starts from nothing.
        return Decision((), memory) if facts.volumes.releasing else Decision(((Do.WANT_VOLUMES, ""),), memory)
    if not facts.running:
        ready = not facts.volumes.waiting
        return Decision(((Do.START_SANDBOX, ""),) if ready else (), replace(memory, requested={}))
    return _start(facts, memory, now)


def _start(facts: Facts, memory: Memory, now: float) -> Decision:
    """Starts what may start now."""
    actions: list[tuple[Do, str]] = []
    requested = dict(memory.requested)
    wake: list[float] = []
    for container, attempt in startable(facts):
        restart = memory.restarts.get(container.name)
        asked = requested.get(container.name)
        if restart is not None and now < restart.due:
            wake.append(restart.due)
            continue
        if asked is None or asked.attempt < attempt or now >= asked.at + ASK_AGAIN_S:
            actions.append((Do.START_CONTAINER, container.name))
            requested[container.name] = Request(attempt, now)
        wake.append(requested[container.name].at + ASK_AGAIN_S)
    return Decision(tuple(actions), replace(memory, requested=requested), min(wake, default=None))


def startable(facts: Facts) -> Iterator[tuple[Container, int]]:
    """The containers that are to run now and do not, each with the number of its next attempt."""
    pod, sandbox = facts.pod, facts.sandbox
    assert pod is not None
    assert sandbox is not None
    for container in pod.spec.init_containers:
        record = facts.record(container.name)
        if record is not None and record.exit_code == 0 and record.sandbox == sandbox.number:
            continue
        if record is None or record.exit_code is not None:
            yield container, next_attempt(pod, container, record)
        return
    for container in pod.spec.containers:
        record = facts.record(container.name)
        if record is None or (
            record.exit_code is not None and wants_restart(pod.spec.restart_policy, record.exit_code)
        ):
            yield container, next_attempt(pod, container, record)


def next_attempt(pod: Pod, container: Container, record: ContainerRecord | None) -> int:
    """Attempts count from 0 for the life of the pod; if this node has lost its records, on from the pod's status."""
    if record is not None:
        return record.attempt + 1
    for status in (*pod.status.init_container_statuses, *pod.status.container_statuses):
        if status.name == container.name and (status.container_id or status.restart_count):
            return status.restart_count + 1
    return 0


def _restarts(facts: Facts, memory: Memory, now: float) -> dict[str, Restart]:
    """What is remembered of containers that have ended, kept while they run again: the backoff grows from it."""
    records = facts.sandbox.containers if facts.sandbox else {}
    ended = {name: record for name, record in records.items() if record.exit_code is not None}
    return {**memory.restarts, **{name: _restart(memory.restarts.get(name), ended[name], now) for name in ended}}


def _restart(known: Restart | None, record: ContainerRecord, now: float) -> Restart:
    if known is not None and known.attempt == record.attempt:
        return known
    ran_s = (record.finished_at or record.started_at) - record.started_at
    return Restart(record.attempt, now, 0.0 if known is None or ran_s >= BACKOFF_RESET_S else _longer(known.delay))


def _longer(delay: float) -> float:
    return min(delay * 2, LAST_BACKOFF_S) if delay else FIRST_BACKOFF_S


# --- ending --------------------------------------------------------------------------------------------------------


def _terminate(facts: Facts, memory: Memory, now: float) -> Decision:
    if not _alive(facts, memory):
        return Decision(((Do.KILL, ""),), memory)
    begun = memory.termination
    termination = shrink(begun, now, grace_period(facts))
    memory = replace(memory, termination=termination)
    if now >= termination.deadline:
        return Decision(((Do.KILL, "its grace period is over"),), memory)
    return Decision(((Do.TERMINATE, ""),) if begun is None else (), memory, termination.deadline)


def grace_period(facts: Facts) -> float:
    """Seconds; 0 for a pod that was removed from the API by force."""
    pod = facts.pod
    if pod is None:
        return 0.0
    if pod.metadata.deletion_grace_period_seconds is not None:
        return float(pod.metadata.deletion_grace_period_seconds)
    return float(pod.spec.termination_grace_period_seconds)


def shrink(begun: Termination | None, now: float, grace: float) -> Termination:
    """The termination under a grace period that is asked for now: it may come earlier than planned, never later."""
    if begun is None:
        return Termination(now, now + max(MINIMUM_GRACE_S, grace))
    return replace(begun, deadline=min(begun.deadline, max(begun.signalled_at + MINIMUM_GRACE_S, now + grace)))


def _alive(facts: Facts, memory: Memory) -> bool:
    """A container runs, or may: the runtime was asked for an attempt that it does not show yet."""
    assert facts.sandbox is not None
    records = facts.sandbox.containers
    if any(record.exit_code is None for record in records.values()):
        return True
    return any(name not in records or records[name].attempt < asked.attempt for name, asked in memory.requested.items())


def _gone(facts: Facts, memory: Memory) -> Decision:
    """No process, no volume."""
    if facts.pod is None:
        return Decision(((Do.FORGET, ""),), memory)
    if facts.pod.deleting and not memory.deleted:
        return Decision(((Do.DELETE, ""),), replace(memory, deleted=True))
    return Decision((), memory)
