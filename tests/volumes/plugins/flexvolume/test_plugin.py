"""Each driver is a plugin under its own name, and does what upstream has its drivers do."""

from __future__ import annotations

import base64
import json
import os
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from tests.volumes.plugins.flexvolume.conftest import Write, calls

from mooring.kube.objects import (
    FlexVolumeSource,
    ObjectMeta,
    PersistentVolume,
    PersistentVolumeSpec,
    Pod,
    Secret,
    SecretReference,
    Volume,
)
from mooring.volumes.errors import ContentMissing, InvalidSpec, NoPluginMatched, VolumeError
from mooring.volumes.host import ControllerVolumeHost, NodeVolumeHost
from mooring.volumes.interfaces import DEVICE_PATH, AttachableVolumePlugin, Expansion, MetricsNotSupported
from mooring.volumes.plugin_manager import PluginManager
from mooring.volumes.plugins.disk import DiskPlugin
from mooring.volumes.plugins.flexvolume.driver import DriverFailed, DriverMissing
from mooring.volumes.plugins.flexvolume.plugin import PLUGIN_NAME, FlexVolumePlugin
from mooring.volumes.spec import VolumeSpec

NAME = "example.com/disk"
POD = Pod(metadata=ObjectMeta(name="web", namespace="shop", uid="pod-uid"))
ALL = """echo '{"status":"Success","device":"/dev/x","attached":true}'"""
MOUNT_ONLY = """case "$1" in
init) echo '{"status":"Success","capabilities":{"attach":false,"supportsMetrics":true,"selinuxRelabel":false}}';;
mount|unmount) echo '{"status":"Success"}';;
*) echo '{"status":"Not supported"}'; exit 1;; esac"""
INIT_ONLY = """case "$1" in init) echo '{"status":"Success"}';; *) echo '{"status":"Not supported"}';; esac"""


def inline(driver: str = NAME, **source: object) -> VolumeSpec:
    flex = FlexVolumeSource(driver=driver, **source)  # type: ignore[arg-type]
    return VolumeSpec.of_volume(Volume(name="data", flex_volume=flex))


def persistent(**source: object) -> VolumeSpec:
    flex = FlexVolumeSource(driver=NAME, **source)  # type: ignore[arg-type]
    spec = PersistentVolumeSpec(flex_volume=flex, capacity={"storage": "1Gi"})
    return VolumeSpec.of_persistent_volume(PersistentVolume(metadata=ObjectMeta(name="pv-1"), spec=spec))


class PlayedMounts:
    """What this node is asked to mount itself; `points` are mounted."""

    def __init__(self) -> None:
        self.points: set[str] = set()
        self.asked: list[tuple[Any, ...]] = []

    async def is_mount_point(self, path: str) -> bool:
        return path in self.points

    async def bind_mount(self, source: str, target: str, read_only: bool = False) -> None:
        self.asked.append(("bind", source, target, read_only))
        self.points.add(target)

    async def format_and_mount(self, device: str, target: str, fs_type: str, options: Any) -> None:
        self.asked.append(("mount", device, target, fs_type, tuple(options)))
        self.points.add(target)

    async def remove_mount_point(self, target: str) -> None:
        self.points.discard(target)
        if os.path.isdir(target):
            os.rmdir(target)

    async def mount_table(self) -> tuple[Any, ...]:
        return ()


@pytest.fixture
def played() -> PlayedMounts:
    return PlayedMounts()


@pytest.fixture
def node(host: NodeVolumeHost, played: PlayedMounts, directory: Path) -> NodeVolumeHost:
    settings = {PLUGIN_NAME: {"directory": str(directory), "timeoutSeconds": "20"}}
    return replace(host, mounts=played, plugin_settings=settings)  # type: ignore[arg-type]


async def manager_of(host: Any) -> PluginManager:
    finder = FlexVolumePlugin()
    manager = PluginManager([DiskPlugin(), finder], host)
    assert not manager.errors
    if finder.folder is not None:
        await finder.folder.scan()
    return manager


async def test_a_driver_is_a_plugin_under_its_own_name(node: NodeVolumeHost, write: Write) -> None:
    write(ALL)
    manager = await manager_of(node)
    assert manager.find_plugin_by_spec(inline()).get_plugin_name() == NAME
    assert manager.unique_volume_name(persistent(), "uid") == f"{NAME}/pv-1"
    assert manager.find_attachable_plugin_by_spec(inline()) is not None
    assert manager.find_device_mountable_plugin_by_name(NAME) is not None


async def test_a_driver_without_attach_is_not_attachable(node: NodeVolumeHost, write: Write) -> None:
    write(MOUNT_ONLY)
    manager = await manager_of(node)
    assert manager.find_attachable_plugin_by_spec(inline()) is None
    assert manager.find_device_mountable_plugin_by_spec(inline()) is None
    assert manager.unique_volume_name(inline(), "uid").startswith("example.com/disk/uid")


async def test_a_native_plugin_goes_on_having_its_flex_volumes(node: NodeVolumeHost, write: Write) -> None:
    write(ALL, "mooring.dev~disk")
    manager = await manager_of(node)
    assert isinstance(manager.find_plugin_by_spec(inline("mooring.dev/disk")), DiskPlugin)


async def test_a_missing_driver_is_named_with_its_place(node: NodeVolumeHost, directory: Path) -> None:
    manager = await manager_of(node)
    with pytest.raises(
        NoPluginMatched, match=f"no FlexVolume driver .*put it at '{directory}/example.com~disk/disk"
    ):
        manager.find_plugin_by_spec(inline())


async def test_a_driver_whose_init_fails_is_named_with_its_failure(
    node: NodeVolumeHost, write: Write
) -> None:
    write("""echo '{"status":"Failure","message":"no kernel module"}'""")
    manager = await manager_of(node)
    with pytest.raises(NoPluginMatched, match=r"init of FlexVolume driver .*no kernel module"):
        manager.find_plugin_by_spec(inline())


async def test_a_driver_that_was_removed_takes_no_new_volume_and_is_missed_at_unmount(
    node: NodeVolumeHost, write: Write
) -> None:
    executable = write(MOUNT_ONLY)
    manager = await manager_of(node)
    await manager.find_plugin_by_spec(inline()).new_mounter(inline(), POD).set_up()
    executable.unlink()
    finder = manager.find_plugin_by_name(PLUGIN_NAME)
    assert isinstance(finder, FlexVolumePlugin)
    assert finder.folder is not None
    await finder.folder.scan()
    with pytest.raises(NoPluginMatched, match="put it at"):
        manager.find_plugin_by_spec(inline())
    unmounter = manager.find_plugin_by_name(NAME).new_unmounter("data", POD.uid)
    with pytest.raises(DriverMissing, match=r"unmount of FlexVolume driver example.com/disk"):
        await unmounter.tear_down()
    write(MOUNT_ONLY)
    await finder.folder.scan()
    await unmounter.tear_down()
    assert not os.path.exists(unmounter.get_path())


async def test_without_a_directory_there_are_no_drivers(host: NodeVolumeHost) -> None:
    manager = await manager_of(replace(host, plugin_settings={}))
    with pytest.raises(NoPluginMatched, match="no directory of FlexVolume drivers is set"):
        manager.find_plugin_by_spec(inline())


async def test_a_pod_gets_its_volume_by_mount_with_its_own_facts_and_its_secret(
    node: NodeVolumeHost, write: Write, cluster: Any
) -> None:
    executable = write(MOUNT_ONLY)
    key = base64.b64encode(b"open sesame").decode()
    cluster.secrets["shop", "key"] = Secret(type=NAME, data={"token": key})
    spec = inline(options={"id": "7"}, secret_ref=SecretReference(name="key"))
    mounter = (await manager_of(node)).find_plugin_by_spec(spec).new_mounter(spec, POD)
    await mounter.set_up(fs_group=os.getgid())
    _, (call, path, given) = calls(executable)
    assert (call, path) == ("mount", mounter.get_path())
    assert path.endswith("/pods/pod-uid/volumes/example.com~disk/data")
    assert json.loads(given) == {
        "id": "7",
        "kubernetes.io/fsType": "",
        "kubernetes.io/readwrite": "rw",
        "kubernetes.io/pvOrVolumeName": "data",
        "kubernetes.io/pod.name": "web",
        "kubernetes.io/pod.namespace": "shop",
        "kubernetes.io/pod.uid": "pod-uid",
        "kubernetes.io/serviceAccount.name": "",
        "kubernetes.io/mounterArgs.FsGroup": str(os.getgid()),
        "kubernetes.io/secret/token": key,
    }


async def test_a_secret_of_another_type_is_not_given_to_the_driver(
    node: NodeVolumeHost, write: Write, cluster: Any
) -> None:
    executable = write(MOUNT_ONLY)
    cluster.secrets["shop", "key"] = Secret(data={"token": "YQ=="})
    spec = inline(secret_ref=SecretReference(name="key"))
    mounter = (await manager_of(node)).find_plugin_by_spec(spec).new_mounter(spec, POD)
    with pytest.raises(InvalidSpec, match=r"shop/key .*type 'Opaque'"):
        await mounter.set_up()
    assert calls(executable) == [["init"]]


async def test_a_secret_that_does_not_exist_is_named(node: NodeVolumeHost, write: Write) -> None:
    write(MOUNT_ONLY)
    spec = inline(secret_ref=SecretReference(name="key"))
    mounter = (await manager_of(node)).find_plugin_by_spec(spec).new_mounter(spec, POD)
    with pytest.raises(ContentMissing, match="shop/key"):
        await mounter.set_up()


async def test_what_is_mounted_is_not_mounted_again(
    node: NodeVolumeHost, write: Write, played: PlayedMounts
) -> None:
    executable = write(MOUNT_ONLY)
    mounter = (await manager_of(node)).find_plugin_by_spec(inline()).new_mounter(inline(), POD)
    played.points.add(mounter.get_path())
    await mounter.set_up()
    assert calls(executable) == [["init"]]


async def test_a_mount_that_fails_leaves_no_directory(node: NodeVolumeHost, write: Write) -> None:
    write(
        """[ "$1" = init ] && echo '{"status":"Success"}' || echo '{"status":"Failure","message":"full"}'"""
    )
    mounter = (await manager_of(node)).find_plugin_by_spec(inline()).new_mounter(inline(), POD)
    with pytest.raises(DriverFailed, match=r"mount of FlexVolume driver .*full"):
        await mounter.set_up()
    assert not os.path.exists(mounter.get_path())


async def test_a_group_gets_the_content_unless_the_driver_says_otherwise(
    node: NodeVolumeHost, write: Write
) -> None:
    for said, mode in (("true", 0o2770), ("false", 0o750)):
        write(f"""echo '{{"status":"Success","capabilities":{{"fsGroup":{said}}}}}'""")
        mounter = (await manager_of(node)).find_plugin_by_spec(inline()).new_mounter(inline(), POD)
        await mounter.set_up(fs_group=os.getgid())
        assert os.stat(mounter.get_path()).st_mode & 0o7777 == mode
        os.rmdir(mounter.get_path())


async def test_attributes_and_metrics_are_as_the_driver_says(node: NodeVolumeHost, write: Write) -> None:
    write(MOUNT_ONLY)
    mounter = (await manager_of(node)).find_plugin_by_spec(inline()).new_mounter(inline(read_only=True), POD)
    assert mounter.get_attributes().read_only
    assert not mounter.get_attributes().supports_selinux
    os.makedirs(mounter.get_path())
    assert (await mounter.get_metrics()).capacity > 0
    write(ALL)
    mounter = (await manager_of(node)).find_plugin_by_spec(inline()).new_mounter(inline(), POD)
    assert mounter.get_attributes().supports_selinux
    with pytest.raises(MetricsNotSupported):
        await mounter.get_metrics()


async def attachable(host: Any) -> AttachableVolumePlugin:
    found = (await manager_of(host)).find_attachable_plugin_by_name(NAME)
    assert found is not None
    return found


async def test_a_controller_attaches_asks_and_detaches(
    node: NodeVolumeHost, write: Write, directory: Path
) -> None:
    executable = write(ALL)
    plugin = await attachable(ControllerVolumeHost(node.now, node.plugin_settings))
    attacher, spec = plugin.new_attacher(), persistent()
    assert await attacher.attach(spec, "node-1") == {DEVICE_PATH: "/dev/x"}
    assert await attacher.volumes_are_attached([spec], "node-1") == {spec: True}
    await plugin.new_detacher().detach("pv-1", "node-1")
    given = calls(executable)[1][1]
    assert calls(executable)[1:] == [
        ["attach", given, "node-1"],
        ["isattached", given, "node-1"],
        ["detach", "pv-1", "node-1"],
    ]


async def test_a_node_waits_for_the_device_and_has_it_mounted(
    node: NodeVolumeHost, write: Write, played: PlayedMounts
) -> None:
    executable = write(ALL)
    plugin, spec = await attachable(node), persistent(fs_type="xfs")
    attacher = plugin.new_attacher()
    path = attacher.get_device_mount_path(spec)
    assert await attacher.wait_for_attach(spec, {DEVICE_PATH: "foo"}, 10.0) == "/dev/x"
    await attacher.mount_device(spec, "/dev/x", path)
    played.points.add(path)
    await attacher.mount_device(spec, "/dev/x", path)
    given = calls(executable)[1][2]
    assert calls(executable)[1:] == [["waitforattach", "foo", given], ["mountdevice", path, "/dev/x", given]]
    with pytest.raises(VolumeError, match=r"answered Success to unmountdevice, and .* is still mounted"):
        await plugin.new_detacher().unmount_device(path)
    assert calls(executable)[-1] == ["unmountdevice", path]
    played.points.clear()
    await plugin.new_detacher().unmount_device(path)
    assert not os.path.exists(path)


async def test_what_a_driver_does_not_support_is_done_as_upstream_does_it(
    node: NodeVolumeHost, write: Write, played: PlayedMounts
) -> None:
    write(INIT_ONLY)
    plugin, spec = await attachable(node), persistent(read_only=True)
    attacher = plugin.new_attacher()
    path = attacher.get_device_mount_path(spec)
    assert await attacher.attach(spec, "node-1") == {}
    assert await attacher.volumes_are_attached([spec], "node-1") == {}
    assert await attacher.wait_for_attach(spec, {DEVICE_PATH: "/dev/y"}, 10.0) == "/dev/y"
    await attacher.mount_device(spec, "/dev/y", path)
    mounter = plugin.new_mounter(spec, POD)
    await mounter.set_up()
    assert played.asked == [
        ("mount", "/dev/y", path, "ext4", ("rw",)),
        ("bind", path, mounter.get_path(), False),
    ]
    await plugin.new_unmounter("pv-1", POD.uid).tear_down()
    await plugin.new_detacher().unmount_device(path)
    await plugin.new_detacher().detach("pv-1", "node-1")
    assert not os.path.exists(mounter.get_path())
    assert not os.path.exists(path)


async def test_a_driver_that_names_no_device_and_mounts_nothing_is_told_so(
    node: NodeVolumeHost, write: Write
) -> None:
    write(INIT_ONLY)
    plugin, spec = await attachable(node), persistent()
    attacher = plugin.new_attacher()
    await attacher.mount_device(spec, "", attacher.get_device_mount_path(spec))
    with pytest.raises(VolumeError, match="does not support mount, and has mounted nothing at"):
        await plugin.new_mounter(spec, POD).set_up()


@pytest.mark.parametrize("device", ["foo", "-o"])
async def test_what_is_no_path_is_not_mounted(node: NodeVolumeHost, write: Write, device: str) -> None:
    write(INIT_ONLY)
    attacher = (await attachable(node)).new_attacher()
    with pytest.raises(InvalidSpec, match="it must name a path"):
        await attacher.mount_device(persistent(), device, attacher.get_device_mount_path(persistent()))


async def test_a_volume_grows_in_the_storage_and_on_the_node_if_the_driver_says_so(
    node: NodeVolumeHost, write: Write
) -> None:
    executable = write(ALL)
    plugin: Any = await attachable(node)
    assert await plugin.expand_volume_device(persistent(), 2 << 30) == Expansion(2 << 30, on_node=True)
    call, given, device, new, old = calls(executable)[1]
    assert (call, device, new, old) == ("expandvolume", f"{NAME}/mounts/pv-1", str(2 << 30), str(1 << 30))
    assert json.loads(given)["kubernetes.io/pvOrVolumeName"] == "pv-1"
    write("""echo '{"status":"Success","capabilities":{"requiresFSResize":false}}'""")
    plugin = await attachable(node)
    assert await plugin.expand_volume_device(persistent(), 2 << 30) == Expansion(2 << 30, on_node=False)


async def test_a_node_does_not_attach_for_itself_unless_the_operator_says_that_the_storage_refuses(
    node: NodeVolumeHost, write: Write
) -> None:
    write(ALL)
    assert not (await attachable(node)).capabilities(persistent()).refuses
    said = replace(node, plugin_settings={**node.plugin_settings, NAME: {"refuses": "true"}})
    assert (await attachable(said)).capabilities(persistent()).refuses


async def test_a_volume_is_known_again_after_a_restart(node: NodeVolumeHost, write: Write) -> None:
    write(ALL)
    manager = await manager_of(node)
    spec = await manager.find_plugin_by_name(NAME).construct_volume_spec("pv-1", "/x")
    assert manager.unique_volume_name(spec, "uid") == f"{NAME}/pv-1"
