"""iSCSI disks of several paths on machines: portals of both address families, a node's own name for one
volume, multipath devices, and a disk that grows while it is mounted. The target is the kernel's own (LIO), on
the second machine.
"""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from tests.machines.iscsi import ONE, TWO, need_iscsi, volume
from tests.machines.machines import inside
from tests.machines.paths import EXPANDABLE, expandable_class, grown, paths_of, with_multipath
from tests.machines.pods import gone, pod, running, told

from mooring.cluster.stage import Stage
from mooring.kube.objects import Pod

soak = pytest.mark.skipif("MOORING_SOAK" not in os.environ, reason="a minute: `make soak` plays it")
pytestmark = [pytest.mark.root, pytest.mark.timeout(400), pytest.mark.soak]

TARGET, WEB = "iqn.2026-01.dev.mooring:lio", "iqn.2026-01.dev.mooring:web"
V4, SECOND, V6 = "10.88.2.1:3260", "10.88.2.250:3260", "[fd00:88::2]:3260"
BYTES = 64 << 20
SERVED = f"""
set -e
modprobe -a iscsi_target_mod target_core_file loop ipv6
test -d /sys/kernel/config/target || mount -t configfs none /sys/kernel/config
ip address add 10.88.2.250/32 dev mooring0
ip address add fd00:88::2/64 dev mooring0 nodad
cd /sys/kernel/config/target
truncate -s {BYTES} /run/data.img
loop=$(losetup -f --show /run/data.img)
ln -s $loop /run/data.loop
mkdir -p core/fileio_0/data
echo fd_dev_name=$loop,fd_dev_size={BYTES} > core/fileio_0/data/control
echo 1111111111111111111111111 > core/fileio_0/data/wwn/vpd_unit_serial
echo 1 > core/fileio_0/data/enable
at=iscsi/{TARGET}/tpgt_1
mkdir -p $at/lun/lun_0
for portal in {V4} {SECOND} '{V6}'; do mkdir -p "$at/np/$portal"; done
ln -s $PWD/core/fileio_0/data $at/lun/lun_0/x
echo 0 > $at/attrib/authentication
echo 1 > $at/enable
"""
EVERY_NAME = (
    f"cd /sys/kernel/config/target/iscsi/{TARGET}/tpgt_1/attrib && echo 0 > demo_mode_write_protect && \
echo 1 > generate_node_acls"
)
ONE_NAME = f"cd /sys/kernel/config/target/iscsi/{TARGET}/tpgt_1 && mkdir -p acls/{WEB}/lun_0 && \
ln -s $PWD/lun/lun_0 acls/{WEB}/lun_0/x && echo 0 > acls/{WEB}/lun_0/write_protect"
PREPARED = "modprobe -a iscsi_tcp sd_mod ipv6 && mkdir -p /run/lock/iscsi && \
ip address add fd00:88::1/64 dev mooring0 nodad && { pidof iscsid > /dev/null || iscsid; }"
LARGER = f"truncate -s {2 * BYTES} /run/data.img && losetup -c $(readlink /run/data.loop)"
PORTALS = "cat /sys/class/iscsi_connection/*/persistent_address 2> /dev/null | sort; true"
NAMES = "cat /sys/class/iscsi_session/*/initiatorname 2> /dev/null | sort -u; true"
WRITES = """
trap 'exit 0' TERM
n=0
while true; do n=$((n + 1)); echo $n >> /data/log; sync -d /data/log; echo "wrote $n"; sleep 0.2; done
"""


@pytest.fixture(scope="session", autouse=True)
def _installed() -> None:
    need_iscsi()


async def served(stage: Stage, access: str) -> dict[str, str]:
    await inside(stage, f"{SERVED}\n{access}", TWO)
    await inside(stage, PREPARED, ONE)
    return {"address": V4, "target": TARGET}


async def wrote(stage: Stage, name: str) -> int:
    """The last record of which the pod has said that it is on the disk."""
    live = await stage.client.get(Pod, name, "default")
    text = await stage.logs(live.spec.node_name, live.uid, "main") or ""
    return max((int(each.rsplit(" ", 1)[1]) for each in text.splitlines() if "wrote " in each), default=0)


async def more(stage: Stage, name: str, than: int) -> None:
    """Waits until the pod has written ten more."""

    async def has() -> bool:
        return await wrote(stage, name) >= than + 10

    await stage.until(f"pod {name} writes on", has, patience=120)


async def logged_out(stage: Stage) -> None:
    async def nothing() -> bool:
        records = "/etc/iscsi/nodes/*/* /var/lib/iscsi/*/* /etc/iscsi/ifaces/* /sys/block/dm-*/dm"
        return not await inside(stage, f"ls -d /sys/class/iscsi_session/* {records} 2> /dev/null; true", ONE)

    await stage.until("node-1 is logged out, and no record is left", nothing, patience=60)


async def size_of(stage: Stage) -> int:
    """Of the file system that the pod's node has mounted, in bytes."""
    script = "findmnt -rbno SOURCE,SIZE | grep -m 1 -E '^/dev/(sd|dm-|mapper)' | cut -d ' ' -f 2"
    return int(await inside(stage, script, ONE))


@soak
async def test_ipv6_an_own_name_and_a_disk_that_grows_while_it_is_mounted(
    stage: Stage, data_dir: Path
) -> None:
    server = await served(stage, ONE_NAME)
    await expandable_class(stage)

    # The target knows the node by the volume's name for it alone.
    await volume(stage, "refused", server, 0, iscsi={"targetPortal": SECOND})
    await pod(stage, "refused", ONE, "true", data="refused")
    await told(stage, "refused", "target")
    await gone(stage, "refused")
    named = {"targetPortal": V6, "initiatorName": WEB}
    await volume(stage, "data", server, 0, iscsi=named, storageClassName=EXPANDABLE)
    await pod(stage, "one", ONE, WRITES, data="data")
    await running(stage, "one")
    assert await inside(stage, PORTALS, ONE) == "fd00:88::2"
    assert await inside(stage, NAMES, ONE) == WEB

    # It grows at the target, then for the claim, while the pod writes.
    before = await size_of(stage)
    await inside(stage, LARGER, TWO)
    await grown(stage, "data", "128Mi")
    assert await size_of(stage) > 1.8 * before
    await more(stage, "one", await wrote(stage, "one"))
    count = await wrote(stage, "one")
    await gone(stage, "one")
    await logged_out(stage)
    await pod(stage, "two", ONE, f"[ $(wc -l < /data/log) -ge {count} ] && sleep 1000", data="data")
    await running(stage, "two")
    assert await size_of(stage) > 1.8 * before
    await gone(stage, "two")
    await logged_out(stage)


@soak
async def test_without_multipath_one_path_is_used_and_the_others_are_there(
    stage: Stage, data_dir: Path
) -> None:
    server = await served(stage, EVERY_NAME)
    await volume(stage, "data", server, 0, iscsi={"portals": [SECOND, V6, "10.88.2.251:3260"]})
    await pod(stage, "one", ONE, WRITES, data="data")
    await running(stage, "one")
    assert await inside(stage, PORTALS, ONE) == "\n".join(["10.88.2.1", "10.88.2.250", "fd00:88::2"])
    assert (await inside(stage, "findmnt -rno SOURCE | grep -m 1 ^/dev/sd", ONE)).startswith("/dev/sd")
    await more(stage, "one", 0)
    await gone(stage, "one")
    await logged_out(stage)


@soak
async def test_a_path_that_is_lost_does_not_stop_a_multipath_device_and_it_grows(
    stage: Stage, data_dir: Path
) -> None:
    server = await served(stage, EVERY_NAME)
    if not await with_multipath(stage, ONE):
        pytest.skip("needs multipathd: apt-get install multipath-tools")
    await expandable_class(stage)
    portals = {"portals": [SECOND, V6]}
    await volume(stage, "data", server, 0, iscsi=portals, storageClassName=EXPANDABLE)
    await pod(stage, "one", ONE, WRITES, data="data")
    await running(stage, "one")
    await paths_of(stage, ONE, paths=3)
    assert "dm-" in await inside(
        stage, "findmnt -rno SOURCE | grep -E '^/dev/(dm-|mapper)' | xargs readlink -f", ONE
    )
    before = await size_of(stage)
    await inside(stage, LARGER, TWO)
    await grown(stage, "data", "128Mi")
    assert await size_of(stage) > 1.8 * before

    # The addresses of two portals go: what is written goes by the third.
    await inside(stage, "ip address delete 10.88.2.250/32 dev mooring0", TWO)
    await inside(stage, "ip address delete fd00:88::2/64 dev mooring0", TWO)
    await more(stage, "one", await wrote(stage, "one"))
    await more(stage, "one", await wrote(stage, "one"))
    for address in ("10.88.2.250/32", "fd00:88::2/64 nodad"):
        await inside(stage, f"ip address add {address} dev mooring0", TWO)
    await more(stage, "one", await wrote(stage, "one"))
    await gone(stage, "one")
    await logged_out(stage)
