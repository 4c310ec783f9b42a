"""GlusterFS volumes: what is asked of `mount`, whom the client asks, and that no client is left."""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.doubles.network_mounts import PlayedKernel

from mooring.kube.objects import (
    EndpointAddress,
    Endpoints,
    EndpointSubset,
    GlusterfsVolumeSource,
    ObjectMeta,
    Pod,
    Volume,
)
from mooring.volumes.errors import OutcomeUnknown, VolumeError
from mooring.volumes.host import NodeVolumeHost
from mooring.volumes.plugins.glusterfs import GlusterfsPlugin, clients
from mooring.volumes.plugins.glusterfs.plugin import log_file
from mooring.volumes.plugins.programs import Ended
from mooring.volumes.spec import VolumeSpec

POD = Pod(metadata=ObjectMeta(name="web-0", namespace="shop", uid="pod-uid"))
REFUSED = "[2026-01-01 00:00:00.1 +0000] E [m.c:1:f] 0-mgmt: failed to fetch volume file (key:vol)\n"


class PlayedGluster(PlayedKernel):
    """Its clients are real processes, named as theirs. `lingers`: they do not end with their mounts."""

    def __init__(self) -> None:
        super().__init__()
        self.clients: dict[str, subprocess.Popen[bytes]] = {}
        self.lingers = self.dead = self.comes_late = False
        self.log: str | None = None

    async def run(self, *words: str, deadline_s: float) -> Ended:
        directory = words[-1]
        if self.dead and words[0] in ("sync", "stat"):
            self.calls.append(words)
            return Ended(1, errors="sync: Transport endpoint is not connected")
        ended = await super().run(*words, deadline_s=deadline_s)
        if words[0] == "mount":
            if self.log is not None:
                path = words[words.index("-o") + 1].split(",")[0].removeprefix("log-file=")
                Path(path).write_text(self.log)
            if directory in self.mounts or self.comes_late:
                self._client(directory)
        elif words[0] == "umount" and directory not in self.mounts and not self.lingers:
            self.end(directory)
        return ended

    def _client(self, directory: str) -> None:
        # Not a shell that starts another program: that is two processes of this name for a moment.
        words = ["/usr/sbin/glusterfs", "-Sc", "import time; time.sleep(100)", directory]
        self.clients[directory] = subprocess.Popen(words, executable=sys.executable, start_new_session=True)
        while not clients.of(directory):
            pass

    def end(self, directory: str) -> None:
        if (client := self.clients.pop(directory, None)) is not None:
            client.kill()
            client.wait()


class Node:
    def __init__(self, root: Path) -> None:
        self.kernel = PlayedGluster()
        self.answering = {"10.0.0.1", "10.0.0.2", "10.0.0.3"}
        self.endpoints: dict[tuple[str, str], Endpoints] = {}
        self.serve("10.0.0.1")
        self.plugin = GlusterfsPlugin(self.kernel.run, self._reaches)
        refuse: Any = None
        host = NodeVolumeHost("node-1", root, self.kernel, refuse, refuse, refuse, reader=self)  # type: ignore[arg-type]
        self.plugin.init(host)
        self.log = Path(log_file(host, POD.uid, "data"))

    async def _reaches(self, address: str) -> bool:
        return address in self.answering

    async def find(self, kind: Any, name: str, namespace: str = "") -> Any:
        assert kind is Endpoints
        return self.endpoints.get((namespace, name))

    async def list(self, kind: Any, namespace: str = "") -> Any:
        raise AssertionError("a node may not list them")

    def serve(self, *addresses: str) -> None:
        subset = EndpointSubset(tuple(EndpointAddress(each) for each in addresses))
        self.endpoints["shop", "servers"] = Endpoints(subsets=(subset,))

    def set_up(self, spec: VolumeSpec) -> str:
        mounter = self.plugin.new_mounter(spec, POD)
        asyncio.run(mounter.set_up())
        return mounter.get_path()

    def tear_down(self) -> None:
        asyncio.run(self.plugin.new_unmounter("data", POD.uid).tear_down())

    def asked(self, program: str) -> list[tuple[str, ...]]:
        return [words for words in self.kernel.calls if words[0] == program]


@pytest.fixture
def node(tmp_path: Path) -> Iterator[Node]:
    node = Node(tmp_path)
    yield node
    for directory in list(node.kernel.clients):
        node.kernel.end(directory)


def volume(read_only: bool = False) -> VolumeSpec:
    source = GlusterfsVolumeSource(endpoints="servers", path="vol", read_only=read_only)
    return VolumeSpec.of_volume(Volume(name="data", glusterfs=source))


def test_the_volume_is_mounted_in_the_pods_directory(node: Node):
    path = node.set_up(volume())
    options = f"log-file={node.log},log-level=ERROR"
    assert node.kernel.calls == [("mount", "-t", "glusterfs", "-o", options, "--", "10.0.0.1:vol", path)]
    assert path.endswith("pods/pod-uid/volumes/kubernetes.io~glusterfs/data")


def test_what_is_mounted_is_not_mounted_again(node: Node):
    node.set_up(volume())
    node.set_up(volume())
    assert len(node.asked("mount")) == 1


def test_servers_that_answer_are_asked_first(node: Node):
    node.serve("10.0.0.9", "10.0.0.1", "10.0.0.8", "10.0.0.2")
    words = node.asked("mount")[0] if node.set_up(volume()) else ()
    assert words[-2] == "10.0.0.1:vol"
    assert words[4].endswith("backup-volfile-servers=10.0.0.2:10.0.0.9:10.0.0.8")


def test_endpoints_that_do_not_exist_are_named(node: Node):
    node.endpoints.clear()
    with pytest.raises(VolumeError, match="Endpoints shop/servers of volume data do not exist"):
        node.set_up(volume())
    assert node.kernel.calls == []


def test_a_volume_that_the_servers_do_not_have_is_named_with_the_logs_last_line(node: Node):
    node.kernel.refusal, node.kernel.log = "Mounting glusterfs on /x failed.", REFUSED
    with pytest.raises(VolumeError, match=r"cannot mount vol of 10\.0\.0\.1 .*no such volume.*\(key:vol\)"):
        node.set_up(volume())
    assert not Path(node.asked("mount")[0][-1]).exists()


def test_servers_that_say_nothing_are_named(node: Node):
    node.kernel.refusal = "Mounting glusterfs on /x failed."
    with pytest.raises(VolumeError, match="no GlusterFS server answers there: look at glusterd"):
        node.set_up(volume())


def test_the_log_of_an_earlier_try_is_not_told(node: Node):
    node.log.parent.mkdir(parents=True)
    node.log.write_text(REFUSED)
    node.kernel.refusal = "Mounting glusterfs on /x failed."
    with pytest.raises(VolumeError, match="no GlusterFS server answers"):
        node.set_up(volume())


def test_a_client_of_a_mount_of_unknown_outcome_is_ended_before_the_next_try(node: Node):
    node.kernel.gone = node.kernel.comes_late = True
    with pytest.raises(OutcomeUnknown, match="may be done or not"):
        node.set_up(volume())
    (first,) = node.kernel.clients.values()
    node.kernel.gone = node.kernel.comes_late = False
    path = node.set_up(volume())
    assert first.wait(10) == -9
    assert len(clients.of(path)) == 1


def test_a_client_of_a_mount_of_unknown_outcome_is_ended_with_the_pod(node: Node):
    node.kernel.gone = node.kernel.comes_late = True
    with pytest.raises(OutcomeUnknown):
        node.set_up(volume())
    node.kernel.gone = False
    node.tear_down()
    (first,) = node.kernel.clients.values()
    assert first.wait(10) == -9 and node.kernel.mounts == {}


def test_after_the_unmount_no_client_log_or_directory_is_left(node: Node):
    path = node.set_up(volume())
    node.log.write_text("x")
    node.tear_down()
    assert node.kernel.calls[1:] == [("sync", "-f", "--", path), ("umount", "--", path)]
    assert clients.of(path) == [] and not Path(path).exists() and not node.log.exists()


def test_a_client_that_outlives_its_mount_is_killed(node: Node, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(clients, "OF_ITS_OWN_S", 0.1)
    path = node.set_up(volume())
    node.kernel.lingers = True
    node.tear_down()
    assert node.kernel.clients[path].wait(10) == -9


def test_a_mount_without_its_client_is_no_mount_and_is_made_anew(node: Node):
    path = node.set_up(volume())
    node.kernel.end(path)
    node.kernel.dead = True
    node.set_up(volume())
    assert len(node.asked("mount")) == 2 and len(clients.of(path)) == 1


def test_a_server_that_the_client_has_given_up_keeps_no_unmount(node: Node):
    path = node.set_up(volume())
    node.kernel.dead = True
    node.tear_down()
    assert node.asked("umount") == [("umount", "--", path)] and node.kernel.mounts == {}


def test_a_server_that_is_given_up_while_it_is_written_back_is_left_by_force(node: Node):
    path = node.set_up(volume())
    node.kernel.slow, stat = True, node.kernel.run

    async def cut_off(*words: str, deadline_s: float) -> Ended:
        if words[0] == "stat":
            return Ended(1, errors="stat: Transport endpoint is not connected")
        return await stat(*words, deadline_s=deadline_s)

    unmounter = node.plugin.new_unmounter("data", POD.uid)
    unmounter._run = cut_off  # type: ignore[attr-defined]
    asyncio.run(unmounter.tear_down())
    assert node.asked("umount") == [("umount", "-f", "--", path)]


def test_the_fsgroup_does_not_change_the_servers_files(node: Node):
    attributes = node.plugin.new_mounter(volume(read_only=True), POD).get_attributes()
    assert (attributes.managed, attributes.read_only) == (False, True)


def test_it_has_upstreams_name_and_modes(node: Node):
    assert node.plugin.get_plugin_name() == "kubernetes.io/glusterfs"
    assert node.plugin.get_volume_name(volume()) == "servers:vol"
    assert set(node.plugin.get_access_modes()) == {"ReadWriteOnce", "ReadOnlyMany", "ReadWriteMany"}
    assert os.path.basename(node.log) == "data.log"
