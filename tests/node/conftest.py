"""A node agent in virtual time: against the embedded API server, with processes and mounts that are only
played."""

from __future__ import annotations

import asyncio
import contextlib
import sys
from collections.abc import Callable, Coroutine, Mapping, Sequence
from pathlib import Path
from random import Random
from typing import Any

import msgspec
import pytest
import waiting
from virtual_server import not_stuck

from mooring.apiserver import Server
from mooring.kube.client import Client
from mooring.kube.objects import Event, FlexVolumeSource, Node, Pod, VolumeAttachment
from mooring.kube.transport import InProcess, Request, Response
from mooring.mounts.interface import Mount
from mooring.node.agent import Agent
from mooring.node.options import AgentOptions
from mooring.node.peers import Open
from mooring.node.runtime import (
    ContainerRecord,
    ContainerSpec,
    ExecResult,
    PodNetwork,
    Sandbox,
    SandboxSpec,
    Stdio,
)
from mooring.node.self_fence.watchdog import Watchdog
from mooring.volumes.host import VolumeHost
from mooring.volumes.interfaces import (
    DEVICE_PATH,
    AttachableVolumePlugin,
    AttachCapabilities,
    Attacher,
    Attachment,
    Attributes,
    BlockVolumePlugin,
    Detacher,
    Mounter,
    NodeExpandableVolumePlugin,
    Unmounter,
    VolumePlugin,
)
from mooring.volumes.names import INLINE_VOLUME, volume_attachment_name
from mooring.volumes.plugin_manager import PluginManager
from mooring.volumes.pod_device import PodDevice
from mooring.volumes.spec import VolumeSpec

NODE = "node-1"
DISK = "example.com/disk"
VOLUME = f"{DISK}/d1"


class JournalledMachine:
    """What survives an agent: processes and mounts. `journal` has every side effect, in order."""

    def __init__(self) -> None:
        self.journal: list[str] = []
        self.sandboxes: dict[str, Sandbox] = {}
        self.mounts: set[str] = set()
        self.failures: dict[str, Exception] = {}
        """By verbs; or by verbs and UIDs of pods, for those alone."""
        self.hangs: dict[str, asyncio.Event] = {}
        """By UIDs of pods: their volumes are set up when that has come."""
        self.exit_on_term = True
        self.mounts_shares = False
        self.remount_period: float | None = None
        self.commands: dict[str, tuple[int, float]] = {}
        self.devices_appear = asyncio.Event()
        self.devices_appear.set()
        self.on_change: Callable[[str], None] = lambda uid: None

    def act(self, what: str, pod_uid: str = "") -> None:
        """Notes a side effect, or fails it if a test wants so."""
        verb = what.partition(" ")[0]
        for each in (verb, f"{verb} {pod_uid}"):
            if each in self.failures:
                raise self.failures[each]
        self.journal.append(what)

    def update(self, uid: str, **changes: Any) -> None:
        self.sandboxes[uid] = msgspec.structs.replace(self.sandboxes[uid], **changes)
        self.on_change(uid)

    def exit(self, uid: str, container: str, code: int) -> None:
        """A container ends by itself."""
        records = self.sandboxes[uid].containers
        now = asyncio.get_running_loop().time()
        ended = msgspec.structs.replace(records[container], exit_code=code, finished_at=now)
        self.update(uid, containers={**records, container: ended})

    def ended(self, uid: str) -> Sandbox:
        """The sandbox when all its processes were ended at once."""
        now = asyncio.get_running_loop().time()
        containers = {
            name: record
            if record.exit_code is not None
            else msgspec.structs.replace(record, exit_code=137, finished_at=now)
            for name, record in self.sandboxes[uid].containers.items()
        }
        return msgspec.structs.replace(self.sandboxes[uid], running=False, containers=containers)


class PlayedRuntime:
    """A `Runtime` over a JournalledMachine."""

    def __init__(self, machine: JournalledMachine) -> None:
        self.machine = machine
        self.specs: dict[str, SandboxSpec] = {}
        self.containers: dict[str, ContainerSpec] = {}

    async def recover(self, on_change: Callable[[str], None]) -> None:
        self.machine.on_change = on_change

    def sandboxes(self) -> Mapping[str, Sandbox]:
        return self.machine.sandboxes

    def prepare(self, network: PodNetwork | None) -> None:
        """Nothing can be done ahead."""

    async def start_sandbox(self, spec: SandboxSpec) -> None:
        self.machine.act(f"start-sandbox {spec.hostname}")
        self.specs[spec.uid] = spec
        former = self.machine.sandboxes.get(spec.uid)
        number, records = (former.number + 1, former.containers) if former else (0, {})
        self.machine.sandboxes[spec.uid] = Sandbox(
            running=True, number=number, rootfs="overlay", containers=records
        )
        self.machine.on_change(spec.uid)

    async def start_container(self, uid: str, spec: ContainerSpec) -> None:
        self.machine.act(f"start {spec.name} {spec.attempt}")
        self.containers[spec.name] = spec
        sandbox = self.machine.sandboxes[uid]
        record = ContainerRecord(
            attempt=spec.attempt,
            started_at=asyncio.get_running_loop().time(),
            sandbox=sandbox.number,
            last=sandbox.containers.get(spec.name),
            stop_signal=spec.stop_signal,
        )
        self.machine.update(uid, containers={**sandbox.containers, spec.name: record})

    async def signal_container(self, uid: str, container: str, number: int) -> None:
        self.machine.act(f"signal {container} {int(number)}")
        record = self.machine.sandboxes[uid].containers.get(container)
        if record is not None and record.exit_code is None and self.machine.exit_on_term:
            self.machine.exit(uid, container, 143)

    async def exec(
        self, uid: str, container: str, argv: Sequence[str], stdio: Stdio, *, tty: bool = False
    ) -> int:
        raise NotImplementedError

    async def run(self, uid: str, container: str, argv: Sequence[str]) -> ExecResult:
        self.machine.act(f"run {container} {' '.join(argv)}")
        code, seconds = self.machine.commands.get(argv[0], (0, 0))
        await asyncio.sleep(seconds)
        return ExecResult(code, f"said {argv[0]}")

    def open_terminal(self, uid: str) -> tuple[int, int]:
        raise NotImplementedError

    def log_files(self, uid: str, container: str, attempt: int) -> list[Path]:
        return []

    async def kill_sandbox(self, uid: str) -> None:
        self.machine.act("kill")
        self.machine.update(uid, running=False, containers=self.machine.ended(uid).containers)

    async def remove_sandbox(self, uid: str) -> None:
        self.machine.sandboxes.pop(uid, None)


class PlayedMounts:
    """The part of `Mounts` that the agent itself asks."""

    def __init__(self, machine: JournalledMachine) -> None:
        self._machine = machine

    async def mount_table(self, pid: int | None = None) -> tuple[Mount, ...]:
        return tuple(
            Mount(number, 0, (8, 0), "/", point, frozenset(), "ext4", "/dev/x")
            for number, point in enumerate(sorted(self._machine.mounts))
        )

    async def unmount(self, target: str) -> None:
        self._machine.mounts.discard(target)


class PlayedMounter(Mounter):
    def __init__(self, machine: JournalledMachine, path: Path) -> None:
        self._machine, self._path = machine, path

    def get_path(self) -> str:
        return str(self._path)

    def get_attributes(self) -> Attributes:
        return Attributes(read_only=False, managed=True)

    async def set_up(self, fs_group: int | None = None) -> None:
        await self.set_up_at(self.get_path())

    async def set_up_at(self, directory: str, fs_group: int | None = None) -> None:
        uid = _pod_of(self._path)
        if uid in self._machine.hangs:
            await self._machine.hangs[uid].wait()
        self._machine.act(f"set-up {self._path.name}", uid)
        self._path.mkdir(parents=True, exist_ok=True)
        self._machine.mounts.add(directory)


class PlayedUnmounter(Unmounter):
    def __init__(self, machine: JournalledMachine, path: Path) -> None:
        self._machine, self._path = machine, path

    def get_path(self) -> str:
        return str(self._path)

    async def tear_down(self) -> None:
        await self.tear_down_at(self.get_path())

    async def tear_down_at(self, directory: str) -> None:
        self._machine.act(f"tear-down {self._path.name}", _pod_of(self._path))
        self._machine.mounts.discard(directory)
        if self._path.exists():
            self._path.rmdir()


def _pod_of(path: Path) -> str:
    return path.parents[2].name  # pods/UID/volumes/PLUGIN/NAME


class PlayedPlugin(VolumePlugin):
    """What both played plugins share."""

    name: str

    def __init__(self, machine: JournalledMachine) -> None:
        self.machine = machine

    def init(self, host: VolumeHost) -> None:
        self.host = host

    def get_plugin_name(self) -> str:
        return self.name

    def remount_period(self, spec: VolumeSpec) -> float | None:
        return self.machine.remount_period

    def new_mounter(self, spec: VolumeSpec, pod: Pod) -> Mounter:
        return PlayedMounter(self.machine, self.host.get_pod_volume_dir(pod.uid, self.name, spec.name))

    def new_unmounter(self, spec_name: str, pod_uid: str) -> Unmounter:
        return PlayedUnmounter(self.machine, self.host.get_pod_volume_dir(pod_uid, self.name, spec_name))

    async def construct_volume_spec(self, volume_name: str, mount_path: str) -> VolumeSpec:
        return VolumeSpec(volume_name)


class PlayedLocal(PlayedPlugin):
    """Each pod has its own; content is followed."""

    name = "example.com/local"

    def requires_remount(self) -> bool:
        return True

    def can_support(self, spec: VolumeSpec) -> bool:
        volume = spec.volume
        if volume is None:
            return False
        share = self.machine.mounts_shares and volume.azure_file is not None
        return share or bool(volume.empty_dir or volume.config_map)

    def get_volume_name(self, spec: VolumeSpec) -> str:
        return spec.name


class PlayedAttacher(Attacher, Detacher):
    def __init__(self, plugin: PlayedDisk) -> None:
        self._plugin = plugin

    def get_device_mount_path(self, spec: VolumeSpec) -> str:
        return str(self._plugin.host.get_plugin_dir(DISK) / "mounts" / self._plugin.get_volume_name(spec))

    async def attach(self, spec: VolumeSpec, node_name: str) -> Attachment:
        raise NotImplementedError

    async def detach(self, volume_name: str, node_name: str) -> None:
        raise NotImplementedError

    async def volumes_are_attached(
        self, specs: Sequence[VolumeSpec], node_name: str
    ) -> Mapping[VolumeSpec, bool]:
        return {}

    async def wait_for_attach(self, spec: VolumeSpec, attachment: Attachment, timeout_s: float) -> str:
        await self._plugin.machine.devices_appear.wait()
        return attachment[DEVICE_PATH]

    async def verify_device(self, spec: VolumeSpec, device_path: str) -> None:
        self._plugin.machine.act(f"verify {device_path}")

    async def mount_device(self, spec: VolumeSpec, device_path: str, device_mount_path: str) -> None:
        self._plugin.machine.act(f"mount-device {device_path}")
        self._plugin.machine.mounts.add(device_mount_path)

    async def unmount_device(self, device_mount_path: str) -> None:
        self._plugin.machine.act(f"unmount-device {Path(device_mount_path).name}")
        self._plugin.machine.mounts.discard(device_mount_path)


class PlayedDisk(PlayedPlugin, AttachableVolumePlugin, NodeExpandableVolumePlugin):
    name = DISK

    def can_support(self, spec: VolumeSpec) -> bool:
        return self._source(spec) is not None

    def get_volume_name(self, spec: VolumeSpec) -> str:
        source = self._source(spec)
        assert source is not None
        return source.options["disk"]

    def _source(self, spec: VolumeSpec) -> FlexVolumeSource | None:
        source = spec.persistent_volume.spec if spec.persistent_volume else spec.volume
        return source.flex_volume if source else None

    def capabilities(self, spec: VolumeSpec) -> AttachCapabilities:
        return AttachCapabilities(refuses=True, revokes=False, multi_attach=False)

    def new_attacher(self) -> PlayedAttacher:
        return PlayedAttacher(self)

    def new_detacher(self) -> PlayedAttacher:
        return PlayedAttacher(self)

    async def expand_fs(self, spec: VolumeSpec, device_mount_path: str) -> None:
        self.machine.act(f"grow {Path(device_mount_path).name}")

    async def get_device_mount_refs(self, device_mount_path: str) -> Sequence[str]:
        return []


class RawDisk(PlayedDisk, BlockVolumePlugin):
    """Pods can have its volumes as raw devices."""

    def get_global_map_path(self, spec: VolumeSpec) -> str:
        return f"/plugins/devices/{self.get_volume_name(spec)}"

    async def set_up_device(self, spec: VolumeSpec, device_path: str) -> str:
        return device_path

    def new_block_volume_mapper(self, spec: VolumeSpec, pod: Pod) -> PodDevice:
        return PodDevice(self.host, DISK, spec.name, pod.uid)

    def new_block_volume_unmapper(self, spec_name: str, pod_uid: str) -> PodDevice:
        return PodDevice(self.host, DISK, spec_name, pod_uid)


class AgentStage:
    """One API server, one machine; agents come and go."""

    def __init__(self, root: Path, now: Callable[[], Any]) -> None:
        self.root = root
        self.now = now
        self.server = Server.in_memory(now=now)
        self.api = Client(InProcess(self.server.call, self.server.tokens.admin()))
        self.machine = JournalledMachine()
        self.shutdown = asyncio.Event()
        self.requests: list[str] = []
        self.gate: Callable[[Request], Any] = lambda request: None
        self.slow: Callable[[Any], Any] = lambda stream: stream
        self._agent: asyncio.Task[None] | None = None
        self.boot_id = ""
        self.watchdog: Watchdog | None = None
        self.peer_door: Open | None = None

    async def start(self, boot_id: str = "boot-1") -> None:
        """Starts an agent; returns when its Node is there."""
        await self.server.start()
        ended, self.boot_id = self.boot_id, boot_id
        options = AgentOptions(
            name=NODE,
            root_dir=self.root,
            boot_id=boot_id,
            ended_boot_id=ended,
            agent_id=str(self.root),
            images_dir=self.root / "images",
            manifests_dir=self.root / "manifests",
        )
        client = Client(_Recording(self))
        self.runtime = PlayedRuntime(self.machine)
        agent = Agent(
            options,
            client,
            runtime=self.runtime,
            mounts=PlayedMounts(self.machine),  # type: ignore[arg-type]
            now=self.now,
            random=Random(1),
            make_plugins=lambda host: PluginManager(
                [PlayedDisk(self.machine), PlayedLocal(self.machine)], host
            ),
            watchdog=self.watchdog,
            clock=asyncio.get_running_loop().time,
            peer_door=self.peer_door,
        )
        self.agent = agent
        self._agent = asyncio.create_task(agent.run(self.shutdown))
        await self.until(lambda: self.api.find(Node, NODE))

    async def kill(self) -> None:
        """The agent is gone from one moment to the next."""
        assert self._agent is not None
        self._agent.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await self._agent
        self.machine.on_change = lambda uid: None

    async def ended(self) -> None:
        """Returns when the agent has ended by itself."""
        assert self._agent is not None
        await self._agent

    async def until(self, condition: Callable[[], Any], seconds: float = 1000) -> Any:
        """Waits in virtual time; see `waiting.until`."""

        def check() -> None:
            if self._agent is not None and self._agent.done() and not self.shutdown.is_set():
                self._agent.result()

        return await waiting.until(
            condition, seconds=seconds, check=check, state=lambda: self.machine.journal
        )

    # --- objects

    async def create_pod(self, name: str = "web-0", **spec: Any) -> Pod:
        container = {"name": "main", "image": "app", "command": ["run"], **spec.pop("container", {})}
        body = {
            "metadata": {"name": name, "namespace": "default"},
            "spec": {"nodeName": NODE, "containers": [container], **spec},
        }
        return await self.api.create(Pod, body, "default")

    async def create_disk_pod(self, name: str = "web-0", disk: str = "d1", **spec: Any) -> Pod:
        volume = {"name": "data", "flexVolume": {"driver": DISK, "options": {"disk": disk}}}
        container = {"volumeMounts": [{"name": "data", "mountPath": "/data"}]}
        return await self.create_pod(name, volumes=[volume], container=container, **spec)

    async def pod(self, name: str = "web-0") -> Pod | None:
        return await self.api.find(Pod, name, "default")

    async def phase(self, name: str = "web-0") -> str:
        pod = await self.pod(name)
        return pod.status.phase if pod else ""

    async def node(self) -> Node:
        return await self.api.get(Node, NODE)

    async def events(self) -> list[tuple[str, str]]:
        return [(event.reason, event.message) for event in (await self.api.list(Event, "default")).items]

    # --- the controller's part

    async def attach(self, disk: str = "d1") -> VolumeAttachment:
        """Creates the VolumeAttachment of a disk that a pod defines itself, says that it is attached, and
        reports it in the node's status."""
        name = volume_attachment_name(DISK, disk, NODE)
        body = {
            "metadata": {"name": name, "annotations": {INLINE_VOLUME: "{}"}},
            "spec": {
                "attacher": "plugins.mooring.dev",
                "nodeName": NODE,
                "source": {"persistentVolumeName": "x"},
            },
        }
        await self.api.create(VolumeAttachment, body)
        status = {"status": {"attached": True}}
        attachment = await self.api.patch(VolumeAttachment, name, status, subresource="status")
        await self.report([disk])
        return attachment

    async def report(self, disks: list[str]) -> None:
        volumes = [{"name": f"{DISK}/{disk}", "devicePath": f"/dev/{disk}"} for disk in disks]
        await self.api.patch(Node, NODE, {"status": {"volumesAttached": volumes}}, subresource="status")

    async def detach(self, disk: str = "d1") -> None:
        """By force: un-reported and deleted, whatever the node says."""
        await self.report([])
        await self.api.delete(VolumeAttachment, volume_attachment_name(DISK, disk, NODE))


class _Recording:
    """The agent's way to the server: notes what is asked for; `stage.gate` may hold or fail a request, and
    `stage.slow` what a watch brings."""

    def __init__(self, stage: AgentStage) -> None:
        self._world = stage
        self._inner = InProcess(stage.server.call, stage.server.tokens.node(NODE))

    async def send(self, request: Request) -> Response:
        held = self._world.gate(request)
        if held is not None:
            await held
        self._world.requests.append(f"{request.method} {request.path}")
        answer = await self._inner.send(request)
        return (
            answer
            if answer.stream is None
            else msgspec.structs.replace(answer, stream=self._world.slow(answer.stream))
        )

    async def close(self) -> None:
        return


Story = Callable[[AgentStage], Coroutine[Any, Any, None]]


@pytest.fixture
def play(tmp_path: Path, run: Callable[[Any], Any], now: Callable[[], Any]) -> Callable[[Story], None]:
    """Plays a story in virtual time, in a stage of its own."""

    def play_story(story: Story) -> None:
        run(not_stuck(story(AgentStage(tmp_path, now))))

    return play_story


@pytest.fixture
def played() -> Any:
    """This module: what is played here, for tests that change or use a single piece."""
    return sys.modules[__name__]
