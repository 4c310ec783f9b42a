"""The table of what each bundled volume plugin can do, from what its code declares: `python -m
tests.plugin_table` writes it into docs/plugins.md, and a contract holds it there."""

from __future__ import annotations

from pathlib import Path

from mooring.kube.objects import (
    FCVolumeSource,
    FlexVolumeSource,
    FlockerVolumeSource,
    ISCSIVolumeSource,
    NFSVolumeSource,
    ObjectMeta,
    PersistentVolume,
    PersistentVolumeSpec,
    PhotonPersistentDiskVolumeSource,
    RBDVolumeSource,
)
from mooring.kube.times import wall_clock
from mooring.volumes.granted import GrantedSharePlugin
from mooring.volumes.host import ControllerVolumeHost
from mooring.volumes.interfaces import (
    AttachableVolumePlugin,
    BlockVolumePlugin,
    DeviceMountableVolumePlugin,
    ExpandableVolumePlugin,
    NodeExpandableVolumePlugin,
    ProvisionableVolumePlugin,
    RecyclableVolumePlugin,
    SnapshottableVolumePlugin,
    VolumePlugin,
)
from mooring.volumes.plugin_manager import load_plugins
from mooring.volumes.spec import VolumeSpec

ROOT = Path(__file__).parents[1]
PAGE = ROOT / "docs" / "plugins.md"
BEGIN, END = "<!-- made by `python -m tests.plugin_table` -->\n", "<!-- end -->\n"
HEAD = ("plugin", "attached", "once per node", "raw", "grows", "snapshots", "made for claims", "recycles")
EXCLUSIVE = {
    "mooring.dev/disk": PersistentVolumeSpec(
        flex_volume=FlexVolumeSource(driver="mooring.dev/disk", options={"disk": "d"})
    ),
    "kubernetes.io/iscsi": PersistentVolumeSpec(
        iscsi=ISCSIVolumeSource(target_portal="10.0.0.1", iqn="iqn.2026-01.dev.mooring:a")
    ),
    "kubernetes.io/flocker": PersistentVolumeSpec(flocker=FlockerVolumeSource(dataset_name="d")),
    "kubernetes.io/photon-pd": PersistentVolumeSpec(
        photon_persistent_disk=PhotonPersistentDiskVolumeSource(pd_id="6000c298-595b-f457-5739-e9105b2c0c2d")
    ),
    "kubernetes.io/nfs": PersistentVolumeSpec(nfs=NFSVolumeSource(server="files", path="/")),
    "kubernetes.io/rbd": PersistentVolumeSpec(rbd=RBDVolumeSource(monitors=("10.0.0.1",), image="i")),
    "kubernetes.io/fc": PersistentVolumeSpec(fc=FCVolumeSource(wwids=("3600508b400105e210000900000490000",))),
}
"""A volume for one node, of each plugin that attaches."""
NOTHING = "-"
FINDERS = ("kubernetes.io/csi", "kubernetes.io/flexvolume")
"""What they can do, their drivers say."""


def bundled() -> dict[str, VolumePlugin]:
    """The plugins that come with Mooring, by name."""
    found = load_plugins(ControllerVolumeHost(wall_clock))
    assert not found.errors, found.errors
    plugins = {each.get_plugin_name(): each for each in found.plugins}
    return {name: each for name, each in sorted(plugins.items()) if _is_ours(each) and name not in FINDERS}


def table() -> str:
    """As docs/plugins.md has it."""
    rows = (row(name, each) for name, each in bundled().items())
    lines = [HEAD, ("---",) * len(HEAD), *(each for each in rows if {*each[1:]} != {NOTHING})]
    return "".join(f"| {' | '.join(line)} |\n" for line in lines)


def row(name: str, plugin: VolumePlugin) -> tuple[str, ...]:
    """What one plugin declares."""
    grows = [
        where
        for kind, where in ((ExpandableVolumePlugin, "storage"), (NodeExpandableVolumePlugin, "node"))
        if isinstance(plugin, kind)
    ]
    return (
        f"`{name}`",
        _attached(name, plugin),
        _yes(isinstance(plugin, DeviceMountableVolumePlugin) and not isinstance(plugin, GrantedSharePlugin)),
        _yes(isinstance(plugin, BlockVolumePlugin)),
        ", ".join(grows) or NOTHING,
        _yes(isinstance(plugin, SnapshottableVolumePlugin)),
        _yes(isinstance(plugin, ProvisionableVolumePlugin)),
        _yes(isinstance(plugin, RecyclableVolumePlugin)),
    )


def _attached(name: str, plugin: VolumePlugin) -> str:
    """And what its storage does about a second node, and about one that has lost the volume."""
    if not isinstance(plugin, AttachableVolumePlugin):
        return NOTHING
    source = EXCLUSIVE[name]
    held = PersistentVolumeSpec(
        access_modes=("ReadWriteOnce",),
        iscsi=source.iscsi,
        fc=source.fc,
        flex_volume=source.flex_volume,
    )
    spec = VolumeSpec.of_persistent_volume(PersistentVolume(metadata=ObjectMeta(name="pv"), spec=held))
    declared = plugin.capabilities(spec)
    words = ["refuses a second node" if declared.refuses else "under the lock"]
    return ", ".join([*words, *(["revokes"] if declared.revokes else [])])


def _is_ours(plugin: VolumePlugin) -> bool:
    return type(plugin).__module__.startswith("mooring.")


def _yes(has: bool) -> str:
    return "yes" if has else NOTHING


def page_with(made: str) -> str:
    """The page with this table."""
    text = PAGE.read_text()
    before, _, rest = text.partition(BEGIN)
    return before + BEGIN + made + END + rest.partition(END)[2]


if __name__ == "__main__":
    PAGE.write_text(page_with(table()))
