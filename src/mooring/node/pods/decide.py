"""What to do next about one pod on this node. Pure.

Rules: upstream's kubelet. A pod is removed from the API only when its processes are gone and its volumes are
unmounted; how it ends is `ending`'s word. Times are the event loop's, in seconds.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from mooring.kube.objects import Container, Pod
from mooring.node.pods.ending import end_condemned, terminate
from mooring.node.pods.facts import Do, Facts, Goal, Memory, Plan, Refusal, Request, Restart
from mooring.node.runtime import ContainerRecord, Sandbox

FIRST_BACKOFF_S = 10.0
LAST_BACKOFF_S = 300.0
BACKOFF_RESET_S = 600.0
FIRST_REFUSAL_S = 0.5
LAST_REFUSAL_S = 10.0
"""A container that cannot be made waits for what others are to make: an image, a ConfigMap, a directory.
Upstream's kubelet looks again after ten seconds."""
ASK_AGAIN_S = 5.0
"""A request that has not shown by then was lost with its connection; the runtime ignores one that comes
twice."""


def goal(facts: Facts) -> Goal:
    """What is to become of the pod."""
    if facts.pod is None or facts.pod.deleting:
        return Goal.REMOVE
    if facts.shutting_down or facts.pod.finished or outcome(facts) is not None:
        return Goal.STOP
    return Goal.RUN


def may_start(facts: Facts) -> bool:
    """Whether a container may be started still: its pod is to run, and no volume was taken from it."""
    return goal(facts) is Goal.RUN and facts.running and not facts.volumes.stale


def decide(facts: Facts, memory: Memory, now: float) -> Plan:
    """The next thing to do about the pod."""
    memory = replace(memory, restarts=_restarts(facts, memory, now))
    if goal(facts) is Goal.RUN:
        plan = _run(facts, memory, now)
        return replace(plan, wake_at=earliest(plan.wake_at, facts.overdue_at))
    if facts.running:
        return terminate(facts, memory, now)
    if facts.volumes.wanted or facts.volumes.held:
        return Plan(() if _ends_untold(facts) else ((Do.RELEASE_VOLUMES, ""),), memory)
    return _gone(facts, memory)


def _ends_untold(facts: Facts) -> bool:
    """Whether nothing but this agent knows that the pod has ended: one that is started anew would run it
    again, so what is in its volumes stays until its last phase is written."""
    pod = facts.pod
    return pod is not None and not (pod.deleting or pod.finished or facts.shutting_down)


def outcome(facts: Facts) -> str | None:
    """The final phase, "Succeeded" or "Failed", once no container runs or will run again, else None."""
    pod = facts.pod
    if pod is not None and (facts.overdue or facts.volumes.evicted is not None):
        return "Failed"
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
    records = [facts.record(each.name) for each in pod.spec.init_containers if not each.is_sidecar]
    return pod.spec.restart_policy == "Never" and any(record and record.exit_code for record in records)


def _end(facts: Facts, container: Container, policy: str) -> int | None:
    """The exit code of a container that is not started again."""
    record = facts.record(container.name)
    if record is None or record.exit_code is None or wants_restart(policy, record.exit_code):
        return None
    return record.exit_code


# --- running


def _run(facts: Facts, memory: Memory, now: float) -> Plan:
    memory = replace(memory, termination=None)
    if facts.volumes.stale and facts.running:
        return Plan(((Do.KILL, "a volume was taken from this node"),), memory)
    if facts.volumes.stale:
        return Plan(((Do.RELEASE_VOLUMES, ""),), memory)
    if not facts.volumes.wanted:
        # What was released is unmounted first: the pod starts from nothing.
        return Plan((), memory) if facts.volumes.releasing else Plan(((Do.WANT_VOLUMES, ""),), memory)
    if not facts.running:
        ready = not (facts.volumes.waiting or facts.name_taken or facts.volume_taken)
        return Plan(((Do.START_SANDBOX, ""),) if ready else (), replace(memory, requested={}))
    return _start(facts, memory, now)


def _start(facts: Facts, memory: Memory, now: float) -> Plan:
    """Starts what may start now, and ends what is condemned."""
    ending = end_condemned(facts, memory, now)
    actions = list(ending.actions)
    requested, refused = dict(memory.requested), dict[str, Refusal]()
    wake = [ending.wake_at]
    for container, attempt in startable(facts):
        if (refusal := memory.refused.get(container.name)) is not None:
            refused[container.name] = refusal
        due = _due(memory, container.name)
        request = requested.get(container.name)
        if now < due:
            wake.append(due)
            continue
        if request is None or request.attempt < attempt or now >= request.at + ASK_AGAIN_S:
            actions.append((Do.START_CONTAINER, container.name))
            requested[container.name] = Request(attempt, now)
        wake.append(requested[container.name].at + ASK_AGAIN_S)
    memory = replace(memory, requested=requested, refused=refused, stops=ending.stops)
    return Plan(tuple(actions), memory, earliest(*wake))


def _due(memory: Memory, container: str) -> float:
    """When it may be started: its backoff is over."""
    waits = (memory.restarts.get(container), memory.refused.get(container))
    return max((wait.due for wait in waits if wait is not None), default=0.0)


def earliest(*times: float | None) -> float | None:
    """The first of those that are set."""
    return min((time for time in times if time is not None), default=None)


def startable(facts: Facts) -> Iterator[tuple[Container, int]]:
    """The containers that are to run now and do not, each with the number of its next attempt."""
    pod, sandbox = facts.pod, facts.sandbox
    assert pod is not None
    assert sandbox is not None
    for container in pod.spec.ephemeral_containers:  # once, and whatever else of the pod runs
        if facts.record(container.name) is None:
            yield container, next_attempt(pod, container, None)
    for container in pod.spec.init_containers:
        if may_pass(facts, container):
            continue
        record = facts.record(container.name)
        if not facts.runs(container.name):
            yield container, next_attempt(pod, container, record)
        if not (container.is_sidecar and _past_init(facts, pod, sandbox)):
            return
    for container in pod.spec.containers:
        record = facts.record(container.name)
        if record is None or (
            record.exit_code is not None and wants_restart(pod.spec.restart_policy, record.exit_code)
        ):
            yield container, next_attempt(pod, container, record)


def may_pass(facts: Facts, container: Container) -> bool:
    """What comes after this init container may start: it has ended well in this sandbox; a sidecar has
    started."""
    if container.is_sidecar:
        return facts.started(container.name)
    record = facts.record(container.name)
    assert facts.sandbox is not None
    return record is not None and record.exit_code == 0 and record.sandbox == facts.sandbox.number


def _past_init(facts: Facts, pod: Pod, sandbox: Sandbox) -> bool:
    """The pod's containers have begun in this sandbox: a sidecar that starts again delays no other
    container."""
    records = [facts.record(container.name) for container in pod.spec.containers]
    return any(record is not None and record.sandbox == sandbox.number for record in records)


def next_attempt(pod: Pod, container: Container, record: ContainerRecord | None) -> int:
    """Attempts count from 0 for the life of the pod; if this node has lost its records, on from the pod's
    status."""
    if record is not None:
        return record.attempt + 1
    known = pod.status
    for status in (
        *known.init_container_statuses,
        *known.container_statuses,
        *known.ephemeral_container_statuses,
    ):
        if status.name == container.name and (status.container_id or status.restart_count):
            return status.restart_count + 1
    return 0


def _restarts(facts: Facts, memory: Memory, now: float) -> dict[str, Restart]:
    """What is remembered of containers that have ended, kept while they run again: the backoff grows from
    it."""
    records = facts.sandbox.containers if facts.sandbox else {}
    ended = {name: record for name, record in records.items() if record.exit_code is not None}
    return {
        **memory.restarts,
        **{name: _restart(memory.restarts.get(name), ended[name], now) for name in ended},
    }


def _restart(known: Restart | None, record: ContainerRecord, now: float) -> Restart:
    if known is not None and known.attempt == record.attempt:
        return known
    ran_s = (record.finished_at or record.started_at) - record.started_at
    return Restart(
        record.attempt, now, 0.0 if known is None or ran_s >= BACKOFF_RESET_S else _longer(known.delay)
    )


def refuse(known: Refusal | None, now: float) -> Refusal:
    """A container could not be made, once more if `known` says so."""
    delay = min(known.delay * 2, LAST_REFUSAL_S) if known is not None else FIRST_REFUSAL_S
    return Refusal(delay, now + delay)


def _longer(delay: float) -> float:
    return min(delay * 2, LAST_BACKOFF_S) if delay else FIRST_BACKOFF_S


def _gone(facts: Facts, memory: Memory) -> Plan:
    """No process, no volume."""
    if facts.pod is None:
        return Plan(((Do.FORGET, ""),), memory)
    if facts.pod.deleting and not memory.deleted:
        return Plan(((Do.DELETE, ""),), replace(memory, deleted=True))
    return Plan((), memory)
