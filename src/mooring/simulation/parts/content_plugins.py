"""Volumes that show content of the API, on a played machine: the production plugins of ConfigMaps, Secrets
and projected volumes, but for what takes threads and real mounts. A tmpfs is a directory that goes with the
power.

The trace is told what a pod sees, read from its files as it would (`truth.shown`), and when that is taken
from it (`truth.hidden`).
"""

from __future__ import annotations

import base64
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import msgspec

from mooring.kube.objects import Pod
from mooring.simulation.engine.event_loop import START
from mooring.simulation.parts.storage import Array
from mooring.volumes.names import escape_plugin_name
from mooring.volumes.payload import CURRENT, write_payload
from mooring.volumes.plugins import configmap, projected, secret
from mooring.volumes.plugins.api_content import ContentMounter, ContentPlugin
from mooring.volumes.plugins.configmap import ConfigMapPlugin
from mooring.volumes.plugins.projected import ProjectedPlugin
from mooring.volumes.plugins.secret import SecretPlugin
from mooring.volumes.pod_directory import PodDirectoryUnmounter
from mooring.volumes.spec import VolumeSpec

TOKEN = "token"
"""Files of this name are tokens of service accounts."""
IN_MEMORY = tuple(escape_plugin_name(each.PLUGIN_NAME) for each in (secret, projected))
OF_CONTENT = (escape_plugin_name(configmap.PLUGIN_NAME), *IN_MEMORY)


class _Account(msgspec.Struct, frozen=True):
    uid: str


class _Bound(msgspec.Struct, frozen=True):
    pod: _Account


class _Claims(msgspec.Struct, frozen=True):
    aud: list[str]
    iat: int
    exp: int
    jti: str
    bound: _Bound = msgspec.field(name="kubernetes.io")


class ShownToken(NamedTuple):
    """What the trace is told of a token: the seconds of the run from and until which it is valid, its ID, the
    uid of the pod that it is bound to, and for whom it is. Its signature differs from run to run."""

    since: float
    until: float
    identity: str
    pod_uid: str
    audiences: tuple[str, ...]

    @classmethod
    def of(cls, token: str) -> ShownToken:
        """What it says."""
        said = token.split(".")[1]
        claims = msgspec.json.decode(base64.urlsafe_b64decode(said + "=="), type=_Claims)
        began = START.timestamp()
        return cls(claims.iat - began, claims.exp - began, claims.jti, claims.bound.pod.uid, (*claims.aud,))


def is_in_memory(path: Path) -> bool:
    """Whether a tmpfs is mounted there."""
    return path.parent.name in IN_MEMORY and path.is_dir()


def in_memory_at(root: Path) -> Iterator[Path]:
    """Where a tmpfs is mounted on the machine with that root directory."""
    for plugin in IN_MEMORY:
        yield from sorted(root.glob(f"pods/*/volumes/{plugin}/*"))


def lose_memory(root: Path) -> None:
    """What is in memory is gone with the machine's power."""
    for path in in_memory_at(root):
        shutil.rmtree(path)


def is_shown(path: Path) -> bool:
    """Whether a pod finds at the path what its volume should show: of these volumes, all their files."""
    return (path / CURRENT if path.parent.name in OF_CONTENT else path).exists()


class _Mounter(ContentMounter[Any]):
    def __init__(self, plugin: ContentPlugin[Any], spec: VolumeSpec, pod: Pod, array: Array) -> None:
        super().__init__(plugin, spec, pod)
        self._array = array

    async def set_up_at(self, directory: str, fs_group: int | None = None) -> None:
        payload = await self._plugin.payload(self._source, self._pod)
        node, mounts = self._host.node_name, self._host.mounts
        if self._plugin.in_memory and not await mounts.is_mount_point(directory):
            await mounts.mount("tmpfs", directory, "tmpfs", ["mode=0755"])
        await self._array.mounting(node)
        write_payload(Path(directory), payload, fs_group)
        files, uid = dict(seen(Path(directory))), self._pod.uid
        life = self._array.life(node)
        self._array.journal(
            node, "truth.shown", node=node, uid=uid, volume=self._name, life=life, _files=files
        )
        if (failure := self._array.set_up_failure.get(node)) is not None:
            raise failure


class _Unmounter(PodDirectoryUnmounter):
    def __init__(self, plugin: ContentPlugin[Any], spec_name: str, pod_uid: str, array: Array) -> None:
        super().__init__(plugin.host, plugin.name, spec_name, pod_uid)
        self._shown, self._array = {"uid": pod_uid, "volume": spec_name}, array

    async def tear_down_at(self, directory: str) -> None:
        node = self._host.node_name
        self._array.journal(node, "truth.hidden", node=node, **self._shown)
        await self._host.mounts.unmount(directory)
        shutil.rmtree(directory, ignore_errors=True)


class _Played(ContentPlugin[Any]):
    def __init__(self, array: Array) -> None:
        self._array = array

    def new_mounter(self, spec: VolumeSpec, pod: Pod) -> ContentMounter[Any]:
        return _Mounter(self, spec, pod, self._array)

    def new_unmounter(self, spec_name: str, pod_uid: str) -> PodDirectoryUnmounter:
        return _Unmounter(self, spec_name, pod_uid, self._array)


class _ConfigMaps(_Played, ConfigMapPlugin):
    pass


class _Secrets(_Played, SecretPlugin):
    pass


class _Projections(_Played, ProjectedPlugin):
    pass


def content_plugins(array: Array) -> list[ContentPlugin[Any]]:
    """The plugins. `array`: whose journal is told, and whose faults of mounts are theirs, too."""
    return [_ConfigMaps(array), _Secrets(array), _Projections(array)]


def seen(directory: Path) -> Iterator[tuple[str, str | ShownToken]]:
    """Each file as a pod sees it, by its path."""
    for entry in sorted(directory.glob("[!.]*")):
        for path in sorted(entry.rglob("*")) if entry.is_dir() else [entry]:
            if path.is_file():
                text = path.read_text()
                yield str(path.relative_to(directory)), ShownToken.of(text) if path.name == TOKEN else text
