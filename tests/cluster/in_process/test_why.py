"""Every explanation here comes from a real fault in a whole cluster: cause object, reason code and next
step."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest
from in_process_cluster import InProcessCluster, loses_power

from mooring.controllers.fencing.names import NODE_FINALIZER
from mooring.kube.objects import Event, Node, PersistentVolume, PersistentVolumeClaim, Pod
from mooring.simulation.parts.array_plugin import DISK, ArrayPlugin
from mooring.volumes.errors import StorageRefused
from mooring.volumes.host import ControllerVolumeHost
from mooring.volumes.names import NAME_HELD
from mooring.volumes.plugin_manager import PluginManager
from mooring.why import text
from mooring.why.cause import Cause
from mooring.why.explain import NoSuchObject, explain, stuck
from mooring.why.snapshot import Snapshot, read

Play = Callable[[Any], Any]


async def snapshot(cluster: InProcessCluster) -> Snapshot:
    return await read(
        cluster.api, PluginManager([ArrayPlugin(cluster.array)], ControllerVolumeHost(cluster.now))
    )


async def why(cluster: InProcessCluster, target: str) -> Cause:
    return explain(target, "default", await snapshot(cluster))


async def says(cluster: InProcessCluster, target: str, *codes: str) -> Cause | None:
    """The explanation once its chain, along the first causes, has these codes."""
    try:
        causes = found = await why(cluster, target)
    except NoSuchObject:
        return None
    for code in codes:
        if found.reason.code != code:
            return None
        found = found.causes[0] if found.causes else found
    return causes


async def until_says(cluster: InProcessCluster, target: str, *codes: str) -> Cause:
    return await cluster.until(lambda: says(cluster, target, *codes))


def test_of_what_is_healthy_it_says_so_in_one_line(play: Play):
    async def story(cluster: InProcessCluster):
        await cluster.start()
        await cluster.stateful_set()
        node = await cluster.until(cluster.running)
        known = await snapshot(cluster)
        assert list(stuck(known)) == []
        (pv,) = known.volumes
        for target in ("pod/app-0", "pvc/data-app-0", f"pv/{pv}", f"node/{node}"):
            cause = explain(target, "default", known)
            assert cause.ok
            assert len(list(text.lines(cause, cluster.now(), lambda plain, _: plain))) == 1

    play(story)


def test_an_unbound_claim_names_why_each_volume_does_not_fit(play: Play):
    async def story(cluster: InProcessCluster):
        await cluster.start()
        for name, size, storage_class in (("small", "1Mi", ""), ("other", "5Gi", "fast")):
            spec = {
                "capacity": {"storage": size},
                "accessModes": ["ReadWriteOnce"],
                "storageClassName": storage_class,
                "flexVolume": {"driver": DISK, "options": {"disk": name}},
            }
            await cluster.api.create(PersistentVolume, {"metadata": {"name": name}, "spec": spec})
        await cluster.claim("c", storage_class="")
        cause = await until_says(cluster, "pvc/c", "FailedBinding")
        assert [each.about for each in cause.causes] == ["pv/small", "pv/other"]
        assert "bytes" in cause.causes[0].reason.message
        assert "storage class 'fast'" in cause.causes[1].reason.message
        assert "create a volume that fits" in cause.next_step
        await cluster.create_pod("p", "c")
        pod = await until_says(cluster, "pod/p", "FailedScheduling", "FailedBinding", "DoesNotFit")
        assert pod.causes[0].about == "pvc/default/c"

    play(story)


def test_a_second_agent_of_a_nodes_name_is_named(play: Play):
    async def story(cluster: InProcessCluster):
        await cluster.start()
        node = await cluster.api.get(Node, "n0")
        about = {"kind": "Node", "name": "n0", "uid": node.uid}
        message = "a second agent, of boot b2 of machine m, was refused"
        event = {"involvedObject": about, "type": "Warning", "reason": NAME_HELD, "message": message}
        await cluster.api.create(Event, {"metadata": {"name": "n0.1"}, **event}, "default")
        cause = await until_says(cluster, "node/n0", NAME_HELD)
        assert message in cause.reason.message
        assert "kubectl delete event -n default n0.1" in cause.next_step
        await cluster.api.delete(Event, "n0.1", "default")
        assert (await why(cluster, "node/n0")).ok

    play(story)


def test_a_claim_waits_for_its_first_consumer(play: Play):
    async def story(cluster: InProcessCluster):
        await cluster.start()
        await cluster.storage_class("late", volumeBindingMode="WaitForFirstConsumer")
        await cluster.claim("c", storage_class="late")
        cause = await until_says(cluster, "pvc/c", "WaitForFirstConsumer")
        assert cause.next_step == "create a pod that uses it"

    play(story)


def test_a_class_that_does_not_exist_and_a_provisioner_that_does_not(play: Play):
    async def story(cluster: InProcessCluster):
        await cluster.start()
        await cluster.storage_class("foreign", provisioner="ebs.csi.example.com")
        await cluster.claim("a", storage_class="nowhere")
        await cluster.claim("b", storage_class="foreign")
        missing = await until_says(cluster, "pvc/a", "ProvisioningFailed")
        assert missing.next_step == "create class nowhere; there are: disk, foreign"
        foreign = await until_says(cluster, "pvc/b", "ExternalProvisioning", "ProvisionerMissing")
        assert "install the driver ebs.csi.example.com" in foreign.next_step

    play(story)


def test_an_exclusive_volume_that_another_node_has_is_named_with_its_pod(play: Play):
    async def story(cluster: InProcessCluster):
        await cluster.start()
        await cluster.claim("c")
        await cluster.create_pod("first", "c", nodeName="n0")
        await cluster.until(lambda: cluster.running("first"))
        await cluster.create_pod("second", "c", nodeName="n1")
        cause = await until_says(
            cluster, "pod/second", "WaitingForVolumes", "MultiAttach", "AttachedElsewhere"
        )
        (volume,) = cause.causes
        assert "for default/first" in volume.reason.message
        assert "delete one of the pods (default/first" in volume.next_step
        assert volume.causes[0].about.startswith("volumeattachment/")
        messages = [
            f'Multi-Attach error for volume "{disk}" Volume is already used by pod(s) first'
            for disk in cluster.array.disks
        ]
        await cluster.until(lambda: cluster.event("FailedAttachVolume", messages[0]))  # in upstream's words

    play(story)


def test_a_silent_node_is_the_end_of_the_chain_and_the_operator_is_told_what_to_say(play: Play):
    async def story(cluster: InProcessCluster):
        node = await loses_power(cluster)
        cause = await until_says(cluster, "pod/app-0", "Terminating", "NodeNotAnswering")
        assert cause.causes[0].about == f"node/{node}"
        assert f"mooring node confirm-dead {node}" in cause.causes[0].next_step
        assert cause.causes[0].since
        known = await snapshot(cluster)
        assert {each.about.partition("/")[0] for each in stuck(known)} == {"node", "pod", "sts"}
        (line,) = [
            text.one_line(c, cluster.now(), lambda plain, _: plain) for c in stuck(known) if "pod/" in c.about
        ]
        assert f"node/{node}: node {node} does not answer" in line
        await cluster.out_of_service(node)
        await cluster.until(lambda: cluster.running(other_than=node))
        assert (await why(cluster, "pod/app-0")).ok
        assert (await why(cluster, f"node/{node}")).reason.code == "OutOfService"

    play(story)


def test_a_pod_that_waits_for_the_volume_of_a_silent_node_is_told_of_that_node(play: Play):
    async def story(cluster: InProcessCluster):
        await cluster.start()
        await cluster.claim("c")
        await cluster.create_pod("first", "c", nodeName="n0")
        await cluster.until(lambda: cluster.running("first"))
        await cluster.machines["n0"].power_off()
        await cluster.create_pod("second", "c", nodeName="n1")
        codes = ("WaitingForVolumes", "MultiAttach", "AttachedElsewhere", "NodeNotAnswering")
        cause = await until_says(cluster, "pod/second", *codes)
        assert [root.about for root in cause.roots] == ["node/n0"]

    play(story)


def test_the_last_error_of_an_attach_that_is_tried_again_is_shown(play: Play):
    async def story(cluster: InProcessCluster):
        await cluster.start()
        await cluster.claim("data-app-0")
        await cluster.until(lambda: cluster.array.disks)
        cluster.array.failure = StorageRefused("the array is on fire")
        await cluster.stateful_set()

        async def is_reported() -> bool:
            cause = await says(cluster, "pod/app-0", "WaitingForVolumes", "Attaching")
            return cause is not None and "the array is on fire" in cause.causes[0].reason.message

        await cluster.until(is_reported)
        cause = (await why(cluster, "pod/app-0")).causes[0]
        assert cause.about.startswith("volumeattachment/")
        assert "tries again by itself" in cause.next_step
        cluster.array.failure = None
        await cluster.until(cluster.running)

    play(story)


def test_a_claim_that_is_deleted_is_held_by_the_pods_that_use_it(play: Play):
    async def story(cluster: InProcessCluster):
        await cluster.start()
        await cluster.stateful_set()
        await cluster.until(cluster.running)
        await cluster.api.delete(PersistentVolumeClaim, "data-app-0", "default")
        claim = await until_says(cluster, "pvc/data-app-0", "HeldByFinalizer")
        assert claim.next_step == "delete default/app-0"
        (pv,) = (await cluster.api.list(PersistentVolume)).items
        await cluster.api.delete(PersistentVolume, pv.name)
        volume = await until_says(cluster, f"pv/{pv.name}", "HeldByFinalizer")
        assert "delete pvc data-app-0" in volume.next_step

    play(story)


def test_a_second_pod_of_a_claim_for_one_pod_only_waits_for_the_first(play: Play):
    async def story(cluster: InProcessCluster):
        await cluster.start()
        await cluster.claim("c", accessModes=["ReadWriteOncePod"])
        await cluster.create_pod("first", "c")
        await cluster.until(lambda: cluster.running("first"))
        await cluster.create_pod("second", "c")
        cause = await until_says(cluster, "pod/second", "FailedScheduling")
        assert "in use by default/first" in cause.reason.message
        assert "a claim of its own" in cause.next_step

    play(story)


def test_where_no_node_will_do_each_bad_node_is_a_cause(play: Play):
    async def story(cluster: InProcessCluster):
        await cluster.start()
        for node in ("n0", "n1"):
            await cluster.api.patch(Node, node, {"spec": {"unschedulable": True}})
        await cluster.claim("c")
        await cluster.create_pod("p", "c")
        cause = await until_says(cluster, "pod/p", "FailedScheduling", "Cordoned")
        assert {each.next_step for each in cause.causes} == {
            f"when its maintenance is over: kubectl uncordon {node}" for node in ("n0", "n1")
        }

    play(story)


def test_a_pod_whose_claim_is_missing_says_which(play: Play):
    async def story(cluster: InProcessCluster):
        await cluster.start()
        await cluster.create_pod("p", "nothing")
        cause = await until_says(cluster, "pod/p", "FailedScheduling", "ClaimNotFound")
        assert cause.next_step == "create claim default/nothing"

    play(story)


def test_a_pod_of_a_kept_volume_and_the_volume_itself_can_be_read_by_a_program(play: Play):
    async def story(cluster: InProcessCluster):
        await cluster.start()
        await cluster.storage_class("keep", reclaimPolicy="Retain")
        await cluster.claim("c", storage_class="keep")
        await until_says(cluster, "pvc/c", "Bound")
        (pv,) = (await cluster.api.list(PersistentVolume)).items
        await cluster.api.delete(PersistentVolumeClaim, "c", "default")
        cause = await until_says(cluster, f"pv/{pv.name}", "Retained")
        as_json = json.loads(json.dumps(cause.as_json()))
        assert as_json["object"] == f"pv/{pv.name}"
        assert (as_json["ok"], as_json["reason"]) == (False, "Retained")
        assert "claimRef" in as_json["nextStep"]

    play(story)


def test_what_is_not_there_is_answered_with_what_is(play: Play):
    async def story(cluster: InProcessCluster):
        await cluster.start()
        await cluster.claim("c")
        known = await snapshot(cluster)
        for target, message in (
            ("pvc/x", "there is no pvc x in namespace default; there are: c"),
            ("frog/x", "not of the form pod/NAME"),
            ("pod", "not of the form pod/NAME"),
        ):
            with pytest.raises(NoSuchObject, match=message):
                explain(target, "default", known)
        with pytest.raises(NoSuchObject, match="but in default: use -n"):
            explain("pvc/c", "elsewhere", known)

    play(story)


def test_a_volume_that_its_former_node_still_uses_is_waited_for_by_name(play: Play):
    """The detach waits for the unmount, and then for the storage."""

    async def story(cluster: InProcessCluster):
        await cluster.start()
        cluster.array.detach_s = 60
        await cluster.claim("c")
        await cluster.create_pod("first", "c", nodeName="n0", terminationGracePeriodSeconds=60)
        await cluster.until(lambda: cluster.running("first"))
        await cluster.api.delete(Pod, "first", "default")
        await cluster.create_pod("second", "c", nodeName="n1")
        held = await until_says(
            cluster, "pod/second", "WaitingForVolumes", "MultiAttach", "AttachedElsewhere"
        )
        assert "for default/first" in held.causes[0].reason.message

        async def detaching() -> bool:
            cause = await says(cluster, "pod/second", "WaitingForVolumes", "MultiAttach", "AttachedElsewhere")
            return (
                cause is not None
                and "is being detached from node n0" in cause.causes[0].causes[0].reason.message
            )

        await cluster.until(detaching)
        await cluster.until(lambda: cluster.running("second"))

    play(story)


def test_of_a_node_that_is_held_it_says_what_its_deletion_waits_for(play: Play):
    async def story(cluster: InProcessCluster):
        await cluster.start()
        await cluster.stateful_set()
        node = await cluster.until(cluster.running)
        held = await cluster.api.get(Node, node)
        await cluster.api.revise(held, {"metadata": {"finalizers": [NODE_FINALIZER]}}, any_version=True)
        assert (await why(cluster, f"node/{node}")).ok, "nothing waits yet"
        await cluster.api.delete(Node, node)
        cause = await until_says(cluster, f"node/{node}", "NodeDeletionWaits")
        assert "pod default/app-0" in cause.reason.message
        assert cause.next_step == f"kubectl drain {node} --ignore-daemonsets"

    play(story)
