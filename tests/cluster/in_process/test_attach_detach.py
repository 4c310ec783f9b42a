"""Storage that does not refuse a second node, nodes that attach for themselves, and statements about lost
nodes."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
from in_process_cluster import InProcessCluster, loses_power

from mooring.cluster.break_attachment import break_attachment
from mooring.cluster.confirm_dead import confirm
from mooring.cluster.layout import ClusterError
from mooring.kube.client import Client
from mooring.kube.objects import Node, PersistentVolume, Pod, VolumeAttachment
from mooring.node.registration import AttachingKindChanged
from mooring.node.volumes.manager import VolumeManager
from mooring.simulation.parts.array_plugin import DISK, Array, ArrayPlugin
from mooring.simulation.parts.faulty_transport import request
from mooring.volumes.attachment_lock import ATTACHED_TO, lock_of

Play = Callable[[Any], Any]
Patch = pytest.MonkeyPatch


class LaxArray(Array):
    """Attaches a disk to as many nodes as ask, as iSCSI, FC or NFS do. `nodes` is the truth."""

    def __init__(self) -> None:
        super().__init__()
        self.nodes: set[tuple[str, str]] = set()

    def _do_attach(self, disk: str, node: str) -> None:
        self.history.append(("attach", disk, node))
        self.nodes.add((disk, node))
        self.attached[disk] = node

    def _do_detach(self, disk: str, node: str) -> None:
        if (disk, node) in self.mounted:
            self.refused.append(("detach", disk, node))
        self.nodes.discard((disk, node))
        if self.attached.get(disk) == node:
            del self.attached[disk]


@pytest.fixture
def lax(monkeypatch: Patch) -> None:
    """The storage neither refuses nor revokes."""
    whole = ArrayPlugin.capabilities

    def neither(self: ArrayPlugin, spec: Any) -> Any:
        return replace(whole(self, spec), refuses=False, revokes=False, multi_attach=True)

    monkeypatch.setattr(ArrayPlugin, "capabilities", neither)
    monkeypatch.setattr("in_process_cluster.Array", LaxArray)


async def the_volume(cluster: InProcessCluster) -> PersistentVolume:
    (found,) = (await cluster.api.list(PersistentVolume)).items
    return found


# --- the lock, end to end


def test_a_volume_without_a_storage_lock_moves_under_the_lock_on_its_persistent_volume(play: Play, lax: None):
    async def story(cluster: InProcessCluster):
        await cluster.start()
        await cluster.claim("c")
        await cluster.create_pod("p", "c", nodeName="n0")
        await cluster.until(lambda: cluster.running("p"))
        lock = lock_of(await the_volume(cluster))
        assert (lock.node, lock.pod) == ("n0", "default/p")
        first = lock.epoch
        await cluster.create_pod("q", "c", nodeName="n1")
        await asyncio.sleep(60)
        assert cluster.array.mounted == {(next(iter(cluster.array.disks)), "n0")}
        await cluster.api.delete(Pod, "p", "default")
        await cluster.until(lambda: cluster.running("q"))
        assert [node for _, node in cluster.array.mounted] == ["n1"]
        lock = lock_of(await the_volume(cluster))
        assert (lock.epoch, lock.node, lock.pod) == (first + 1, "n1", "default/q")
        assert not cluster.array.refused

    play(story)


def test_a_locked_volume_of_a_lost_node_stays_until_somebody_breaks_it(play: Play, lax: None):
    async def story(cluster: InProcessCluster):
        node = await loses_power(cluster)
        await cluster.api.delete(Pod, "app-0", "default", grace_period_seconds=0)
        await asyncio.sleep(1000)
        assert not await cluster.running("app-0")
        name = (await the_volume(cluster)).name
        with pytest.raises(ClusterError, match="its content is lost"):
            await break_attachment(cluster.api, name, confirmed=False, by="me", now=cluster.now)
        output = await break_attachment(cluster.api, name, confirmed=True, by="me", now=cluster.now)
        assert f"node {node}" in output
        other = await cluster.until(lambda: cluster.running("app-0", other_than=node))
        lock = lock_of(await the_volume(cluster))
        assert (lock.node, list(lock.closed)) == (other, [node])
        assert await cluster.event("ForcedDetach", "broken on purpose: by me")
        cluster.machines[node].power_on()
        await cluster.until(lambda: cluster.all_ready(2))
        await cluster.drain(other)
        await cluster.until(lambda: cluster.running("app-0", on=node))
        assert lock_of(await the_volume(cluster)).closed == {}, "another boot"

    play(story)


def test_an_agent_that_was_cut_off_drops_its_old_mount_before_it_gets_the_volume_again(play: Play, lax: None):
    async def story(cluster: InProcessCluster):
        await cluster.start()
        await cluster.claim("c")
        await cluster.create_pod("p", "c", nodeName="n0")
        await cluster.until(lambda: cluster.running("p"))
        first = lock_of(await the_volume(cluster)).epoch
        cluster.machines["n0"].wire.down = True
        await cluster.until(lambda: unknown(cluster, "n0"))
        await cluster.api.delete(Pod, "p", "default", grace_period_seconds=0)
        name = (await the_volume(cluster)).name
        await break_attachment(cluster.api, name, confirmed=True, by="me", now=cluster.now)
        await cluster.until(lambda: no_records(cluster))
        forever = [
            {"key": f"node.kubernetes.io/{key}", "operator": "Exists"} for key in ("unreachable", "not-ready")
        ]
        await cluster.create_pod(
            "q", "c", nodeName="n0", tolerations=forever
        )  # waits there when the agent comes back
        await asyncio.sleep(30)
        assert await no_records(cluster)
        cluster.machines["n0"].wire.down = False
        await cluster.until(lambda: cluster.running("q"))
        lock = lock_of(await the_volume(cluster))
        assert (lock.node, lock.closed, lock.epoch) == ("n0", {}, first + 2)

    play(story)


async def unknown(cluster: InProcessCluster, node: str) -> bool:
    return (await cluster.api.get(Node, node)).ready == "Unknown"


async def no_records(cluster: InProcessCluster) -> bool:
    return not await cluster.records()


def test_a_pod_goes_where_its_volume_can_be_reached(play: Play, lax: None):
    async def story(cluster: InProcessCluster):
        await cluster.start()
        await cluster.api.patch(Node, "n1", {"metadata": {"labels": {"storagecluster": "iscsi-1"}}})
        cluster.array.disks.add("d")
        term = {"matchExpressions": [{"key": "storagecluster", "operator": "In", "values": ["iscsi-1"]}]}
        spec = {
            "capacity": {"storage": "1Gi"},
            "accessModes": ["ReadWriteOnce"],
            "storageClassName": "static",
            "nodeAffinity": {"required": {"nodeSelectorTerms": [term]}},
            "flexVolume": {"driver": DISK, "options": {"disk": "d"}},
        }
        await cluster.api.create(PersistentVolume, {"metadata": {"name": "pv"}, "spec": spec})
        await cluster.claim("c", "static")
        await cluster.create_pod("p", "c")
        assert await cluster.until(lambda: cluster.running("p")) == "n1"
        assert ATTACHED_TO in (await the_volume(cluster)).metadata.annotations

    play(story)


# --- nodes that attach for themselves


def test_a_node_that_attaches_for_itself_and_one_that_does_not_live_in_one_cluster(play: Play):
    async def story(cluster: InProcessCluster):
        cluster.machines["n0"].controller_attaches = False
        await cluster.start()
        await cluster.claim("c")
        await cluster.create_pod("p", "c", nodeName="n0")
        await cluster.until(lambda: cluster.running("p"))
        (disk,) = cluster.array.disks
        assert cluster.array.attached == {disk: "n0"}
        assert await no_records(cluster)
        await cluster.create_pod("q", "c", nodeName="n1")  # its storage refuses a second node
        await asyncio.sleep(30)
        await cluster.machines["n0"].agent_dies()
        cluster.machines["n0"].restart_agent()
        await cluster.until(lambda: cluster.running("p"))
        await cluster.api.delete(Pod, "p", "default")
        await cluster.until(lambda: cluster.running("q"))
        assert cluster.array.attached == {disk: "n1"}
        assert len(await cluster.records()) == 1
        assert not cluster.array.harms

    play(story)


def test_a_change_of_kind_is_refused_while_volumes_are_attached(play: Play):
    async def story(cluster: InProcessCluster):
        await cluster.start()
        await cluster.claim("c")
        await cluster.create_pod("p", "c", nodeName="n0")
        await cluster.until(lambda: cluster.running("p"))
        machine = cluster.machines["n0"]
        await machine.agent_dies()
        machine.controller_attaches = False
        with pytest.raises(AttachingKindChanged, match="drain it before"):
            await machine.agent(machine.wire).run(asyncio.Event())
        machine.controller_attaches = True
        machine.restart_agent()
        await cluster.api.delete(Pod, "p", "default")
        await cluster.until(lambda: no_records(cluster))
        await asyncio.sleep(5)
        await machine.agent_dies()
        machine.controller_attaches = False
        machine.restart_agent()
        await asyncio.sleep(5)
        await cluster.create_pod("p", "c", nodeName="n0")
        await cluster.until(lambda: cluster.running("p"))
        assert await no_records(cluster)

    play(story)


def test_a_node_that_attaches_for_itself_takes_no_volume_that_needs_the_lock(play: Play, lax: None):
    async def story(cluster: InProcessCluster):
        cluster.machines["n0"].controller_attaches = False
        await cluster.start()
        await cluster.claim("c")
        await cluster.create_pod("p", "c", nodeName="n0")
        await cluster.until(lambda: cluster.event("FailedMount", "does not refuse a second node"))
        assert cluster.array.attached == {}

    play(story)


# --- statements


def test_a_statement_about_a_node_that_is_gone_releases_its_volumes(play: Play):
    async def story(cluster: InProcessCluster):
        node = await loses_power(cluster)
        await cluster.api.delete(Node, node)
        await asyncio.sleep(300)
        assert not await cluster.running("app-0", other_than=node)
        (record,) = await cluster.records()
        with pytest.raises(ClusterError, match="no VolumeAttachment and no fence of node"):
            await confirm(cluster.api, node, uid="another", now=cluster.now)
        output = await confirm(cluster.api, node, by="me", now=cluster.now)
        assert "1 volume may move" in output
        await cluster.until(lambda: cluster.running("app-0", other_than=node))
        assert record.uid not in {each.uid for each in await cluster.records()}
        assert await cluster.event("ForcedDetach", "me has stated")

    play(story)


def test_a_statement_about_a_node_that_is_there_is_written_on_its_attachments(play: Play):
    async def story(cluster: InProcessCluster):
        node = await loses_power(cluster)
        with pytest.raises(ClusterError, match="is registered with uid"):
            await confirm(cluster.api, node, uid="another", now=cluster.now)
        await confirm(cluster.api, node, by="me", now=cluster.now)
        await cluster.until(lambda: cluster.running("app-0", other_than=node))

    play(story)


def test_nothing_is_stated_of_a_node_that_nothing_names(play: Play):
    async def story(cluster: InProcessCluster):
        await cluster.start()
        with pytest.raises(ClusterError, match="no VolumeAttachment and no fence names it"):
            await confirm(cluster.api, "nobody", now=cluster.now)

    play(story)


# --- the node's own rules (docs/protocol.md C5, C6)


async def c5_restarted(cluster: InProcessCluster, before: Callable[[], None] = lambda: None) -> list[Any]:
    """An agent restarts while its pod is removed by force: what is asked of the storage under the mount."""
    await cluster.start(nodes=1)
    await cluster.claim("c")
    await cluster.create_pod("p", "c", nodeName="n0")
    await cluster.until(lambda: cluster.running("p"))
    machine = cluster.machines["n0"]
    await machine.agent_dies()
    cluster.array.unmount_s["n0"] = 20.0
    await cluster.api.delete(Pod, "p", "default", grace_period_seconds=0)
    before()
    machine.restart_agent()
    await asyncio.sleep(15)
    return cluster.array.refused


def test_c5_an_agent_says_nothing_before_it_knows_what_is_mounted(play: Play):
    assert play(c5_restarted) == []


def test_c5_does_harm_if_an_agent_speaks_before_it_has_looked(play: Play, monkeypatch: Patch):
    async def later(self: VolumeManager) -> None:
        """Whatever is mounted will be found after the first word."""

    def speaks_first() -> None:
        monkeypatch.setattr(VolumeManager, "reconstruct", later)

    assert play(lambda cluster: c5_restarted(cluster, speaks_first)) != []


async def c6_late_word(cluster: InProcessCluster) -> tuple[int, bool]:
    """A report "not in use any more" is under way while the volume is mounted again: the answer to the late
    report, and whether the Node denies what is mounted."""
    await cluster.start(nodes=1)
    await cluster.claim("c")
    await cluster.create_pod("p", "c", nodeName="n0")
    await cluster.until(lambda: cluster.running("p"))
    machine = cluster.machines["n0"]
    late = machine.wire.late(request("PATCH", "/nodes/n0/status", '"volumesInUse":[]'))
    await cluster.api.delete(Pod, "p", "default")
    await late.arrived.wait()
    await cluster.create_pod("q", "c", nodeName="n0")
    await cluster.until(lambda: cluster.running("q"))
    answer = await late.deliver()
    live = await cluster.api.get(Node, "n0")
    return answer, not live.status.volumes_in_use and bool(cluster.array.mounted)


def test_c6_a_nodes_late_word_is_refused(play: Play):
    assert play(c6_late_word) == (409, False)


def test_c6_does_harm_if_the_word_carries_no_version(play: Play, monkeypatch: Patch):
    whole = Client.patch

    async def weak(self: Client, kind: Any, *args: Any, **kw: Any) -> Any:
        if kind is Node and kw.get("strategy") == "strategic":
            kw["resource_version"] = None
        return await whole(self, kind, *args, **kw)

    monkeypatch.setattr(Client, "patch", weak)
    assert play(c6_late_word) == (200, True)


def test_the_attachment_of_another_node_is_named_by_uid(play: Play):
    async def story(cluster: InProcessCluster):
        await cluster.start(nodes=1)
        await cluster.claim("c")
        await cluster.create_pod("p", "c", nodeName="n0")
        await cluster.until(lambda: cluster.running("p"))
        before = (await cluster.records())[0]
        await cluster.api.delete(Node, "n0")
        await cluster.until(lambda: cluster.all_ready(1))
        anew = await cluster.api.get(Node, "n0")
        await cluster.until(lambda: stamped(cluster, anew.uid))
        assert (await cluster.records())[0].uid == before.uid
        assert await cluster.running("p")

    async def stamped(cluster: InProcessCluster, uid: str) -> bool:
        found: list[VolumeAttachment] = await cluster.records()
        return [each.metadata.annotations["mooring.dev/node-uid"] for each in found] == [uid]

    play(story)
