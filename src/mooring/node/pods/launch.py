"""Starts what a pod needs: its volumes are asked for, its sandbox and its containers are started.

What cannot be done now becomes an event of the pod and is raised as `PodProblem`; the caller tries again
later. It must not know when to do which: `decide` says that.
"""

from __future__ import annotations

import base64
import contextlib
from collections import deque
from collections.abc import Callable, Generator, Mapping, Sequence
from pathlib import Path

import msgspec
import structlog

from mooring.kube.client import Client
from mooring.kube.errors import Forbidden, KubeError, is_refusal
from mooring.kube.events import Recorder
from mooring.kube.objects import (
    ConfigMap,
    Container,
    PersistentVolume,
    PersistentVolumeClaim,
    Pod,
    Secret,
    Volume,
)
from mooring.kube.reason import Reason
from mooring.node.bridge import NetworkUnavailable
from mooring.node.images.layout import ImageProblem
from mooring.node.images.store import ImageStore
from mooring.node.network import NodeNetwork
from mooring.node.options import AgentOptions
from mooring.node.pods.containers import container_spec, images_on_host_root, sandbox_spec
from mooring.node.pods.decide import startable
from mooring.node.pods.environment import ContainerConfigProblem, Surroundings, references
from mooring.node.pods.etc import etc_files
from mooring.node.pods.facts import Facts
from mooring.node.pods.sub_paths import prepare_sub_paths
from mooring.node.pods.unsupported import not_honoured
from mooring.node.runtime import ContainerSpec, PodNetwork, Runtime, Sandbox, SandboxSpec
from mooring.node.volumes.manager import VolumeManager
from mooring.volumes.claims import claim_name, refuse_being_deleted, refuse_wrong_use, volume_spec
from mooring.volumes.migration import as_csi
from mooring.volumes.spec import VolumeSpec

log = structlog.get_logger("node-agent")


class PodProblem(Exception):
    """What was tried for a pod failed; an event has said so, and it is to be tried again after a backoff."""


class Overtaken(Exception):
    """While something was made ready for a pod, it became known that it is not to be started any more."""


class PodLauncher:
    """The start of pods. `problems` is the pod's: it says, by container, why that cannot be made."""

    def __init__(
        self,
        client: Client,
        options: AgentOptions,
        runtime: Runtime,
        volumes: VolumeManager,
        recorder: Recorder,
        network: NodeNetwork | None = None,
    ) -> None:
        self._network = network
        self._client = client
        self._options = options
        self._runtime = runtime
        self._volumes = volumes
        self._recorder = recorder
        self._images = ImageStore(options.images_dir, options.root_dir)
        self._promised: deque[str] = deque(maxlen=64)
        self._next: PodNetwork | None = None

    async def want_volumes(self, pod: Pod) -> None:
        """A pod without volumes wants none, and has all of them."""
        with self._told(pod, "FailedMount"):
            self._volumes.want(
                pod, {volume.name: await self._spec(pod, volume) for volume in pod.spec.volumes}
            )

    @contextlib.contextmanager
    def _told(self, pod: Pod, code: str) -> Generator[None, None, None]:
        """Whatever keeps it from being done becomes an event of the pod, also that something may not be read,
        or that the disk is full; and it is raised as PodProblem. What the API server does not answer is no
        problem of the pod's."""
        try:
            yield
        except PodProblem:  # an event has said so
            raise
        except Exception as error:
            if isinstance(error, KubeError) and not is_refusal(error):
                raise
            self._recorder.event(pod, "Warning", code, str(error))
            raise PodProblem(f"pod {pod.key}: {error}") from error

    async def _spec(self, pod: Pod, volume: Volume) -> VolumeSpec:
        claim: PersistentVolumeClaim | None = None
        pv: PersistentVolume | None = None
        if (claimed := claim_name(pod, volume)) is not None:
            claim = await self._client.find(PersistentVolumeClaim, claimed, pod.namespace)
            if claim is not None:
                refuse_being_deleted(claim)
            if claim is not None and claim.spec.volume_name:
                with contextlib.suppress(Forbidden):  # it is not reserved for the claim yet, or is gone
                    pv = await self._client.find(PersistentVolume, claim.spec.volume_name)
        spec = volume_spec(pod, volume, lambda namespace, name: claim, lambda name: pv)
        refuse_wrong_use(pod, volume, spec)
        return spec if self._volumes.supports(spec) else as_csi(spec, pod.namespace)

    async def start_sandbox(self, pod: Pod, facts: Facts, problems: dict[str, Reason]) -> None:
        """Starts it with the volumes that `facts` shows as mounted."""
        with self._told(pod, "FailedCreatePodSandBox"):
            await self._prepare(pod, (*pod.spec.init_containers, *pod.spec.containers), problems)
            masks = tuple(str(path) for path in (self._options.root_dir, *self._options.masked_dirs))
            spec = sandbox_spec(pod, facts.volumes.mounted, self._images.find, masks)
            await self._runtime.start_sandbox(self._with_network(pod, spec))
        self.prepare()
        log.info("sandbox started", pod=pod.key, pod_uid=pod.uid)
        self._warn_of_host_root(pod, self._runtime.sandboxes()[pod.uid])
        self._warn_of_not_honoured(pod, self._runtime.sandboxes()[pod.uid])

    def prepare(self) -> None:
        """What the next pod's start takes is done ahead: a network for it is made, and its process waits."""
        if self._network is not None and self._next is None:
            with contextlib.suppress(NetworkUnavailable):  # said when a pod needs one
                self._next = self._allocate(self._network)
        self._runtime.prepare(self._next)

    def _with_network(self, pod: Pod, spec: SandboxSpec) -> SandboxSpec:
        network = None
        if self._network is not None and not pod.spec.host_network:
            network, self._next = self._next or self._allocate(self._network), None
        address = network.address if network else ""
        files = etc_files(pod, spec.hostname, address, self._host_files())
        return msgspec.structs.replace(spec, network=network, etc=files)

    def _allocate(self, network: NodeNetwork) -> PodNetwork:
        used = [sandbox.address for sandbox in self._runtime.sandboxes().values() if sandbox.running]
        allocated = network.allocate([*used, *self._promised])
        self._promised.append(allocated.address)  # until the sandbox shows it
        return allocated

    @staticmethod
    def _host_files() -> dict[str, str]:
        paths = [Path("/etc", name) for name in ("hosts", "resolv.conf")]
        return {path.name: path.read_text(errors="replace") for path in paths if path.is_file()}

    def _warn_of_host_root(self, pod: Pod, sandbox: Sandbox) -> None:
        """Once for a pod."""
        images = images_on_host_root(pod, self._images.find)
        if sandbox.number or not images:
            return
        root = "as an overlay (writes stay in the container)"
        if sandbox.rootfs == "bind":
            root = "read-only, because a user namespace allows no overlay of it"
        self._warn(
            pod,
            "HostRootFileSystem",
            f"image {', '.join(images)}: there is no image of that name under --images, so the containers "
            f"run on the root file system of node {self._options.name}, {root}. Pods here are processes for testing "
            "storage, not a security boundary",
        )

    def _warn_of_not_honoured(self, pod: Pod, sandbox: Sandbox) -> None:
        """Once for a pod."""
        fields = not_honoured(pod)
        if fields and not sandbox.number:
            self._warn(
                pod, "NotHonoured", f"node {self._options.name} does nothing about {', '.join(fields)}"
            )

    async def start_container(
        self, pod: Pod, facts: Facts, name: str, problems: dict[str, Reason], may_start: Callable[[], bool]
    ) -> None:
        """Asks the runtime for the container's next attempt, unless it is `Overtaken`: to make it ready takes
        time. Raises PodProblem for whatever keeps this container from being made, also that a Secret may not
        be read, or an image cannot; what the API server does not answer is no problem of the pod's."""
        container, attempt = next(entry for entry in startable(facts) if entry[0].name == name)
        try:
            await self._prepare(pod, (container,), problems)
            spec = await self._container_spec(pod, facts, container, attempt)
            await prepare_sub_paths(pod, spec, facts.volumes.mounted)
            if not may_start():
                raise Overtaken(f"container {name} of pod {pod.key}")
            await self._runtime.start_container(pod.uid, spec)
        except (PodProblem, Overtaken):
            raise
        except Exception as error:
            if isinstance(error, KubeError) and not isinstance(error, Forbidden):
                raise
            reason = error.reason if isinstance(error, ContainerConfigProblem) else "RunContainerError"
            problems[name] = Reason(reason, str(error))
            self._warn(pod, "Failed", f"Error: {error}")
            raise PodProblem(f"pod {pod.key}: {error}") from error
        problems.pop(name, None)
        self._recorder.event(pod, "Normal", "Started", f"Started container {name}")
        log.info("container started", pod=pod.key, container=name, attempt=attempt)

    async def _container_spec(
        self, pod: Pod, facts: Facts, container: Container, attempt: int
    ) -> ContainerSpec:
        data = await self._referenced_data(pod, container)
        around = Surroundings(
            node_address=self._options.address,
            pod_address=self._runtime.sandboxes()[pod.uid].address or self._options.address,
            lookup=lambda kind, name: data.get((kind, name)),
            allocatable=self._options.hardware.capacity(),
        )
        return container_spec(
            pod,
            container,
            attempt,
            around=around,
            find_image=self._images.find,
            read_only=facts.volumes.read_only,
        )

    async def _referenced_data(
        self, pod: Pod, container: Container
    ) -> dict[tuple[str, str], Mapping[str, str]]:
        """The ConfigMaps and Secrets that the container's variables refer to."""
        found: dict[tuple[str, str], Mapping[str, str]] = {}
        for kind, name in sorted(references(container)):
            if kind == "ConfigMap":
                if config_map := await self._client.find(ConfigMap, name, pod.namespace):
                    found[kind, name] = config_map.data
            elif secret := await self._client.find(Secret, name, pod.namespace):
                found[kind, name] = {
                    k: base64.b64decode(v).decode(errors="replace") for k, v in secret.data.items()
                }
        return found

    async def _prepare(self, pod: Pod, containers: Sequence[Container], problems: dict[str, Reason]) -> None:
        """Makes the containers' images ready to be used."""
        for container in containers:
            try:
                await self._images.prepare(container.image)
            except (ImageProblem, OSError) as error:  # what is unpacked may fill the disk
                reason = error.reason if isinstance(error, ImageProblem) else "ErrImagePull"
                problems[container.name] = Reason(reason, str(error))
                self._warn(pod, "Failed", f"image {container.image!r}: {error}")
                raise PodProblem(f"pod {pod.key}: {error}") from error

    def _warn(self, pod: Pod, reason: str, message: str) -> None:
        self._recorder.event(pod, "Warning", reason, message)
