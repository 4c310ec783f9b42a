"""Makes the pods of this node true: takes the next pod that changed, decides, acts, writes its status.

Guarantees: one worker for a pod at a time; driven by changes (API, runtime, volumes) and by the times that
`decide` names, no polling; a pod leaves the API only after `decide` found its processes gone and its volumes
unmounted, with a uid precondition, and after its last status.
"""

from __future__ import annotations

import asyncio
import contextlib
import signal
from collections import defaultdict
from random import Random
from typing import Literal, TypeAlias, assert_never

import structlog

from mooring.kube.client import Client
from mooring.kube.errors import Conflict, KubeError, NotFound, ServerError, Unreachable, is_refusal
from mooring.kube.events import Recorder
from mooring.kube.objects import Node, Pod
from mooring.kube.times import Now, format_time, parse_time
from mooring.kube.workqueue import WorkQueue
from mooring.node.network import NodeNetwork
from mooring.node.options import AgentOptions
from mooring.node.pods.cleanup import remove_pod_directory
from mooring.node.pods.decide import decide, may_start, refuse
from mooring.node.pods.ending import ends_with_the_first, grace_period
from mooring.node.pods.facts import Do, Facts, Memory
from mooring.node.pods.launch import Overtaken, PodLauncher, PodProblem
from mooring.node.pods.probing import Probing
from mooring.node.pods.record import PodRecord
from mooring.node.pods.source import PodSource
from mooring.node.pods.status import Surroundings, is_ahead, pod_status, shows
from mooring.node.pods.stopping import Stopping
from mooring.node.runtime import Runtime
from mooring.node.volumes.manager import VolumeManager

WORKERS = 32
LOOK_AGAIN_S = 1.0
OfThePod: TypeAlias = Literal[Do.WANT_VOLUMES, Do.START_SANDBOX, Do.START_CONTAINER, Do.DELETE]
"""What can be done only while the API server has the pod."""

log = structlog.get_logger("node-agent")


class PodWorker:
    """All pods of one node."""

    def __init__(
        self,
        client: Client,
        options: AgentOptions,
        pods: PodSource,
        runtime: Runtime,
        volumes: VolumeManager,
        recorder: Recorder,
        *,
        now: Now,
        random: Random,
        network: NodeNetwork | None = None,
    ) -> None:
        self._client = client
        self._options = options
        self._pods = pods
        self._runtime = runtime
        self._volumes = volumes
        self._recorder = recorder
        self._now = now
        self._random = random
        self._launcher = PodLauncher(client, options, runtime, volumes, recorder, network)
        self._probing = Probing(runtime, recorder, self.changed)
        self._stopping = Stopping(runtime, recorder)
        self._queue: WorkQueue[str] = WorkQueue()
        self._records: defaultdict[str, PodRecord] = defaultdict(PodRecord)
        self._shutting_down = False
        self._at_work = 0
        self._idle = asyncio.Event()
        pods.add_handler(self.changed)

    def changed(self, uid: str) -> None:
        """Queues the pod: something about it has changed."""
        self._queue.add(uid)

    def node_changed(self, _old: Node | None, _new: Node | None) -> None:
        """Each report of the node is an occasion to see whether its clock was set back."""
        for pod in self._pods.items():
            if is_ahead(pod, self._now()):
                self._queue.add(pod.uid)

    def shut_down(self) -> None:
        """From now on every pod is to end, as the node does."""
        self._shutting_down = True
        self.mark_all()

    async def idle(self) -> None:
        """Returns when no pod has a process or a volume on this node. Only after `shut_down`."""
        await self._idle.wait()

    def mark_all(self) -> None:
        """Looks at every pod that the API, the runtime, the volume manager or the disk knows."""
        known = (
            {pod.uid for pod in self._pods.items()}
            | set(self._runtime.sandboxes())
            | set(self._volumes.pods())
        )
        for uid in sorted(known | self._directories()):
            self._queue.add(uid)
        self._check_idle()

    async def run(self) -> None:
        """Works until cancelled. Only after reconstruction and the first list of pods."""
        self.mark_all()
        self._launcher.prepare()
        async with asyncio.TaskGroup() as group:
            for part in (
                self._probing.run(),
                self._stopping.run(),
                self._queue.run(WORKERS, self._reconcile),
            ):
                group.create_task(part)

    def _directories(self) -> set[str]:
        return {path.name for path in (self._options.root_dir / "pods").glob("*") if path.is_dir()}

    # --- one pod

    async def _reconcile(self, uid: str) -> None:
        self._at_work += 1
        try:
            await self._next(uid)
        finally:
            self._at_work -= 1
            self._check_idle()

    async def _next(self, uid: str) -> None:
        """Decides once, carries it out, writes the status."""
        record = self._records[uid]
        before, record.just_started, record.refused = record.memory, False, {}
        self._attend(uid, before)
        facts = self._facts(uid)
        now = asyncio.get_running_loop().time()
        plan = decide(facts, before, now)
        self._report_ends(facts, before, plan.memory)
        done = 0
        try:
            for action, argument in plan.actions:
                await self._do(uid, facts, action, argument)
                done += 1
        except (Unreachable, ServerError, Conflict) as error:  # about the API server, not about the pod
            log.warning("pod waits for the API server", pod_uid=uid, error=str(error))
            self._look_again(uid)
        except Overtaken as error:
            log.info("not started any more", pod_uid=uid, what=str(error))
            self._queue.add(uid)
        finally:
            record.memory = plan.remembered(before, done, record.refused)
            if plan.wake_at is not None:
                self._queue.add_after(uid, plan.wake_at - now)
            if not record.just_started:
                await self._report(uid, plan.memory)
        if (Do.FORGET, "") in plan.actions:
            for pod in self._pods.items():  # another may have waited for its name, or its volumes
                if pod.uid not in self._runtime.sandboxes():
                    self._queue.add(pod.uid)

    async def _forget(self, uid: str) -> None:
        """Nothing of the pod is left on this node."""
        await self._runtime.remove_sandbox(uid)
        self._probing.forget(uid)
        remove_pod_directory(self._options.root_dir, uid)
        self._records.pop(uid, None)

    def _look_again(self, uid: str) -> None:
        self._queue.add_after(uid, LOOK_AGAIN_S * (1 + self._random.random()))

    def _facts(self, uid: str) -> Facts:
        pod, sandbox = self._pods.find(uid), self._runtime.sandboxes().get(uid)
        left = self._time_left(pod)
        return Facts(
            pod=pod,
            sandbox=sandbox,
            name_taken=pod is not None
            and sandbox is None
            and self._pods.is_static(pod)
            and bool(self._strangers()),
            volume_taken=pod is not None
            and not (sandbox and sandbox.running)
            and not self._strangers().isdisjoint(self._volumes.sharers(uid)),
            volumes=self._volumes.state(uid),
            shutting_down=self._shutting_down,
            verdicts=self._probing.verdicts(uid),
            overdue_at=None if left is None else asyncio.get_running_loop().time() + left,
            overdue=left is not None and left <= 0,
        )

    def _strangers(self) -> set[str]:
        """The pods that still run and that nothing names any more: they were removed by force, or one is an
        earlier edition of a static pod, before a restart of this agent. The runtime does not know names."""
        return {
            uid
            for uid, sandbox in self._runtime.sandboxes().items()
            if sandbox.running and self._pods.find(uid) is None
        }

    def _time_left(self, pod: Pod | None) -> float | None:
        """Seconds until the pod's activeDeadlineSeconds have passed."""
        if pod is None or pod.spec.active_deadline_seconds is None or pod.status.start_time is None:
            return None
        age = self._now() - parse_time(pod.status.start_time)
        return pod.spec.active_deadline_seconds - age.total_seconds()

    def _attend(self, uid: str, memory: Memory) -> None:
        """Hooks and probes follow what runs, until the pod is to end."""
        facts = self._facts(uid)
        if facts.sandbox is None:
            self._probing.forget(uid)
            return
        if memory.termination is not None:
            self._probing.pause(uid)
            return

        def fresh(container: str, attempt: int) -> bool:
            request = memory.requested.get(container)
            return request is not None and request.attempt == attempt

        self._probing.attend(facts, self._address(facts), fresh=fresh)

    def _address(self, facts: Facts) -> str:
        return (facts.sandbox.address if facts.sandbox else "") or self._options.address

    async def _do(self, uid: str, facts: Facts, action: Do, argument: str) -> None:
        pod = facts.pod
        match action:
            case Do.TERMINATE:
                await self._terminate(uid, facts)
            case Do.STOP_CONTAINER:
                await self._stop(uid, facts, argument)
            case Do.KILL_CONTAINER:
                await self._stopping.signal(uid, argument, signal.SIGKILL)
            case Do.HURRY:
                await self._stopping.hurry(uid)
            case Do.KILL:
                log.info("killing pod", pod_uid=uid, pod=pod.key if pod else None, why=argument)
                await self._runtime.kill_sandbox(uid)
            case Do.RELEASE_VOLUMES:
                self._release_volumes(uid)
            case Do.FORGET:
                await self._forget(uid)
            case Do.WANT_VOLUMES | Do.START_SANDBOX | Do.START_CONTAINER | Do.DELETE:
                if pod is not None:
                    await self._do_for(pod, facts, action, argument)
            case _:
                assert_never(action)

    async def _do_for(self, pod: Pod, facts: Facts, action: OfThePod, argument: str) -> None:
        """What needs the pod as the API server has it."""
        record = self._records[pod.uid]
        match action:
            case Do.WANT_VOLUMES:
                await self._launcher.want_volumes(pod)
                self._queue.add(pod.uid)
            case Do.START_SANDBOX:
                await self._launcher.start_sandbox(pod, facts, record.problems)
                record.just_started = True
                self._queue.add(pod.uid)
            case Do.START_CONTAINER:
                await self._start_container(pod, facts, argument)
            case Do.DELETE:
                await self._delete(pod, facts)
            case _:
                assert_never(action)

    async def _start_container(self, pod: Pod, facts: Facts, name: str) -> None:
        """One that cannot be made is tried again after a backoff of its own: no other waits for it."""
        record = self._records[pod.uid]
        try:
            await self._launcher.start_container(
                pod, facts, name, record.problems, lambda: may_start(self._facts(pod.uid))
            )
        except PodProblem as error:
            now = asyncio.get_running_loop().time()
            record.refused[name] = refusal = refuse(record.memory.refused.get(name), now)
            self._queue.add_after(pod.uid, refusal.delay)
            log.warning("container not started", pod=pod.key, container=name, error=str(error))

    def _check_idle(self) -> None:
        running = any(sandbox.running for sandbox in self._runtime.sandboxes().values())
        if self._shutting_down and not (self._at_work or running or self._volumes.pods()):
            self._idle.set()

    def _release_volumes(self, uid: str) -> None:
        self._volumes.release(uid)
        if not self._volumes.state(uid).held:
            self._queue.add(uid)

    # --- the end

    async def _terminate(self, uid: str, facts: Facts) -> None:
        self._volumes.terminating(uid)
        assert facts.sandbox is not None
        if facts.pod is not None:
            self._recorder.event(facts.pod, "Normal", "Killing", "Stopping the pod's containers")
        log.info("terminating pod", pod_uid=uid, pod=facts.pod.key if facts.pod else None)
        for name in ends_with_the_first(facts):
            await self._stop(uid, facts, name)

    async def _stop(self, uid: str, facts: Facts, name: str) -> None:
        grace = facts.verdict(name).grace_s
        grace_s = grace_period(facts) if grace is None else grace
        await self._stopping.stop(
            uid, facts.pod if facts.runs(name) else None, name, self._address(facts), grace_s
        )

    async def _delete(self, pod: Pod, facts: Facts) -> None:
        await self._write_status(pod, facts, self._records[pod.uid].memory)
        if self._pods.is_static(pod):
            await self._forget(pod.uid)  # before the same manifest may come back, under the same uid
            self._pods.removed(pod)  # its mirror follows
        else:
            with contextlib.suppress(NotFound):  # a user has removed it by force
                await self._client.delete(Pod, pod.name, pod.namespace, uid=pod.uid, grace_period_seconds=0)
        log.info("pod removed", pod=pod.key, pod_uid=pod.uid)

    # --- what the API shows

    def _warn(self, pod: Pod, reason: str, message: str) -> None:
        self._recorder.event(pod, "Warning", reason, message)

    def _report_ends(self, facts: Facts, before: Memory, after: Memory) -> None:
        """Containers that ended badly since the last look."""
        for name, restart in after.restarts.items():
            record = facts.record(name)
            if facts.pod is None or record is None or before.restarts.get(name) == restart:
                continue
            if record.error:
                self._warn(facts.pod, "Failed", f"Error: {record.error}")
            elif restart.delay:
                text = f"Back-off {restart.delay:.0f}s restarting failed container {name}, exit code {record.exit_code}"
                self._warn(facts.pod, "BackOff", text)

    async def _report(self, uid: str, memory: Memory) -> None:
        facts = self._facts(uid)
        if facts.pod is None or memory.deleted:
            return
        if self._overruled(facts.pod):
            self._look_again(uid)
            return
        try:
            await self._write_status(facts.pod, facts, memory)
        except KubeError as error:
            log.warning("pod status not written", pod=facts.pod.key, error=str(error))
            if is_refusal(error):  # perhaps for good
                self._warn(facts.pod, "FailedStatusUpdate", str(error))
                self._queue.add_backoff(uid)
            else:
                self._look_again(uid)

    def _overruled(self, pod: Pod) -> bool:
        """Another controller has just changed what this agent wrote: the node life cycle controller takes
        Ready from the pods of a silent node, and may not have seen yet that the agent is back. The agent
        insists, once a second."""
        target, record = self._pods.in_api(pod), self._records[pod.uid]
        if target is None or record.status is None or shows(target, record.status):
            return False
        return asyncio.get_running_loop().time() < record.status_written_at + LOOK_AGAIN_S

    async def _write_status(self, pod: Pod, facts: Facts, memory: Memory) -> None:
        """Writes the status if it differs from what was written last, or another writer has changed it
        since."""
        record = self._records[pod.uid]
        around = Surroundings(self._options.address, format_time(self._now()), record.problems)
        status = pod_status(facts, memory, around)
        target = self._pods.in_api(pod)
        if target is not None and record.status == status and shows(target, status):
            return
        self._pods.note_status(pod, status)
        if target is None:
            return  # its mirror is not there yet: what it is to show is written when it is
        body = {"status": status}
        try:
            # With its version: a write that arrives late must not take a phase back. A Conflict is tried
            # again.
            answer = await self._client.revise(target, body, subresource="status", strategy="strategic")
        except NotFound:
            return
        record.status, record.status_written_at = status, asyncio.get_running_loop().time()
        self._pods.accept(answer)
