"""Disks of several paths on machines: multipath devices; and disks that grow while they are mounted."""

from __future__ import annotations

from tests.machines.machines import inside

from mooring.cluster.stage import Stage
from mooring.kube.objects import PersistentVolume, PersistentVolumeClaim, StorageClass

EXPANDABLE = "lun"

_MULTIPATH = """
set -e
modprobe dm-mod && modprobe dm-multipath && modprobe dm-service-time
printf 'defaults {\\n find_multipaths no\\n user_friendly_names no\\n}\\n' > /etc/multipath.conf
mkdir -p /run/udev && { pidof systemd-udevd > /dev/null || /lib/systemd/systemd-udevd --daemon 2> /dev/null; }
udevadm trigger && udevadm settle -t 20
multipathd
"""


async def with_multipath(stage: Stage, node: str) -> bool:
    """Has the machine make multipath devices; False where the host has no multipathd."""
    if not await inside(stage, "command -v multipathd || true", node):
        return False
    await inside(stage, _MULTIPATH, node)
    return True


async def paths_of(stage: Stage, node: str, *, paths: int) -> None:
    """Waits until the machine has a multipath device of so many paths."""

    async def made() -> bool:
        return (await inside(stage, "ls /sys/block/dm-0/slaves 2> /dev/null | wc -l", node)) == str(paths)

    await stage.until(f"the multipath device has {paths} paths", made, patience=60)


async def expandable_class(stage: Stage) -> None:
    """A class whose claims may grow."""
    body = {"metadata": {"name": EXPANDABLE}, "provisioner": "kubernetes.io/no-provisioner"}
    await stage.client.create(StorageClass, {**body, "allowVolumeExpansion": True})


async def grown(stage: Stage, name: str, to: str) -> None:
    """PersistentVolume and claim are to have that size, which the storage's disk has; waits until they do."""
    size = {"storage": to}
    await stage.client.patch(PersistentVolume, name, {"spec": {"capacity": size}})
    wanted = {"spec": {"resources": {"requests": size}}}
    await stage.client.patch(PersistentVolumeClaim, name, wanted, "default")

    async def has() -> bool:
        live = await stage.client.get(PersistentVolumeClaim, name, "default")
        return live.status.capacity.get("storage") == to

    await stage.until("the claim has grown", has, patience=90)
