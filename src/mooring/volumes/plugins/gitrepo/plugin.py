"""`kubernetes.io/git-repo`: a clone of a repository, made once for each pod (`gitRepo`), where the node's
operator allows it.

Guarantees: a volume is a whole checkout or is not set up; it is made once, and never touched again as long as
its pod is there. git writes into a directory of its own, of which the volume is a copy that this process
makes.
"""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
import os
import shutil
from collections.abc import AsyncGenerator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path

from mooring.kube.objects import GitRepoVolumeSource, Pod, Volume
from mooring.mounts.blocking import blocking
from mooring.mounts.commands import find_tool
from mooring.volumes.directories import entry, remove_tree
from mooring.volumes.errors import InvalidSpec
from mooring.volumes.host import VolumeHost
from mooring.volumes.interfaces import Attributes, Metrics, VolumePlugin
from mooring.volumes.metrics import directory_metrics
from mooring.volumes.ownership import give_to_group
from mooring.volumes.plugins.gitrepo.clone import Limits, clone
from mooring.volumes.plugins.gitrepo.source import HERE, PLUGIN_NAME, checkout, written
from mooring.volumes.plugins.gitrepo.tree import Size, copy
from mooring.volumes.plugins.programs import Run, run
from mooring.volumes.pod_directory import PodDirectoryMounter, PodDirectoryUnmounter
from mooring.volumes.spec import VolumeSpec

AT_ONCE = 2
WORKSHOPS = Path("/var/tmp")  # nosec B108 # what is there already is refused
OFF = (
    "gitRepo volumes are switched off, as they are upstream: a repository has run programs on nodes through them. "
    "Clone in an init container, into an emptyDir. (The node's operator can switch them on: "
    f"--plugin-setting {PLUGIN_NAME}:enabled=true)"
)


def limits(settings: Mapping[str, str]) -> Limits:
    """The operator's. Raises InvalidSpec for a setting that is no number."""
    found: dict[str, int] = {}
    for name, default in (("timeoutSeconds", 120), ("maxMiB", 512), ("maxFiles", 100_000)):
        text = settings.get(name, str(default))
        if not (text.isascii() and text.isdecimal() and 0 < int(text[:12]) < 1 << 31):
            raise InvalidSpec(f"the node's setting {PLUGIN_NAME}:{name}={text[:50]!a} is not a number")
        found[name] = int(text)
    return Limits(float(found["timeoutSeconds"]), Size(found["maxMiB"] << 20, found["maxFiles"]))


class GitRepoMounter(PodDirectoryMounter):
    """Makes the checkout, unless it is there."""

    def __init__(
        self, host: VolumeHost, spec: VolumeSpec, pod: Pod, turn: asyncio.Semaphore, call: Run
    ) -> None:
        super().__init__(host, PLUGIN_NAME, spec, pod)
        self._spec, self._turn, self._run = spec, turn, call
        self._done = done(host, pod.uid, spec.name)

    def get_attributes(self) -> Attributes:
        return Attributes(read_only=False, managed=True)

    async def get_metrics(self) -> Metrics:
        return await blocking(directory_metrics, self._path)

    async def can_mount(self) -> None:
        """Raises InvalidSpec where such volumes are off, and ToolMissing."""
        settings = self._host.settings(PLUGIN_NAME)
        if settings.get("enabled") != "true":
            raise InvalidSpec(OFF)
        hosts = [each for each in settings.get("hosts", "").lower().split(",") if each]
        wanted = checkout(self._spec)
        if hosts and wanted.host not in hosts:
            raise InvalidSpec(
                f"repository of gitRepo volume {self._name}: this node clones from {', '.join(hosts)} alone"
            )
        for program in ("git", "prlimit", "setpriv"):
            await blocking(find_tool, program)

    async def set_up_at(self, directory: str, fs_group: int | None = None) -> None:
        if not await blocking(self._is_done, directory):
            await self.can_mount()
            async with self._turn:
                await self._make(directory)
            if fs_group is not None:
                await blocking(give_to_group, directory, fs_group)
            await blocking(self._say_done)

    async def _make(self, directory: str) -> None:
        wanted, most = checkout(self._spec), limits(self._host.settings(PLUGIN_NAME))
        await blocking(remove_tree, directory)  # of an agent that was killed
        await blocking(os.makedirs, directory, 0o755)
        async with _workshop(self._done) as workshop:
            made = await clone(wanted, workshop, most, self._run)
            target = directory if wanted.directory == HERE else os.path.join(directory, wanted.directory)
            await blocking(os.makedirs, target, 0o755, exist_ok=True)
            await blocking(copy, made, Path(target), most.size)

    def _is_done(self, directory: str) -> bool:
        return self._done.exists() and os.path.isdir(directory)

    def _say_done(self) -> None:
        self._done.parent.mkdir(mode=0o750, parents=True, exist_ok=True)
        self._done.touch()


class GitRepoUnmounter(PodDirectoryUnmounter):
    """Removes the checkout."""

    def __init__(self, host: VolumeHost, spec_name: str, pod_uid: str) -> None:
        super().__init__(host, PLUGIN_NAME, spec_name, pod_uid)
        self._done = done(host, pod_uid, spec_name)

    async def tear_down_at(self, directory: str) -> None:
        await blocking(self._forget)
        await super().tear_down_at(directory)

    def _forget(self) -> None:
        self._done.unlink(missing_ok=True)
        shutil.rmtree(workshop_of(self._done), ignore_errors=True)
        with contextlib.suppress(OSError):  # another volume of the pod is there
            self._done.parent.rmdir()


def done(host: VolumeHost, pod_uid: str, spec_name: str) -> Path:
    """The file that says that the volume is whole."""
    return host.get_plugin_dir(PLUGIN_NAME) / "whole" / entry(pod_uid) / entry(spec_name)


def workshop_of(done: Path) -> Path:
    """A directory for git, on disk, which its own user can reach. It is always the same for a volume: what an
    agent that was killed has left is found."""
    return WORKSHOPS / f"mooring-git-{hashlib.sha256(os.fsencode(done)).hexdigest()[:32]}"


@asynccontextmanager
async def _workshop(done: Path) -> AsyncGenerator[Path]:
    found = workshop_of(done)
    await blocking(shutil.rmtree, found, ignore_errors=True)
    await blocking(found.mkdir, 0o700)  # not if it is there: any user can make one
    try:
        yield found
    finally:
        await blocking(shutil.rmtree, found, ignore_errors=True)


class GitRepoPlugin(VolumePlugin):
    """The plugin."""

    _host: VolumeHost

    def __init__(self, call: Run = run) -> None:
        self._run = call
        self._turn = asyncio.Semaphore(AT_ONCE)

    def init(self, host: VolumeHost) -> None:
        self._host = host

    def get_plugin_name(self) -> str:
        return PLUGIN_NAME

    def get_volume_name(self, spec: VolumeSpec) -> str:
        """As upstream: `REPOSITORY:REVISION:DIRECTORY`, as they are written."""
        source = written(spec)
        if source is None:
            raise InvalidSpec(f"volume {spec.name} has no gitRepo source")
        return f"{source.repository}:{source.revision}:{source.directory}"

    def can_support(self, spec: VolumeSpec) -> bool:
        return written(spec) is not None

    def new_mounter(self, spec: VolumeSpec, pod: Pod) -> GitRepoMounter:
        return GitRepoMounter(self._host, spec, pod, self._turn, self._run)

    def new_unmounter(self, spec_name: str, pod_uid: str) -> GitRepoUnmounter:
        return GitRepoUnmounter(self._host, spec_name, pod_uid)

    async def construct_volume_spec(self, volume_name: str, mount_path: str) -> VolumeSpec:
        return VolumeSpec.of_volume(Volume(name=volume_name, git_repo=GitRepoVolumeSource()))


def plugin() -> GitRepoPlugin:
    """The factory that the entry point names."""
    return GitRepoPlugin()
