"""The proposal's "Storage Consistency" on two machines and a real iSCSI server: its fifteen steps, each seen
in the API.

Both machines reach the server, which would let both write. What keeps the second out is the lock on the
PersistentVolume.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from standing_cluster import standing
from tests.machines.iscsi import need_iscsi, server_of, volume
from tests.machines.machines import back_after, boot_of, inside, order
from tests.machines.pods import gone, pod, running, told

from mooring.cluster.stage import Stage
from mooring.kube.objects import Node, PersistentVolume, Pod, VolumeAttachment
from mooring.kube.objects.fencing import FencePolicy, NodeFence
from mooring.volumes.attachment_lock import Lock, epoch_of, lock_of

pytestmark = [pytest.mark.root, pytest.mark.timeout(400)]

CLUSTER = {"storagecluster": "iscsi-1"}
REACHED_FROM = {
    "required": {
        "nodeSelectorTerms": [
            {"matchExpressions": [{"key": "storagecluster", "operator": "In", "values": ["iscsi-1"]}]}
        ]
    }
}
WRITES = """
trap 'sleep 4; exit 0' TERM
touch /data/records
echo "found $(tail -n 1 /data/records)"
while true; do
  n=$(($(wc -l < /data/records) + 1))
  echo "$n $(hostname)" >> /data/records
  sync -d /data/records
  echo "wrote $n"
  sleep 0.2
done
"""


@pytest.fixture(scope="session", autouse=True)
def _installed() -> None:
    need_iscsi()


@pytest.fixture
async def stage(data_dir: Path) -> AsyncIterator[Stage]:
    """Two machines that reach the server, and a node that does not. Lost nodes are fenced."""
    kinds = ("--machines", "uml=2,namespace=1", "--fencing")
    flags = (*kinds, "--port", "0", "--node-monitor-grace-period", "8")
    async with standing(data_dir, *flags, nodes=3) as stage:
        yield stage


async def lock(stage: Stage) -> Lock:
    return lock_of(await stage.client.get(PersistentVolume, "data"))


async def attachments(stage: Stage) -> list[tuple[str, int, bool]]:
    """By node: the epoch under which it was made, and whether it says attached."""
    found = (await stage.client.list(VolumeAttachment)).items
    return [(each.spec.node_name, epoch_of(each), each.status.attached) for each in found]


async def node_of(stage: Stage, name: str) -> str:
    async def bound() -> str:
        return (await stage.client.get(Pod, name, "default")).spec.node_name

    found: str = await stage.until(f"pod {name} is scheduled", bound)
    return found


async def holds(stage: Stage, node: str) -> bool:
    """Whether the machine has logged in."""
    return await inside(stage, "ls /sys/class/iscsi_session 2> /dev/null; true", node) != ""


async def printed(stage: Stage, name: str, words: str) -> str:
    """Waits until the pod has printed a line with these words; that line."""
    live = await stage.client.get(Pod, name, "default")

    async def line() -> str:
        text = await stage.logs(live.spec.node_name, live.uid, "main") or ""
        return next((each for each in text.splitlines() if words in each), "")

    found: str = await stage.until(f"pod {name} says: {words}", line)
    return found


async def test_the_fifteen_steps(stage: Stage) -> None:
    server = await server_of(stage)
    for node in ("node-1", "node-2"):
        await stage.client.patch(Node, node, {"metadata": {"labels": CLUSTER}})

    # 1, 2: an exclusive volume for the nodes that reach it, and a claim that has it.
    await volume(stage, "data", server, 1, affinity=REACHED_FROM)
    # 3, 4: a pod goes to one of those nodes.
    await pod(stage, "one", "", WRITES, grace_s=20, data="data")
    first = await node_of(stage, "one")
    assert first in ("node-1", "node-2")
    second = "node-2" if first == "node-1" else "node-1"
    # 5 to 7: the node waits, the controller swaps the lock to node and pod, then the pod runs.
    await running(stage, "one")
    await printed(stage, "one", "wrote")
    held = await lock(stage)
    assert (held.node, held.pod) == (first, "default/one")
    epoch = held.epoch
    assert await attachments(stage) == [(first, epoch, True)]

    # 8 to 11: the pod is ended; another one, on the other node, waits while the first still writes.
    await stage.client.delete(Pod, "one", "default")
    await pod(stage, "two", second, WRITES, data="data")
    await told(stage, "two", "Multi-Attach")
    assert await attachments(stage) == [(first, epoch, True)]
    assert not await holds(stage, second)
    # 12 to 15: the first node unmounts, the controller grants the volume to the second, the pod runs.
    await running(stage, "two")
    held = await lock(stage)
    assert (held.epoch, held.node, held.pod) == (epoch + 1, second, "default/two")
    assert await attachments(stage) == [(second, epoch + 1, True)]
    assert not await holds(stage, first)
    assert (await printed(stage, "two", "found")).endswith(" one")

    # The other order of the two agents: the volume is granted before the second one looks.
    agent = "pgrep -f 'agent .*--name {}' | head -n 1".format
    stopped = await inside(stage, agent(first), first)
    await inside(stage, f"kill -STOP {stopped}", first)
    await pod(stage, "three", first, WRITES, data="data")
    await gone(stage, "two")

    async def granted() -> bool:
        return (first, epoch + 2, True) in await attachments(stage)

    await stage.until("the volume is granted to the node that does not look", granted)
    assert not await holds(stage, first)
    await inside(stage, f"kill -CONT {stopped}", first)
    await running(stage, "three")
    assert await attachments(stage) == [(first, epoch + 2, True)]
    await gone(stage, "three")


async def test_a_partitioned_node_is_shut_out_by_the_server_and_the_volume_goes_on_elsewhere(
    stage: Stage,
) -> None:
    """A partition within the steps: no device switches the first node off, the storage alone is asked."""
    server = await server_of(stage)
    told_of = {"detectors": [{"type": "Ready"}], "ladder": [{"mechanism": "iscsi-disks"}]}
    await stage.client.patch(FencePolicy, "default", {"spec": told_of})
    await volume(stage, "data", server, 1)
    await pod(stage, "one", "node-1", WRITES, data="data")
    await running(stage, "one")
    first = await stage.client.get(Pod, "one", "default")
    await printed(stage, "one", "wrote")

    # It goes on writing behind the partition, while it is to end and another pod waits.
    await order(stage, "cut", "node-1", "--from", "api")
    await stage.client.delete(Pod, "one", "default")
    await pod(stage, "two", "node-2", WRITES, data="data")
    await told(stage, "two", "Multi-Attach")
    before = await last(stage, first)

    async def more() -> bool:
        return await last(stage, first) > before

    await stage.until("the first node writes on", more)
    await running(stage, "two")
    fence = await fence_of(stage, "node-1")
    (attempt,) = fence.status.attempts
    assert (attempt.mechanism, attempt.scope, attempt.outcome) == ("iscsi-disks", "Storage", "Fenced")
    assert list(attempt.volumes.values()) == ["data"]
    held = await lock(stage)
    assert (held.node, held.pod) == ("node-2", "default/two")
    assert [node for node, _, attached in await attachments(stage) if attached] == ["node-2"]

    # All that the first node had confirmed is there, and it confirms nothing more.
    confirmed = await last(stage, first)
    found = int((await printed(stage, "two", "found")).split("found ")[1].split()[0])
    assert found >= confirmed
    await printed(stage, "two", f"wrote {found + 5}")
    assert await last(stage, first) == confirmed
    assert stage.has_power("node-1"), "nothing has switched it off"
    one = await stage.client.get(Pod, "one", "default")
    assert one.uid == first.uid, "its process may run still: the pod stays"

    # Its network comes back, in the same boot: it stays shut out, with what it had not written.
    await order(stage, "heal", "node-1")

    async def answers() -> bool:
        return (await stage.client.get(Node, "node-1")).ready == "True"

    await stage.until("the first node answers", answers)
    await printed(stage, "two", f"wrote {found + 20}")
    assert (await fence_of(stage, "node-1")).status.phase == "Fenced"
    status, _ = await stage.run_in(
        "node-1", f"iscsiadm -m discovery -t st -p {server['address']} | grep {server['target']}"
    )
    assert status != 0

    # Another boot is let in.
    boot = await boot_of(stage, "node-1")
    await order(stage, "kill", "node-1")
    await order(stage, "start", "node-1")
    await back_after(stage, boot, "node-1")

    async def free() -> bool:
        return (await fence_of(stage, "node-1")).status.phase == "Unfenced"

    await stage.until("the fence is over", free)
    await gone(stage, "two")
    await inside(stage, server["commands"]["prepare"], "node-1")
    await pod(stage, "three", "node-1", WRITES, data="data")
    await running(stage, "three")
    assert (await printed(stage, "three", "found")).endswith(" two")


async def last(stage: Stage, live: Pod) -> int:
    """The last record of which the pod has said that it is written."""
    text = await stage.logs(live.spec.node_name, live.uid, "main") or ""
    return max((int(each.rsplit(" ", 1)[1]) for each in text.splitlines() if "wrote " in each), default=0)


async def fence_of(stage: Stage, node: str) -> NodeFence:
    (fence,) = [each for each in (await stage.client.list(NodeFence)).items if each.spec.node_name == node]
    return fence
