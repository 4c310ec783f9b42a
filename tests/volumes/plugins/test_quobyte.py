"""Quobyte volumes: what `mount` is told, what the pod gets to see, and that no client's mount is left."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest
from example_volumes import volume_of
from tests.doubles.network_mounts import PlayedKernel

from mooring.kube.objects import (
    ObjectMeta,
    PersistentVolume,
    PersistentVolumeSpec,
    Pod,
    QuobyteVolumeSource,
    Volume,
)
from mooring.volumes.errors import InvalidSpec, OutcomeUnknown, VolumeError
from mooring.volumes.host import NodeVolumeHost
from mooring.volumes.plugins.programs import Ended
from mooring.volumes.plugins.quobyte import QuobytePlugin
from mooring.volumes.spec import VolumeSpec

POD = Pod(metadata=ObjectMeta(name="web-0", namespace="shop", uid="pod-uid"))
CLIENT = "pods/pod-uid/plugins/kubernetes.io~quobyte/data.client"


class PlayedQuobyte(PlayedKernel):
    """Volumes are seen in a client's mount as its users see them; `volumes` are those that are there, and
    `hangs` says at which of the two mounts the servers do not answer."""

    def __init__(self) -> None:
        super().__init__()
        self.volumes = {"shop"}
        self.hangs = ""

    async def run(self, *words: str, deadline_s: float) -> Ended:
        if words[0] == "mount" and self.hangs in words:
            self.calls.append(words)
            return Ended(None)
        if words[0] == "mount" and "quobyte" not in words:
            self.calls.append(words)
            client, _, entry = words[-2].rpartition("/")
            if client not in self.mounts or entry.partition("@")[2] not in self.volumes:
                return Ended(32, errors=f"mount: {words[-1]}: special device {words[-2]} does not exist.")
            self.mounts[words[-1]] = self.mounts[client]
            self.devices[words[-1]] = self.devices[client] = (0, 99)
            return Ended(0)
        return await super().run(*words, deadline_s=deadline_s)

    def mount_calls(self) -> list[tuple[str, ...]]:
        return [each for each in self.calls if each[0] == "mount"]


class Node:
    def __init__(self, root: Path) -> None:
        self.root, self.kernel = root, PlayedQuobyte()
        self.plugin = QuobytePlugin(self.kernel.run)
        refuse: Any = None
        self.plugin.init(NodeVolumeHost("node-1", root, self.kernel, refuse, refuse, refuse))  # type: ignore[arg-type]

    def set_up(self, spec: VolumeSpec) -> str:
        mounter = self.plugin.new_mounter(spec, POD)
        asyncio.run(mounter.set_up())
        return mounter.get_path()

    def tear_down(self) -> None:
        asyncio.run(self.plugin.new_unmounter("data", POD.uid).tear_down())

    def left(self) -> list[str]:
        """Mounts, and directories that they were at."""
        there = (each for each in self.root.rglob("data*") if each.is_dir())
        return [*self.kernel.mounts, *map(str, there)]


@pytest.fixture
def node(tmp_path: Path) -> Node:
    return Node(tmp_path)


def volume(**source: Any) -> VolumeSpec:
    made = QuobyteVolumeSource(**{"registry": "registry:7861", "volume": "shop", **source})
    return VolumeSpec.of_volume(Volume(name="data", quobyte=made))


def persistent(*options: str, read_only: bool = False) -> VolumeSpec:
    source = QuobyteVolumeSource(registry="a:7861,[fd00::1]:7861", volume="shop", user="web", group="www")
    spec = PersistentVolumeSpec(quobyte=source, mount_options=options)
    pv = PersistentVolume(metadata=ObjectMeta(name="data"), spec=spec)
    return VolumeSpec.of_persistent_volume(pv, read_only)


def test_the_pod_gets_the_volume_as_its_user_sees_it_and_nothing_else_of_the_registry(node: Node) -> None:
    path = node.set_up(persistent("noatime", read_only=True))
    client = str(node.root / CLIENT)
    assert node.kernel.mount_calls() == [
        ("mount", "-t", "quobyte", "-o", "noatime", "--", "a:7861,[fd00::1]:7861/", client),
        ("mount", "-o", "bind,ro", "--", f"{client}/web#www@shop", path),
    ]
    assert path.endswith("pods/pod-uid/volumes/kubernetes.io~quobyte/data")


def test_the_examples_volume_is_shown_as_its_user_sees_it(node: Node) -> None:
    node.kernel.volumes = {"files"}
    node.set_up(volume_of("quobyte.yaml"))
    assert node.kernel.mount_calls()[1][-2].endswith("/pods#pods@files")


def test_an_unwritten_user_and_group_are_upstreams(node: Node) -> None:
    node.set_up(volume())
    assert node.kernel.mount_calls()[1][-2].endswith("/root#nfsnobody@shop")


def test_both_mounts_are_gone_with_the_pod(node: Node) -> None:
    node.set_up(volume())
    node.tear_down()
    assert node.left() == []
    node.tear_down()


def test_a_mounted_volume_is_not_mounted_again(node: Node) -> None:
    node.set_up(volume())
    node.set_up(volume())
    assert len(node.kernel.mount_calls()) == 2


@pytest.mark.parametrize(
    ("said", "told"),
    [
        ("Connection refused", "no registry answers"),
        ("Permission denied", "look at /etc/quobyte"),
        ("No route to host", "look at the network"),
        ("unknown filesystem type 'quobyte'", "install quobyte-client"),
        ("anything else", "anything else"),
    ],
)
def test_a_client_that_does_not_mount_leaves_nothing_and_says_what_to_do(
    node: Node, said: str, told: str
) -> None:
    node.kernel.refusal = said
    with pytest.raises(VolumeError, match=told):
        node.set_up(volume())
    assert node.left() == []


def test_a_volume_that_is_not_there_leaves_no_client(node: Node) -> None:
    with pytest.raises(VolumeError, match=r"correct quobyte\.volume"):
        node.set_up(volume(volume="other"))
    assert node.left() == []


@pytest.mark.parametrize("hangs", ["quobyte", "bind"])
def test_a_registry_that_hangs_at_a_mount_is_looked_up_again_and_undone_with_the_volume(
    node: Node, hangs: str
) -> None:
    node.kernel.hangs = hangs
    with pytest.raises(OutcomeUnknown):
        node.set_up(volume())
    assert (node.root / "pods/pod-uid/volumes/kubernetes.io~quobyte/data").is_dir(), "an agent finds it"
    node.tear_down()
    assert node.left() == []


def test_servers_that_have_gone_at_the_end_are_left_by_force(node: Node) -> None:
    path = node.set_up(volume())
    node.kernel.gone = True
    node.tear_down()
    assert node.left() == []
    ends = [each for each in node.kernel.calls if each[0] == "umount"]
    assert ends == [("umount", "--", path), ("umount", "-f", "--", str(node.root / CLIENT))]


def test_servers_that_are_slow_are_waited_for(node: Node) -> None:
    node.set_up(volume())
    node.kernel.slow = True
    with pytest.raises(VolumeError, match="while the server answers"):
        node.tear_down()
    assert str(node.root / CLIENT) in node.kernel.mounts


def test_what_an_agent_that_was_killed_has_mounted_is_used(node: Node) -> None:
    node.set_up(volume())
    (bound,) = [each for each in node.kernel.mounts if each.endswith("/data")]
    del node.kernel.mounts[bound]
    node.set_up(volume())
    assert [("quobyte" in each) for each in node.kernel.mount_calls()] == [True, False, False]


@pytest.mark.parametrize(
    "source",
    [
        {"registry": ""},
        {"registry": "registry"},
        {"registry": "registry:0"},
        {"registry": "registry:65536"},
        {"registry": "a:1,,b:2"},
        {"registry": "-o:1"},
        {"registry": "a b:1"},
        {"registry": "[fd00::1%eth0]:1"},
        {"registry": ",".join(["a:1"] * 17)},
        {"volume": ""},
        {"volume": "../etc"},
        {"volume": "a@b"},
        {"user": "a#b"},
        {"group": "a/b"},
        {"user": "-o"},
    ],
)
def test_what_cannot_be_meant_reaches_no_program(node: Node, source: dict[str, str]) -> None:
    with pytest.raises(InvalidSpec, match="quobyte"):
        node.set_up(volume(**source))
    assert node.kernel.calls == []


def test_mount_options_that_cannot_be_meant_are_refused(node: Node) -> None:
    with pytest.raises(InvalidSpec, match="mountOptions"):
        node.set_up(persistent("a b"))
