"""Makes the pods of this node true: takes the next pod that changed, decides, acts, writes its status.

Guarantees: one worker for a pod at a time; driven by changes (API, runtime, volumes) and by the times that `decide`
names, no polling; a pod leaves the API only after `decide` found its processes gone and its volumes unmounted, with a
uid precondition, and after its last status.
"""

from __future__ import annotations

import asyncio
import base64
import contextlib
import signal
from collections.abc import Mapping
from pathlib import Path
from random import Random
from typing import Any

import structlog

from mooring.kube.client import Client
from mooring.kube.errors import Conflict, KubeError, NotFound, ServerError, Unreachable
from mooring.kube.events import Recorder
from mooring.kube.informer import Informer
from mooring.kube.objects import ConfigMap, Container, PersistentVolume, PersistentVolumeClaim, Pod, Secret, Volume
from mooring.kube.reason import Reason
from mooring.kube.times import Now, format_time
from mooring.kube.workqueue import WorkQueue
from mooring.node.options import AgentOptions
from mooring.node.pods.cleanup import remove_pod_directory
from mooring.node.pods.containers import ContainerConfigProblem, container_spec, images_on_host_root, sandbox_spec
from mooring.node.pods.decide import Do, Facts, Memory, decide, startable
from mooring.node.pods.status import Surroundings, pod_status
from mooring.node.runtime import Runtime, Sandbox, SandboxStartFailure
from mooring.node.volumes.manager import VolumeManager
from mooring.volumes.claims import claim_name, refuse_vanishing, refuse_wrong_use, volume_spec
from mooring.volumes.errors import VolumeError
from mooring.volumes.spec import VolumeSpec

WORKERS = 32
LOOK_AGAIN_S = 1.0

log = structlog.get_logger("node-agent")


class PodProblem(Exception):
    """What was tried for a pod failed; an event has said so, and it is tried again after its backoff."""


class PodWorker:
    """All pods of one node. `pods` is an informer of the pods bound to it, with an index "uid"."""

    def __init__(
        self,
        client: Client,
        options: AgentOptions,
        pods: Informer[Pod],
        runtime: Runtime,
        volumes: VolumeManager,
        recorder: Recorder,
        *,
        now: Now,
        random: Random,
    ) -> None:
        self._client = client
        self._options = options
        self._pods = pods
        self._runtime = runtime
        self._volumes = volumes
        self._recorder = recorder
        self._now = now
        self._random = random
        self._queue: WorkQueue[str] = WorkQueue()
        self._memory: dict[str, Memory] = {}
        self._problems: dict[str, dict[str, Reason]] = {}
        self._written: dict[str, dict[str, Any]] = {}
        self._shutting_down = False
        self._idle = asyncio.Event()
        pods.add_handler(self._pod_changed)

    def changed(self, uid: str) -> None:
        """Something about this pod has changed."""
        self._queue.add(uid)

    def shut_down(self) -> None:
        """From now on every pod is to end, as the node does."""
        self._shutting_down = True
        self.mark_all()

    async def idle(self) -> None:
        """Returns when no pod has a process or a volume on this node. Only after `shut_down`."""
        await self._idle.wait()

    def mark_all(self) -> None:
        """Looks at every pod that anybody knows."""
        known = {pod.uid for pod in self._pods.items()} | set(self._runtime.sandboxes()) | set(self._volumes.pods())
        for uid in known | self._directories():
            self._queue.add(uid)
        self._tell_idle()

    async def run(self) -> None:
        """Works until cancelled. Only after reconstruction and the first list of pods."""
        self.mark_all()
        await self._queue.run(WORKERS, self._reconcile)

    def _pod_changed(self, old: Pod | None, new: Pod | None) -> None:
        for pod in (old, new):
            if pod is not None:
                self._queue.add(pod.uid)

    def _directories(self) -> set[str]:
        return {path.name for path in (self._options.root_dir / "pods").glob("*") if path.is_dir()}

    # --- one pod

    async def _reconcile(self, uid: str) -> None:
        facts = self._facts(uid)
        now = asyncio.get_running_loop().time()
        decision = decide(facts, self._memory.get(uid, Memory()), now)
        try:
            for action, argument in decision.actions:
                await self._do(uid, facts, action, argument)
            self._memory[uid] = decision.memory
        except (Unreachable, ServerError, Conflict) as error:  # about the API server, not about the pod
            log.warning("pod waits for the API server", pod_uid=uid, error=str(error))
            self._look_again(uid)
        finally:
            await self._tell(uid, decision.memory)
        if decision.wake_at is not None:
            self._queue.add_after(uid, decision.wake_at - now)
        if (Do.FORGET, "") in decision.actions:
            self._forget(uid)

    def _look_again(self, uid: str) -> None:
        self._queue.add_after(uid, LOOK_AGAIN_S * (1 + self._random.random()))

    def _facts(self, uid: str) -> Facts:
        found = self._pods.by_index("uid", uid)
        return Facts(
            pod=found[0] if found else None,
            sandbox=self._runtime.sandboxes().get(uid),
            volumes=self._volumes.state(uid),
            shutting_down=self._shutting_down,
        )

    async def _do(self, uid: str, facts: Facts, action: Do, argument: str) -> None:
        pod = facts.pod
        if action is Do.WANT_VOLUMES and pod is not None:
            await self._want_volumes(pod)
        elif action is Do.START_SANDBOX and pod is not None:
            await self._start_sandbox(pod, facts)
        elif action is Do.START_CONTAINER and pod is not None:
            await self._start_container(pod, facts, argument)
        elif action is Do.TERMINATE:
            await self._terminate(uid, facts)
        elif action is Do.KILL:
            log.info("killing pod", pod_uid=uid, pod=pod.key if pod else None, why=argument)
            await self._runtime.kill_sandbox(uid)
        elif action is Do.RELEASE_VOLUMES:
            self._release_volumes(uid)
        elif action is Do.DELETE and pod is not None:
            await self._delete(pod, facts)
        elif action is Do.FORGET:
            await self._runtime.remove_sandbox(uid)
            remove_pod_directory(self._options.root_dir, uid)

    def _forget(self, uid: str) -> None:
        for known in (self._memory, self._problems, self._written):
            known.pop(uid, None)

    def _tell_idle(self) -> None:
        busy = any(sandbox.running for sandbox in self._runtime.sandboxes().values()) or self._volumes.pods()
        if self._shutting_down and not busy:
            self._idle.set()

    # --- volumes

    async def _want_volumes(self, pod: Pod) -> None:
        """A pod without volumes wants none, and has all of them."""
        try:
            self._volumes.want(pod, {volume.name: await self._spec(pod, volume) for volume in pod.spec.volumes})
        except VolumeError as error:
            self._warn(pod, "FailedMount", str(error))
            raise PodProblem(f"pod {pod.key}: {error}") from error
        self._queue.add(pod.uid)

    def _release_volumes(self, uid: str) -> None:
        self._volumes.release(uid)
        if not self._volumes.state(uid).held:
            self._queue.add(uid)

    async def _spec(self, pod: Pod, volume: Volume) -> VolumeSpec:
        claim: PersistentVolumeClaim | None = None
        pv: PersistentVolume | None = None
        if (claimed := claim_name(pod, volume)) is not None:
            claim = await self._client.find(PersistentVolumeClaim, claimed, pod.namespace)
            if claim is not None:
                refuse_vanishing(claim)
            if claim is not None and claim.spec.volume_name:
                pv = await self._client.find(PersistentVolume, claim.spec.volume_name)
        spec = volume_spec(pod, volume, lambda namespace, name: claim, lambda name: pv)
        refuse_wrong_use(pod, volume, spec)
        return spec

    # --- containers

    async def _start_sandbox(self, pod: Pod, facts: Facts) -> None:
        masks = tuple(str(path) for path in (self._options.root_dir, *self._options.masked_dirs))
        spec = sandbox_spec(pod, facts.volumes.mounted, self._image_directory, masks)
        try:
            await self._runtime.start_sandbox(spec)
        except SandboxStartFailure as error:
            self._warn(pod, "FailedCreatePodSandBox", str(error))
            raise PodProblem(f"pod {pod.key}: {error}") from error
        log.info("sandbox started", pod=pod.key, pod_uid=pod.uid)
        self._tell_host_root(pod, self._runtime.sandboxes()[pod.uid])
        self._queue.add(pod.uid)

    def _tell_host_root(self, pod: Pod, sandbox: Sandbox) -> None:
        """Once for a pod."""
        images = images_on_host_root(pod, self._image_directory)
        if sandbox.number or not images:
            return
        root = "as an overlay (writes stay in the container)"
        if sandbox.rootfs == "bind":
            root = "read-only, because a user namespace allows no overlay of it"
        self._warn(
            pod,
            "HostRootFileSystem",
            f"image {', '.join(images)}: there is no such root file system folder under --images, so the containers "
            f"run on the root file system of node {self._options.name}, {root}. Pods here are processes for testing "
            "storage, not a security boundary",
        )

    async def _start_container(self, pod: Pod, facts: Facts, name: str) -> None:
        container, attempt = next(entry for entry in startable(facts) if entry[0].name == name)
        problems = self._problems.setdefault(pod.uid, {})
        try:
            data = await self._referenced_data(pod, container)
            spec = container_spec(
                pod,
                container,
                attempt,
                node_address=self._options.address,
                image_directory=self._image_directory,
                lookup=lambda kind, name: data.get((kind, name)),
            )
        except ContainerConfigProblem as problem:
            problems[name] = Reason(problem.reason, str(problem))
            self._warn(pod, "Failed", str(problem))
            raise PodProblem(f"pod {pod.key}: {problem}") from problem
        problems.pop(name, None)
        await self._runtime.start_container(pod.uid, spec)
        self._recorder.event(pod, "Normal", "Started", f"Started container {name}")
        log.info("container started", pod=pod.key, container=name, attempt=attempt)

    async def _referenced_data(self, pod: Pod, container: Container) -> dict[tuple[str, str], Mapping[str, str]]:
        """The ConfigMaps and Secrets that the container's variables refer to."""
        found: dict[tuple[str, str], Mapping[str, str]] = {}
        for variable in container.env:
            source = variable.value_from or {}
            if "configMapKeyRef" in source:
                name = source["configMapKeyRef"].get("name", "")
                if config_map := await self._client.find(ConfigMap, name, pod.namespace):
                    found["ConfigMap", name] = config_map.data
            if "secretKeyRef" in source:
                name = source["secretKeyRef"].get("name", "")
                if secret := await self._client.find(Secret, name, pod.namespace):
                    found["Secret", name] = {k: base64.b64decode(v).decode() for k, v in secret.data.items()}
        return found

    def _image_directory(self, image: str) -> str | None:
        images = self._options.images_dir
        if images is None or not image or ".." in Path(image).parts:
            return None
        directory = images / image
        return str(directory) if directory.is_dir() else None

    # --- the end

    async def _terminate(self, uid: str, facts: Facts) -> None:
        self._volumes.terminating(uid)
        assert facts.sandbox is not None
        if facts.pod is not None:
            self._recorder.event(facts.pod, "Normal", "Killing", "Stopping the pod's containers")
        log.info("terminating pod", pod_uid=uid, pod=facts.pod.key if facts.pod else None)
        names = [container.name for container in facts.pod.spec.containers] if facts.pod else []
        for name in dict.fromkeys([*names, *facts.sandbox.containers]):
            await self._runtime.signal_container(uid, name, signal.SIGTERM)

    async def _delete(self, pod: Pod, facts: Facts) -> None:
        await self._write_status(pod, facts, self._memory.get(pod.uid, Memory()))
        with contextlib.suppress(NotFound):  # somebody removed it by force
            await self._client.delete(Pod, pod.name, pod.namespace, uid=pod.uid, grace_period_seconds=0)
        log.info("pod removed", pod=pod.key, pod_uid=pod.uid)

    # --- telling

    def _warn(self, pod: Pod, reason: str, message: str) -> None:
        self._recorder.event(pod, "Warning", reason, message)

    async def _tell(self, uid: str, memory: Memory) -> None:
        self._tell_idle()
        facts = self._facts(uid)
        if facts.pod is None or memory.deleted:
            return
        try:
            await self._write_status(facts.pod, facts, memory)
        except KubeError as error:
            log.warning("pod status not written", pod=facts.pod.key, error=str(error))
            self._look_again(uid)

    async def _write_status(self, pod: Pod, facts: Facts, memory: Memory) -> None:
        """Writes the status if it is another than what was written last."""
        around = Surroundings(self._options.address, format_time(self._now()), self._problems.get(pod.uid, {}))
        status = pod_status(facts, memory, around)
        if self._written.get(pod.uid) == status:
            return
        body = {"status": status}
        try:
            answer = await self._client.patch(
                Pod, pod.name, body, pod.namespace, subresource="status", uid=pod.uid, strategy="strategic"
            )
        except (NotFound, Conflict):
            return  # it is gone, or another pod has its name
        self._written[pod.uid] = status
        self._pods.accept(answer)
