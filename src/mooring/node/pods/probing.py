"""Runs the postStart hooks and the probes of this node's containers, and keeps what they found (`verdicts`).

For each attempt of a container: its hook; then its startup probe until that has succeeded; then liveness and
readiness side by side. What must end a container is only said; `ending` brings it about. Probes are the one
thing here that asks again and again, because their users ask for that.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Callable, Mapping
from dataclasses import dataclass, replace

from mooring.kube.events import Recorder
from mooring.kube.objects import Container, Pod
from mooring.kube.objects.pods import Handler, Probe
from mooring.node.pods.facts import Facts, Verdict
from mooring.node.pods.handlers import Outcome, Target, handle
from mooring.node.runtime import ContainerRecord, Runtime

HOOK_TIMEOUT_S = 3600.0
"""A postStart hook that does not end holds its container up for long, not for ever."""


@dataclass(frozen=True)
class Tally:
    """The last result of a probe, and how many times in a row it was that."""

    success: bool = True
    times: int = 0

    def count(self, success: bool) -> Tally:
        """After one more result."""
        return Tally(success, self.times + 1 if success is self.success else 1)

    def verdict(self, probe: Probe) -> bool | None:
        """True or False once a threshold is reached; None: as before."""
        threshold = probe.success_threshold if self.success else probe.failure_threshold
        return self.success if self.times >= threshold else None


class _Attendance:
    """One attempt of a container that is attended to."""

    def __init__(self, verdict: Verdict) -> None:
        self.verdict = verdict
        self.task: asyncio.Task[None] | None = None


class Probing:
    """All hooks and probes of one node. `changed(pod uid)` is called after each new verdict."""

    def __init__(self, runtime: Runtime, recorder: Recorder, changed: Callable[[str], None]) -> None:
        self._runtime = runtime
        self._recorder = recorder
        self._changed = changed
        self._attended: dict[str, dict[str, _Attendance]] = {}

    def verdicts(self, uid: str) -> Mapping[str, Verdict]:
        """By container; none for those without hooks and probes."""
        return {name: attendance.verdict for name, attendance in self._attended.get(uid, {}).items()}

    def attend(self, facts: Facts, address: str, *, fresh: Callable[[str, int], bool]) -> None:
        """Begins with the attempts that run now, and lets go of those that have ended. `fresh(container,
        attempt)`: this agent started it, so its hook has not run."""
        pod = facts.pod
        if pod is None or facts.sandbox is None:
            return
        attended = self._attended.setdefault(pod.uid, {})
        for container in (*pod.spec.init_containers, *pod.spec.containers):
            record, known = facts.record(container.name), attended.get(container.name)
            if known is not None and (record is None or record.attempt != known.verdict.attempt):
                _end(attended.pop(container.name))
                known = None
            if record is None or record.exit_code is not None:
                if known is not None:
                    _end(known)
            elif known is None and _needs(container):
                is_fresh = fresh(container.name, record.attempt)
                attended[container.name] = self._begin(pod, container, record, address, is_fresh=is_fresh)

    def pause(self, uid: str) -> None:
        """The pod is being ended: no probe runs any more, and the last verdict holds."""
        for attendance in self._attended.get(uid, {}).values():
            _end(attendance)

    def forget(self, uid: str) -> None:
        """The pod is gone."""
        for attendance in self._attended.pop(uid, {}).values():
            _end(attendance)

    async def run(self) -> None:
        """Until cancelled; then every probe ends."""
        try:
            await asyncio.Event().wait()
        finally:
            for uid in list(self._attended):
                self.forget(uid)

    # --- one container

    def _begin(
        self, pod: Pod, container: Container, record: ContainerRecord, address: str, *, is_fresh: bool
    ) -> _Attendance:
        attendance = _Attendance(_first_verdict(pod, container, record, is_fresh=is_fresh))
        target = Target(pod.uid, container, address)
        story = self._attend(attendance, pod, target, is_fresh=is_fresh)
        attendance.task = asyncio.create_task(story, name=f"probes of {pod.key}/{container.name}")
        return attendance

    async def _attend(self, attendance: _Attendance, pod: Pod, target: Target, *, is_fresh: bool) -> None:
        container = target.container
        hook = container.lifecycle.post_start if container.lifecycle else None
        if is_fresh and hook is not None and not await self._hook(attendance, pod, target, hook):
            return
        if container.startup_probe is not None and not attendance.verdict.started:
            probing = self._probe(pod, target, container.startup_probe, "Startup")
            if not await anext(probing):
                self._condemn(attendance, pod, container.startup_probe, container, "startup")
                return
        self._say(attendance, pod, replace(attendance.verdict, started=True))
        async with asyncio.TaskGroup() as group:
            if container.liveness_probe is not None:
                group.create_task(self._liveness(attendance, pod, target, container.liveness_probe))
            if container.readiness_probe is not None:
                group.create_task(self._readiness(attendance, pod, target, container.readiness_probe))

    async def _hook(self, attendance: _Attendance, pod: Pod, target: Target, hook: Handler) -> bool:
        outcome = await handle(self._runtime, target, hook, HOOK_TIMEOUT_S)
        if not outcome.success:
            self._recorder.event(
                pod,
                "Warning",
                "FailedPostStartHook",
                f"PostStartHook of {target.container.name}: {outcome.output}",
            )
            self._say(attendance, pod, replace(attendance.verdict, end="FailedPostStartHook"))
        return outcome.success

    async def _liveness(self, attendance: _Attendance, pod: Pod, target: Target, probe: Probe) -> None:
        async for alive in self._probe(pod, target, probe, "Liveness"):
            if not alive:
                self._condemn(attendance, pod, probe, target.container, "liveness")
                return

    async def _readiness(self, attendance: _Attendance, pod: Pod, target: Target, probe: Probe) -> None:
        async for ready in self._probe(pod, target, probe, "Readiness"):
            self._say(attendance, pod, replace(attendance.verdict, ready=ready))

    async def _probe(self, pod: Pod, target: Target, probe: Probe, kind: str) -> AsyncGenerator[bool, None]:
        """Yields True or False whenever a threshold is reached."""
        tally = Tally()
        await asyncio.sleep(probe.initial_delay_seconds)
        while True:
            outcome = await handle(self._runtime, target, probe, probe.timeout_seconds)
            if not outcome.success:
                self._report(pod, target.container, kind, outcome)
            tally = tally.count(outcome.success)
            reached = tally.verdict(probe)
            if reached is not None:
                yield reached
            await asyncio.sleep(probe.period_seconds)

    # --- telling

    def _report(self, pod: Pod, container: Container, kind: str, outcome: Outcome) -> None:
        self._recorder.event(
            pod, "Warning", "Unhealthy", f"{kind} probe failed: container {container.name}: {outcome.output}"
        )

    def _condemn(
        self, attendance: _Attendance, pod: Pod, probe: Probe, container: Container, kind: str
    ) -> None:
        text = f"Container {container.name} failed {kind} probe, will be restarted"
        self._recorder.event(pod, "Normal", "Killing", text)
        grace = probe.termination_grace_period_seconds
        self._say(
            attendance,
            pod,
            replace(attendance.verdict, end=text, grace_s=None if grace is None else float(grace)),
        )

    def _say(self, attendance: _Attendance, pod: Pod, verdict: Verdict) -> None:
        if verdict != attendance.verdict:
            attendance.verdict = verdict
            self._changed(pod.uid)


def _needs(container: Container) -> bool:
    hook = container.lifecycle is not None and container.lifecycle.post_start is not None
    return hook or any((container.startup_probe, container.liveness_probe, container.readiness_probe))


def _first_verdict(pod: Pod, container: Container, record: ContainerRecord, *, is_fresh: bool) -> Verdict:
    """Not started, not ready; but an attempt that has started under an earlier agent is what its status
    says."""
    if not is_fresh:
        for status in (*pod.status.init_container_statuses, *pod.status.container_statuses):
            if status.name == container.name and status.restart_count == record.attempt and status.started:
                return Verdict(record.attempt, ready=status.ready)
    return Verdict(record.attempt, started=False, ready=container.readiness_probe is None)


def _end(attendance: _Attendance) -> None:
    if attendance.task is not None:
        attendance.task.cancel()
