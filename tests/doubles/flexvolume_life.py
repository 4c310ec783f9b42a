"""The life of a FlexVolume on this machine, with real mounts: what a controller and a node agent call, in
order."""

from __future__ import annotations

import os
import shutil
from datetime import UTC, datetime
from pathlib import Path

from mooring.kube.objects import (
    FlexVolumeSource,
    ObjectMeta,
    PersistentVolume,
    PersistentVolumeSpec,
    Pod,
    Volume,
)
from mooring.mounts.host import HostMounts
from mooring.volumes.host import NodeVolumeHost
from mooring.volumes.interfaces import AttachableVolumePlugin, Expansion, NodeExpandableVolumePlugin
from mooring.volumes.plugin_manager import PluginManager
from mooring.volumes.plugins.flexvolume.plugin import PLUGIN_NAME, FlexVolumePlugin
from mooring.volumes.spec import VolumeSpec

POD = Pod(metadata=ObjectMeta(name="web-0", namespace="shop", uid="pod-uid"))


def install(executable: Path, directory: Path, name: str) -> None:
    """Copies the driver to its place as `<vendor>/<driver>`."""
    place = directory / name.replace("/", "~") / name.partition("/")[2]
    place.parent.mkdir(parents=True)
    shutil.copyfile(executable, place)
    place.chmod(0o755)


def inline(name: str) -> VolumeSpec:
    return VolumeSpec.of_volume(Volume(name="data", flex_volume=FlexVolumeSource(driver=name)))


def persistent(name: str) -> VolumeSpec:
    spec = PersistentVolumeSpec(flex_volume=FlexVolumeSource(driver=name), capacity={"storage": "1Mi"})
    return VolumeSpec.of_persistent_volume(PersistentVolume(metadata=ObjectMeta(name="pv"), spec=spec))


async def plugins(root: Path, directory: Path) -> PluginManager:
    async def nothing(namespace: str, name: str) -> None:
        return None

    host = NodeVolumeHost(
        "node-1",
        root,
        HostMounts(),
        lambda: datetime(2030, 1, 1, tzinfo=UTC),
        nothing,
        nothing,
        plugin_settings={PLUGIN_NAME: {"directory": str(directory), "timeoutSeconds": "20"}},
    )
    finder = FlexVolumePlugin()
    manager = PluginManager([finder], host)
    assert finder.folder is not None
    assert not await finder.folder.scan(), finder.folder.problems
    return manager


async def life_of_a_pods_own_volume(manager: PluginManager, name: str) -> set[str]:
    """Mounted, seen, unmounted, both twice; returns the names of the files that the pod saw."""
    plugin = manager.find_plugin_by_spec(inline(name))
    assert manager.find_attachable_plugin_by_spec(inline(name)) is None
    mounter, unmounter = plugin.new_mounter(inline(name), POD), plugin.new_unmounter("data", POD.uid)
    await mounter.can_mount()
    for _ in range(2):
        await mounter.set_up()
        assert os.path.ismount(mounter.get_path())
    seen = set(os.listdir(mounter.get_path()))
    for _ in range(2):
        await unmounter.tear_down()
        assert not os.path.exists(mounter.get_path())
    return seen


async def life_of_an_attached_volume(manager: PluginManager, name: str) -> set[str]:
    """Attached, mounted, grown and all of it undone; returns the names of the files that the pod saw."""
    spec = persistent(name)
    plugin = manager.find_attachable_plugin_by_spec(spec)
    assert isinstance(plugin, AttachableVolumePlugin)
    assert isinstance(plugin, NodeExpandableVolumePlugin)
    attacher, mounter = plugin.new_attacher(), plugin.new_mounter(spec, POD)
    attachment = await attacher.attach(spec, "node-1")
    assert await attacher.volumes_are_attached([spec], "node-1") == {spec: True}
    device = await attacher.wait_for_attach(spec, attachment, 10.0)
    path = attacher.get_device_mount_path(spec)
    for _ in range(2):
        await attacher.mount_device(spec, device, path)
        await mounter.set_up()
        assert os.path.ismount(mounter.get_path())
    seen = set(os.listdir(mounter.get_path()))
    expandable = manager.find_expandable_plugin_by_spec(spec)
    assert expandable is not None
    assert await expandable.expand_volume_device(spec, 2 << 20) == Expansion(2 << 20, on_node=True)
    await plugin.expand_fs(spec, path)
    assert await plugin.get_device_mount_refs(path) == [mounter.get_path()]
    await plugin.new_unmounter("pv", POD.uid).tear_down()
    for _ in range(2):
        await plugin.new_detacher().unmount_device(path)
        await plugin.new_detacher().detach("pv", "node-1")
    assert not os.path.exists(path)
    return seen
