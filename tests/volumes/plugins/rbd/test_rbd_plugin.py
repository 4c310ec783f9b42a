"""RBD volumes: sources read or refused, names and paths, and a volume's life on a node."""

from __future__ import annotations

import base64
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.doubles.played_rbd import KEY, PlayedCluster, PlayedDevices

from mooring.kube.objects import (
    ObjectMeta,
    PersistentVolume,
    PersistentVolumeSpec,
    RBDVolumeSource,
    Secret,
    SecretReference,
    Volume,
)
from mooring.volumes.errors import ContentMissing, InvalidSpec, StorageRefused, VolumeError
from mooring.volumes.host import ControllerVolumeHost, NodeVolumeHost
from mooring.volumes.plugins.rbd import RBDPlugin, plugin
from mooring.volumes.plugins.rbd.images import Images
from mooring.volumes.plugins.rbd.notes import Notes
from mooring.volumes.plugins.rbd.source import image, image_at, volume_name
from mooring.volumes.spec import VolumeSpec

SECRET = SecretReference(name="ceph", namespace="storage")


def volume(*, modes: tuple[str, ...] = ("ReadWriteOnce",), size: str = "64Mi", **source: Any) -> VolumeSpec:
    made = RBDVolumeSource(**{"monitors": ("10.0.0.1",), "image": "one", "secret_ref": SECRET, **source})
    spec = PersistentVolumeSpec(rbd=made, access_modes=modes, capacity={"storage": size})
    return VolumeSpec.of_persistent_volume(PersistentVolume(metadata=ObjectMeta(name="pv"), spec=spec))


class Mounts:
    """What is mounted where."""

    def __init__(self) -> None:
        self.points: dict[str, tuple[str, str, tuple[str, ...]]] = {}
        self.resized: list[tuple[str, str]] = []

    async def is_mount_point(self, path: str) -> bool:
        return path in self.points

    async def format_and_mount(self, device: str, target: str, fs_type: str, options: Any) -> None:
        self.points.setdefault(target, (device, fs_type, tuple(options)))

    async def remove_mount_point(self, target: str) -> None:
        self.points.pop(target, None)

    async def resize(self, device: str, target: str) -> None:
        self.resized.append((device, target))


class Node:
    def __init__(self, root: Path, cluster: PlayedCluster | None = None) -> None:
        self.mounts, self.devices = Mounts(), PlayedDevices(cluster or PlayedCluster())
        self.plugin = plugin()
        refuse: Any = None
        self.plugin.init(NodeVolumeHost("node-1", root, self.mounts, refuse, refuse, _secret))  # type: ignore[arg-type]
        notes = Notes(root / "notes", "boot-1")
        self.plugin.__dict__["_images"] = Images(notes, self.devices, "node-1")  # type: ignore[arg-type]

    async def mount(self, spec: VolumeSpec) -> str:
        attacher = self.plugin.new_attacher()
        path = attacher.get_device_mount_path(spec)
        await attacher.mount_device(spec, "", path)
        return path


async def _secret(namespace: str, name: str) -> Secret | None:
    data = {"key": base64.b64encode(KEY.encode()).decode()}
    return Secret(data=data) if (namespace, name) == ("storage", "ceph") else None


@pytest.fixture
def node(tmp_path: Path) -> Node:
    return Node(tmp_path)


async def test_an_image_is_mapped_mounted_and_given_back(node: Node) -> None:
    path = await node.mount(volume(fs_type="xfs"))
    assert path.endswith("plugins/kubernetes.io~rbd/mounts/10.0.0.1:6789/rbd/one")
    assert node.mounts.points[path] == ("/dev/rbd0", "xfs", ())
    await node.plugin.new_detacher().unmount_device(path)
    assert node.devices.mapped == {}


async def test_a_volume_that_is_only_read_is_mounted_so(node: Node) -> None:
    path = await node.mount(volume(modes=("ReadOnlyMany",), read_only=True))
    assert node.mounts.points[path][2] == ("ro",)
    assert ",ro," in node.devices.orders[0]


async def test_a_volume_without_its_secret_maps_nothing(node: Node) -> None:
    with pytest.raises(ContentMissing, match="Secret storage/gone"):
        await node.mount(volume(secret_ref=SecretReference(name="gone", namespace="storage")))
    assert node.devices.orders == []


async def test_a_file_system_grows_to_what_its_image_has(node: Node) -> None:
    spec = volume(size="64Mi")
    path = await node.mount(spec)
    await node.plugin.expand_fs(spec, path)
    assert node.mounts.resized == [("/dev/rbd0", path)]
    with pytest.raises(VolumeError, match="rbd resize"):
        await node.plugin.expand_fs(volume(size="128Mi"), path)


async def test_an_image_is_grown_by_who_has_it(node: Node) -> None:
    with pytest.raises(StorageRefused, match="rbd resize"):
        await node.plugin.expand_volume_device(volume(size="64Mi"), 128 << 20)
    assert (await node.plugin.expand_volume_device(volume(size="128Mi"), 128 << 20)).on_node


@pytest.mark.parametrize(
    ("modes", "attached"),
    [
        (("ReadWriteOnce",), True),
        (("ReadWriteOncePod",), True),
        (("ReadOnlyMany",), False),
        (("ReadWriteOnce", "ReadOnlyMany"), False),
    ],
)
def test_a_volume_for_one_node_at_a_time_is_under_the_lock(modes: tuple[str, ...], attached: bool) -> None:
    made = RBDPlugin()
    made.init(ControllerVolumeHost(now=lambda: None))  # type: ignore[arg-type, return-value]
    assert made.can_attach(volume(modes=modes)) is attached


def test_images_of_two_clusters_are_two_volumes() -> None:
    one, other = volume(), volume(monitors=("10.0.0.2",))
    assert volume_name(image(one)) == "10.0.0.1:6789:rbd:one"
    assert volume_name(image(one)) != volume_name(image(other))


@pytest.mark.parametrize("field", ["image", "pool"])
@pytest.mark.parametrize("text", ["a b", "a,rw", "a/b", "..", "-a", "a\n", "x" * 97, "ä", "@"])
def test_a_name_that_could_be_another_word_or_path_is_refused(field: str, text: str) -> None:
    with pytest.raises(InvalidSpec, match=rf"rbd\.{field}"):
        image(volume(**{field: text}))


def test_what_is_not_written_has_upstreams_defaults() -> None:
    found = image(VolumeSpec.of_volume(Volume(name="v", rbd=RBDVolumeSource(monitors=("m",), image="i"))))
    assert (found.pool, found.cluster.user, found.cluster.key_file) == ("rbd", "admin", "/etc/ceph/keyring")
    assert (found.fs_type, found.read_only, found.cluster.secret) == ("ext4", False, None)


def test_a_path_says_its_image(node: Node) -> None:
    for monitor in ("10.0.0.1", "[fd00::1]:3300", "mon.example.com"):
        spec = volume(monitors=(monitor,), pool="fast", image="a.b+c_d-e")
        path = node.plugin.new_attacher().get_device_mount_path(spec)
        assert node.plugin.get_volume_name_at(path) == node.plugin.get_volume_name(spec)


@pytest.mark.parametrize(
    "path", ["", "/", "///true/data", "/a/mounts/rbd/one", "/p/mounts/a b/rbd/one", "/p/x/10.0.0.1/rbd/one"]
)
def test_a_path_of_others_says_no_image(path: str) -> None:
    assert image_at(path) is None


@given(st.text(max_size=80))
def test_no_path_of_others_breaks_anything(path: str) -> None:
    found = image_at(path)
    assert found is None or "/" not in volume_name(found)
