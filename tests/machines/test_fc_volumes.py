"""Disks of the kind that Fibre Channel shows, on machines with a kernel of their own: real SCSI disks with
real names (page 83h), by two paths, of the kernel's own target (tcm_loop).

No kernel here has a host adapter of Fibre Channel, real or made up: volumes are found by `wwids`. What ports
show is played (`tests/volumes/plugins/fc`).
"""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from tests.machines.example_files import applied, says
from tests.machines.machines import inside
from tests.machines.paths import EXPANDABLE, expandable_class, grown, paths_of, with_multipath
from tests.machines.pods import ended, gone, pod, running, told

from mooring.cluster.stage import Stage
from mooring.kube.objects import PersistentVolume, PersistentVolumeClaim

pytestmark = [pytest.mark.root, pytest.mark.timeout(400), pytest.mark.soak]

ONE = "node-1"
WWID = "36001405{}"  # LIO's, made of the serial number
SERIALS = {"data": "1" * 25, "raw": "2" * 25}
BYTES = 64 << 20

TARGETS = f"""
set -e
modprobe target_core_file && modprobe tcm_loop && modprobe sd_mod && modprobe loop
test -d /sys/kernel/config/target || mount -t configfs none /sys/kernel/config
cd /sys/kernel/config/target
for disk in {" ".join(f"{name}:{serial}" for name, serial in SERIALS.items())}; do
  name=${{disk%:*}}
  truncate -s {BYTES} /run/$name.img
  loop=$(losetup -f --show /run/$name.img)
  ln -s $loop /run/$name.loop
  mkdir -p core/fileio_0/$name
  echo fd_dev_name=$loop,fd_dev_size={BYTES} > core/fileio_0/$name/control
  echo ${{disk#*:}} > core/fileio_0/$name/wwn/vpd_unit_serial
  echo 1 > core/fileio_0/$name/enable
done
for port in 1 2; do
  at=loopback/fc.50060e801049cfd$port/tpgt_1
  mkdir -p $at/lun/lun_0 $at/lun/lun_1
  echo fc.50060e801049cfe$port > $at/nexus
  ln -s $PWD/core/fileio_0/data $at/lun/lun_0/x
  ln -s $PWD/core/fileio_0/raw $at/lun/lun_1/x
done
"""
SHOWN = "cat /sys/class/scsi_device/*/device/wwid 2> /dev/null | sort; true"


async def volume(
    stage: Stage,
    name: str,
    serial: str,
    mode: str = "Filesystem",
    storage_class: str = "",
    access: str = "ReadWriteOnce",
    **fc: str,
) -> None:
    """A PersistentVolume, and the claim of that name that has it."""
    spec = {"accessModes": [access], "storageClassName": storage_class, "volumeMode": mode}
    source = {"wwids": [WWID.format(serial)], **fc}
    pv_spec = {**spec, "capacity": {"storage": "64Mi"}, "fc": source}
    await stage.client.create(PersistentVolume, {"metadata": {"name": name}, "spec": pv_spec})
    claim = {**spec, "volumeName": name, "resources": {"requests": {"storage": "64Mi"}}}
    await stage.client.create(PersistentVolumeClaim, {"metadata": {"name": name}, "spec": claim}, "default")


async def dropped(stage: Stage, serial: str) -> None:
    """Waits until no path to the disk is left on the machine."""

    async def nothing() -> bool:
        return serial not in await inside(stage, SHOWN)

    await stage.until("the disk is dropped", nothing, patience=60)


async def test_a_disk_comes_and_goes_with_its_pods(stage: Stage, data_dir: Path) -> None:
    await inside(stage, TARGETS)
    assert (await inside(stage, SHOWN)).count(SERIALS["data"]) == 2
    await volume(stage, "data", SERIALS["data"])
    await pod(stage, "writer", ONE, "echo written > /data/file && sync", data="data")
    await ended(stage, "writer")
    await dropped(stage, SERIALS["data"])
    assert SERIALS["raw"] in await inside(stage, SHOWN)

    # It is looked for again, and has what was written.
    await pod(stage, "reader", ONE, "cat /data/file", data="data")
    assert await ended(stage, "reader") == "written"
    await dropped(stage, SERIALS["data"])

    # A raw device.
    await volume(stage, "raw", SERIALS["raw"], mode="Block")
    await pod(
        stage, "raw", ONE, "printf raw | dd of=/dev/xraw conv=fsync 2> /dev/null", block=True, raw="raw"
    )
    await ended(stage, "raw")
    await dropped(stage, SERIALS["raw"])
    assert await inside(stage, "head -c 3 /run/raw.img") == "raw"

    # A disk that the machine uses by its other path is not given to pods, and stays.
    await inside(stage, "for host in /sys/class/scsi_host/host*; do echo - - - > $host/scan; done")
    second = f"$(grep -l {SERIALS['data']} /sys/class/scsi_device/*/device/wwid | tail -n 1 | xargs dirname)"
    await inside(stage, f"mkdir /mnt-fc && mount /dev/$(ls {second}/block) /mnt-fc")
    await pod(stage, "taken", ONE, "true", data="data")
    await told(stage, "taken", "is mounted or claimed")
    await gone(stage, "taken")
    assert (await inside(stage, SHOWN)).count(SERIALS["data"]) == 2
    await inside(stage, "umount /mnt-fc")

    # The agent is killed while the volume is mounted: the next one unmounts and drops the disk.
    await pod(stage, "holder", ONE, "trap 'exit 0' TERM; sleep 1000 & wait", data="data")
    await running(stage, "holder")
    agent = "pgrep -f 'agent .*--name node-1' | head -n 1"
    before = await inside(stage, agent)
    await inside(stage, f"kill -9 {before}")

    async def again() -> bool:
        return await inside(stage, agent) not in ("", before)

    await stage.until("the agent is back", again, patience=60)
    await gone(stage, "holder")
    await dropped(stage, SERIALS["data"])

    # Another file system than what is there: the pod waits, and the disk keeps what it has.
    await volume(stage, "other", SERIALS["data"], access="ReadOnlyMany", fsType="xfs")
    await pod(stage, "wrong", ONE, "true", data="other")
    await told(stage, "wrong", "ext4")
    await gone(stage, "wrong")
    await dropped(stage, SERIALS["data"])
    await pod(stage, "reader", ONE, "cat /data/file", data="data")
    assert await ended(stage, "reader") == "written"


HELD = "touch /data/file && trap 'exit 0' TERM; sleep 1000 & wait"


LARGER = f"truncate -s {2 * BYTES} /run/data.img && losetup -c $(readlink /run/data.loop)"


@pytest.mark.skipif("MOORING_SOAK" not in os.environ, reason="a minute: `make soak` plays it")
async def test_a_mounted_disk_grows_by_all_its_paths(stage: Stage, data_dir: Path) -> None:
    await inside(stage, TARGETS)
    multipath = await with_multipath(stage, ONE)
    if multipath:
        await paths_of(stage, ONE, paths=2)
    await expandable_class(stage)
    await volume(stage, "data", SERIALS["data"], storage_class=EXPANDABLE)
    await pod(stage, "holder", ONE, HELD, data="data")
    await running(stage, "holder")
    device = await inside(stage, "findmnt -rno SOURCE | grep -m 1 -E '^/dev/(sd|dm-|mapper)'")
    assert ("/dev/sd" in device) != multipath, device
    before = int(await inside(stage, f"findmnt -rbno SIZE {device} | head -n 1"))
    await inside(stage, LARGER)
    await grown(stage, "data", "128Mi")
    after = int(await inside(stage, f"findmnt -rbno SIZE {device} | head -n 1"))
    assert after > 1.8 * before
    await gone(stage, "holder")
    await dropped(stage, SERIALS["data"])
    if multipath:
        left = await inside(stage, "cat /sys/block/dm-*/dm/uuid 2> /dev/null; true")
        assert SERIALS["data"] not in left
        assert SERIALS["raw"] in left
    await pod(stage, "reader", ONE, "ls /data", data="data")
    assert "file" in await ended(stage, "reader")


async def test_the_example_is_played_with_the_disks_own_name(
    stage: Stage, data_dir: Path, tmp_path: Path
) -> None:
    await inside(stage, TARGETS)
    ports = "targetWWNs: [50060e801049cfd1, 50060e801049cfd2]\n    lun: 0\n"
    named = f'wwids: ["{WWID.format(SERIALS["data"])}"]\n'
    here = "metadata:\n  name: fc-writer\n  labels: {app: fc}\nspec:\n"
    chosen = f"{here}  nodeSelector: {{kubernetes.io/hostname: {ONE}}}\n"  # the other one has no such disk
    await applied(stage, "fc.yaml", tmp_path, {ports: named, here: chosen})
    await says(stage, "fc-writer", "written")
