"""Persistent reservations beside the lock, on two machines and a real iSCSI server: a node that was declared
dead, and is not, can write no more when the next one has the volume, though the server's list lets it in
still; and what that does not promise."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.machines.iscsi import ONE, TWO, need_iscsi, server_of, volume
from tests.machines.machines import inside, order, silent
from tests.machines.pods import gone, pod, running, told

from mooring.cluster.stage import Stage
from mooring.fence.storage.reservations import keys, own_key
from mooring.kube.objects import PersistentVolume, Pod
from mooring.volumes.attachment_lock import lock_of
from mooring.volumes.plugins.scsi.reservations import PERSISTENT_RESERVATION

pytestmark = [pytest.mark.root, pytest.mark.timeout(600), pytest.mark.soak]

WRITES = """
trap 'exit 0' TERM
n=0
while true; do
  n=$((n + 1))
  echo "$n $POD" >> /data/records && sync -d /data/records && echo "wrote $n"
  sleep 0.2
done
"""
DISK = "/dev/$(ls /sys/class/iscsi_session/*/device/target*/*:*:*:1/block)"
REGISTER = f"sg_persist --out --register-ignore --param-sark=0xbad {DISK}"


@pytest.fixture(scope="session", autouse=True)
def _installed() -> None:
    need_iscsi()


async def started(stage: Stage, name: str, node: str) -> Pod:
    await pod(stage, name, node, f"POD={name}\n{WRITES}", data="data")
    await running(stage, name)
    return await stage.client.get(Pod, name, "default")


async def last(stage: Stage, live: Pod) -> int:
    """The last record of which the pod has said that it is written."""
    text = await stage.logs(live.spec.node_name, live.uid, "main") or ""
    return max((int(each.rsplit(" ", 1)[1]) for each in text.splitlines() if "wrote " in each), default=0)


async def written(stage: Stage, live: Pod, count: int) -> None:
    async def so_many() -> bool:
        return await last(stage, live) >= count

    await stage.until(f"{live.name} has written {count} records", so_many)


async def key(stage: Stage, node: str) -> int:
    """That of the node and the grant that holds now."""
    pv = await stage.client.get(PersistentVolume, "data")
    lock = lock_of(pv)
    assert lock.node == node
    return own_key(node, f"{pv.uid} {lock.epoch}")


async def registered(stage: Stage, node: str) -> set[int]:
    return keys(await inside(stage, f"sg_persist --in --read-keys {DISK}", node))


async def writes(stage: Stage, node: str) -> bool:
    """Whether the machine can write to the disk: zeros to its last sector, where no file is."""
    last_sector = f"seek=$(($(blockdev --getsz {DISK}) - 1))"
    write = f"timeout 20 dd if=/dev/zero of={DISK} bs=512 count=1 {last_sector} oflag=direct conv=notrunc"
    # The first order after a change says so, and does nothing else.
    return (await stage.run_in(node, f"{write} || {write}"))[0] == 0


async def test_a_node_whose_key_was_preempted_writes_no_more(stage: Stage, data_dir: Path) -> None:
    server = await server_of(stage)
    await volume(stage, "data", server, 1, annotations={PERSISTENT_RESERVATION: "true"})
    one = await started(stage, "one", ONE)
    await written(stage, one, 3)
    first = await key(stage, ONE)
    assert await registered(stage, ONE) == {first}
    assert await writes(stage, ONE)

    # A hand-over leaves no key: what the first node's agent has registered it takes back.
    await gone(stage, "one")
    two = await started(stage, "two", TWO)
    assert await registered(stage, TWO) == {await key(stage, TWO)}
    await gone(stage, "two")
    one = await started(stage, "one", ONE)
    first = await key(stage, ONE)
    assert await registered(stage, ONE) == {first}

    # Declared dead, and not: its pod writes on, and the server's list lets it in.
    await order(stage, "cut", ONE, "--from", "api")
    await silent(stage)
    await written(stage, one, await last(stage, one) + 3)
    await order(stage, "confirm-dead", ONE)
    two = await started(stage, "two", TWO)
    second = await key(stage, TWO)
    assert await registered(stage, TWO) == {second}
    confirmed = await last(stage, one)
    await written(stage, two, 10)
    assert await last(stage, one) <= confirmed + 1, "it was about to say so of the last record"
    assert not await writes(stage, ONE)
    assert await writes(stage, TWO)

    # What a reservation does not promise: a node that registers again writes again, as long as it is let in.
    await inside(stage, f"{REGISTER} || {REGISTER}", ONE)
    assert await writes(stage, ONE)
    # With the list shut first it can neither write nor register, and the next grant takes its key away.
    status, answer = await stage.command("storage", "shut-out", "disks", ONE)
    assert status == 0, answer
    assert not await writes(stage, ONE)
    assert (await stage.run_in(ONE, f"timeout 20 {REGISTER}"))[0] != 0
    await gone(stage, "two")
    three = await started(stage, "three", TWO)
    assert await registered(stage, TWO) == {await key(stage, TWO)}
    await written(stage, three, 5)
    assert not await writes(stage, ONE)
    await gone(stage, "three")


async def test_a_volume_that_no_lock_grants_cannot_be_reserved(stage: Stage, data_dir: Path) -> None:
    server = await server_of(stage)
    shared = {"accessModes": ["ReadOnlyMany"], "annotations": {PERSISTENT_RESERVATION: "true"}}
    await volume(stage, "data", server, 1, **shared)
    await pod(stage, "one", ONE, "true", data="data")
    await told(stage, "one", "leave the lock switched on")
    await gone(stage, "one")
