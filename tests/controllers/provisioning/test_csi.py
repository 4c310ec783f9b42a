"""Volumes of a CSI driver for claims: none twice, none forgotten, in the right place,
whatever the driver answers."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime
from functools import partial
from typing import Any

import pytest
from controller_stage import DriverStage, Play
from crashes import crashed_under
from played_driver import NAME

from mooring.apiserver import Server
from mooring.controllers.provisioning.controller import ProvisioningController
from mooring.controllers.provisioning.decide import BEGUN, MADE_BY_DRIVER
from mooring.csi.errors import Code
from mooring.kube.keys import ClaimKey, VolumeKey
from mooring.kube.objects import (
    CSINode,
    Node,
    PersistentVolume,
    PersistentVolumeClaim,
    Secret,
    StorageClass,
    VolumeAttributesClass,
)
from mooring.volumes.errors import InvalidSpec, NodeUnsuited, NotAsked, OutcomeUnknown, StorageFull
from mooring.volumes.names import CSI_PLUGIN

ZONE = "topology.example.com/zone"
SELECTED = "volume.kubernetes.io/selected-node"


class ProvisionerStage(DriverStage):
    """A class and a claim that wait for the driver, and a controller whose caches are kept up to date."""

    def __init__(self, server: Server, now: Callable[[], datetime], topology: bool = False) -> None:
        super().__init__(server, now)
        self.topology = topology
        self.start()

    def start(self) -> None:
        """A controller that remembers nothing."""
        self.plugin_manager = self.driver(topology=self.topology)
        self.controller = self.make(ProvisioningController, plugins=self.plugin_manager)

    async def storage_class(self, delayed: bool = False, **fields: Any) -> None:
        binding = "WaitForFirstConsumer" if delayed else "Immediate"
        body = {"metadata": {"name": "k"}, "provisioner": NAME, "volumeBindingMode": binding, **fields}
        await self.api.create(StorageClass, body)

    async def claim(self, annotations: dict[str, str] | None = None, **fields: Any) -> PersistentVolumeClaim:
        asked = {"volume.kubernetes.io/storage-provisioner": NAME, **(annotations or {})}
        spec = {
            "accessModes": ["ReadWriteOnce"],
            "storageClassName": "k",
            "resources": {"requests": {"storage": "1Gi"}},
        }
        body = {"metadata": {"name": "c", "annotations": asked}, "spec": {**spec, **fields}}
        return await self.api.create(PersistentVolumeClaim, body, "default")

    async def node(self, name: str, zone: str) -> None:
        await self.api.create(Node, {"metadata": {"name": name, "labels": {ZONE: zone}}})
        spec = {"drivers": [{"name": NAME, "nodeID": name, "topologyKeys": [ZONE]}]}
        await self.api.create(CSINode, {"metadata": {"name": name}, "spec": spec})

    async def refresh(self) -> None:
        await self.fill(self.controller, PersistentVolumeClaim, StorageClass, PersistentVolume)

    async def reconciled(self) -> PersistentVolume | None:
        await self.refresh()
        await self.controller.reconcile(ClaimKey("default/c"))
        made = (await self.api.list(PersistentVolume)).items
        return made[0] if made else None

    async def begun(self) -> bool:
        return BEGUN in (await self.api.get(PersistentVolumeClaim, "c", "default")).metadata.finalizers


@pytest.fixture
def play(play: Play) -> Play:
    return partial(play, stage=ProvisionerStage)


def test_the_volume_says_all_that_its_users_need(play: Play):
    async def story(stage: ProvisionerStage) -> None:
        parameters = {"type": "fast", "csi.storage.k8s.io/fstype": "xfs"}
        await stage.storage_class(parameters=parameters, mountOptions=["noatime"])
        claim = await stage.claim()
        pv = await stage.reconciled()
        assert pv is not None
        assert pv.spec.csi is not None
        assert (pv.name, pv.spec.csi.volume_handle) == (f"pvc-{claim.uid}", f"pvc-{claim.uid}")
        assert (pv.spec.csi.driver, pv.spec.csi.fs_type) == (NAME, "xfs")
        assert pv.spec.capacity == {"storage": "1Gi"}
        assert MADE_BY_DRIVER in pv.metadata.finalizers
        ((_, asked),) = stage.storage.calls
        assert dict(asked.parameters) == {"type": "fast"}
        (used,) = asked.volume_capabilities
        assert (used.mount.fs_type, list(used.mount.mount_flags)) == ("xfs", ["noatime"])
        assert not await stage.begun()

    play(story)


def test_a_call_that_was_not_answered_is_repeated_by_the_same_name_also_by_a_successor(play: Play):
    async def story(stage: ProvisionerStage) -> None:
        await stage.storage_class()
        await stage.claim()
        stage.storage.failing["CreateVolume"].errors = [Code.DEADLINE_EXCEEDED, Code.INTERNAL]
        stage.storage.failing["CreateVolume"].after = True
        for _ in range(2):
            with pytest.raises(OutcomeUnknown):
                await stage.reconciled()
            stage.start()
        assert await stage.reconciled() is not None
        assert len(stage.storage.volumes) == 1

    play(story)


@pytest.mark.parametrize("answers", [1, 2])
def test_what_was_made_elsewhere_for_a_claim_that_goes_is_found_and_not_left_behind(play: Play, answers: int):
    """Its node has gone, so it would be made elsewhere now: the driver says that it is there already."""

    async def story(stage: ProvisionerStage) -> None:
        await stage.node("n", "east")
        await stage.storage_class()
        await stage.claim()
        stage.storage.failing["CreateVolume"].errors = [Code.DEADLINE_EXCEEDED]
        stage.storage.failing["CreateVolume"].after = True
        with pytest.raises(OutcomeUnknown):
            await stage.reconciled()
        await stage.api.delete(PersistentVolumeClaim, "c", "default")
        stage.storage.failing["CreateVolume"].errors = [Code.ALREADY_EXISTS] * answers
        stage.start()
        if answers == 2:  # it is not the place
            with pytest.raises(OutcomeUnknown):
                await stage.reconciled()
            assert await stage.begun()
        pv = await stage.reconciled()
        assert pv is not None
        assert not stage.storage.calls[-1][1].HasField("accessibility_requirements") or answers == 2

    play(story, topology=True)


def test_a_volume_that_is_too_small_is_not_the_claims_and_goes_with_it(play: Play):
    async def story(stage: ProvisionerStage) -> None:
        await stage.storage_class()
        await stage.claim()
        stage.storage.short_by = 1
        with pytest.raises(OutcomeUnknown, match=f"{2**30 - 1} bytes, {2**30} were asked for"):
            await stage.reconciled()
        assert await stage.begun()
        await stage.api.delete(PersistentVolumeClaim, "c", "default")
        pv = await stage.reconciled()
        assert pv is not None
        assert pv.spec.capacity == {"storage": str(2**30 - 1)}
        assert MADE_BY_DRIVER in pv.metadata.finalizers
        assert not await stage.begun()

    play(story)


FROM_A_CLAIM = {"dataSource": {"kind": "PersistentVolumeClaim", "name": "original"}}
ALLOWED = {"allowedTopologies": [{"matchLabelExpressions": [{"key": ZONE, "values": ["east"]}]}]}


@pytest.mark.parametrize(
    ("of_class", "of_claim"),
    [
        pytest.param({}, FROM_A_CLAIM, id="its source"),
        pytest.param({}, {"volumeAttributesClassName": "gold"}, id="its VolumeAttributesClass"),
        pytest.param(ALLOWED, {}, id="the nodes of its class"),
    ],
)
def test_what_may_be_made_for_a_claim_that_goes_is_found_though_what_it_is_made_of_has_gone(
    play: Play, of_class: dict[str, Any], of_claim: dict[str, Any]
):
    """A former process has asked, and had no answer. That it cannot be asked as before says nothing."""

    async def story(stage: ProvisionerStage) -> None:
        await stage.storage_class(**of_class)
        await stage.claim(**of_claim)
        begun = {"metadata": {"finalizers": [BEGUN]}}
        await stage.api.patch(PersistentVolumeClaim, "c", begun, "default")
        with pytest.raises(InvalidSpec):
            await stage.reconciled()
        await stage.api.delete(PersistentVolumeClaim, "c", "default")
        assert await stage.reconciled() is not None

    play(story, topology=True)


@pytest.mark.parametrize("of_claim", [FROM_A_CLAIM, {"volumeAttributesClassName": "gold"}])
def test_a_claim_that_goes_is_let_go_if_nothing_was_asked_for_it(play: Play, of_claim: dict[str, Any]):
    async def story(stage: ProvisionerStage) -> None:
        await stage.storage_class()
        await stage.claim(**of_claim)
        with pytest.raises(InvalidSpec):
            await stage.reconciled()
        await stage.api.delete(PersistentVolumeClaim, "c", "default")
        await stage.reconciled()
        assert not await stage.begun()
        assert stage.storage.calls == []

    play(story)


def test_a_claim_that_vanishes_in_the_middle_leaves_no_volume_behind(play: Play):
    async def story(stage: ProvisionerStage) -> None:
        await stage.storage_class()
        claim = await stage.claim()
        stage.storage.failing["CreateVolume"].errors = [Code.UNAVAILABLE]
        stage.storage.failing["CreateVolume"].after = True
        with pytest.raises(OutcomeUnknown):
            await stage.reconciled()
        await stage.api.delete(PersistentVolumeClaim, "c", "default")
        assert await stage.begun(), "the claim does not go before the storage was asked again"
        stage.start()
        pv = await stage.reconciled()
        assert pv is not None
        finalizers = {"metadata": {"finalizers": None}}
        await stage.api.patch(PersistentVolumeClaim, "c", finalizers, "default")
        status = {"status": {"phase": "Released"}}
        stage.controller.cache(PersistentVolume).accept(
            await stage.api.patch(PersistentVolume, pv.name, status, subresource="status")
        )
        assert await stage.api.find(PersistentVolumeClaim, "c", "default") is None or claim.uid
        await stage.controller.reconcile(VolumeKey(pv.name))
        assert stage.storage.volumes == {}

    play(story)


def test_a_driver_that_is_away_keeps_a_claim_whose_volume_may_exist(play: Play):
    async def story(stage: ProvisionerStage) -> None:
        await stage.storage_class()
        await stage.claim()
        stage.storage.failing["CreateVolume"].errors = [Code.UNAVAILABLE]
        with pytest.raises(OutcomeUnknown):
            await stage.reconciled()
        await stage.api.delete(PersistentVolumeClaim, "c", "default")
        stage.start()  # whose driver has not come up yet
        driver = next(iter(stage.plugin_manager.find_plugin_by_name(CSI_PLUGIN).drivers_here))

        async def away(*given: Any) -> Any:
            raise NotAsked("the driver is away")

        driver.call = away
        with pytest.raises(NotAsked):
            await stage.reconciled()
        assert await stage.begun()

    play(story)


def test_a_parameter_of_the_reserved_prefix_is_refused_by_name(play: Play):
    async def story(stage: ProvisionerStage) -> None:
        await stage.storage_class(parameters={"csi.storage.k8s.io/fstyp": "xfs"})
        await stage.claim()
        with pytest.raises(InvalidSpec, match="fstyp is not known"):
            await stage.reconciled()
        assert stage.storage.calls == []

    play(story)


def test_secrets_go_to_the_call_and_their_names_to_the_volume(play: Play):
    async def story(stage: ProvisionerStage) -> None:
        prefix = "csi.storage.k8s.io/"
        parameters = {
            f"{prefix}provisioner-secret-name": "keys-${pvc.name}",
            f"{prefix}provisioner-secret-namespace": "${pvc.namespace}",
            f"{prefix}node-stage-secret-name": "${pvc.annotations['team']}",
            f"{prefix}node-stage-secret-namespace": "stage",
        }
        await stage.storage_class(parameters=parameters)
        await stage.claim({"team": "red"})
        data = {"metadata": {"name": "keys-c"}, "data": {"k": "c2VjcmV0"}}
        await stage.api.create(Secret, data, "default")
        pv = await stage.reconciled()
        assert pv is not None
        assert pv.spec.csi is not None
        ((_, asked),) = stage.storage.calls
        assert dict(asked.secrets) == {"k": "secret"}
        staged = pv.spec.csi.node_stage_secret_ref
        assert staged is not None
        assert (staged.namespace, staged.name) == ("stage", "red")
        assert pv.metadata.annotations["volume.kubernetes.io/provisioner-deletion-secret-name"] == "keys-c"

    play(story)


def test_a_namespace_cannot_be_chosen_by_a_claims_annotation(play: Play):
    async def story(stage: ProvisionerStage) -> None:
        prefix = "csi.storage.k8s.io/node-stage-secret-"
        await stage.storage_class(
            parameters={f"{prefix}name": "n", f"{prefix}namespace": "${pvc.annotations['team']}"}
        )
        await stage.claim({"team": "kube-system"})
        with pytest.raises(InvalidSpec, match="not known there"):
            await stage.reconciled()

    play(story)


def test_the_selected_nodes_place_comes_first_and_the_volume_says_where_it_can_be_used(play: Play):
    async def story(stage: ProvisionerStage) -> None:
        await stage.node("n1", "a")
        await stage.node("n2", "b")
        stage.storage.accessible = [{ZONE: "b"}]
        await stage.storage_class(delayed=True)
        await stage.claim({SELECTED: "n2"})
        pv = await stage.reconciled()
        ((_, asked),) = stage.storage.calls
        places = asked.accessibility_requirements
        assert [dict(each.segments) for each in places.preferred] == [{ZONE: "b"}, {ZONE: "a"}]
        assert pv is not None
        assert pv.spec.node_affinity is not None
        assert pv.spec.node_affinity.required is not None
        (term,) = pv.spec.node_affinity.required.node_selector_terms
        assert [(each.key, each.values) for each in term.match_expressions] == [(ZONE, ("b",))]

    play(story, topology=True)


def test_where_there_is_no_room_another_node_is_chosen(play: Play):
    async def story(stage: ProvisionerStage) -> None:
        await stage.node("n1", "a")
        await stage.storage_class(delayed=True)
        await stage.claim({SELECTED: "n1"})
        stage.storage.full = True
        with pytest.raises(StorageFull):
            await stage.reconciled()
        claim = await stage.api.get(PersistentVolumeClaim, "c", "default")
        assert SELECTED not in claim.metadata.annotations
        assert not await stage.begun()

    play(story, topology=True)


def test_where_the_driver_is_not_another_node_is_chosen(play: Play):
    async def story(stage: ProvisionerStage) -> None:
        await stage.node("n1", "a")
        await stage.api.create(Node, {"metadata": {"name": "n2"}})
        await stage.storage_class(delayed=True)
        await stage.claim({SELECTED: "n2"})
        with pytest.raises(NodeUnsuited):
            await stage.reconciled()
        claim = await stage.api.get(PersistentVolumeClaim, "c", "default")
        assert SELECTED not in claim.metadata.annotations
        assert stage.storage.calls == []

    play(story, topology=True)


def test_no_other_node_is_chosen_while_an_earlier_try_may_have_made_the_volume(play: Play):
    async def story(stage: ProvisionerStage) -> None:
        await stage.node("n1", "a")
        await stage.storage_class(delayed=True)
        await stage.claim({SELECTED: "n1"})
        stage.storage.failing["CreateVolume"].errors = [Code.DEADLINE_EXCEEDED]
        with pytest.raises(OutcomeUnknown):
            await stage.reconciled()
        stage.storage.full = True
        for _ in range(2):
            with pytest.raises(StorageFull):
                await stage.reconciled()
            stage.start()
        claim = await stage.api.get(PersistentVolumeClaim, "c", "default")
        assert SELECTED in claim.metadata.annotations

    play(story, topology=True)


async def _without_node(stage: ProvisionerStage, name: str) -> None:
    """The garbage collector takes its CSINode with it."""
    await stage.api.delete(Node, name)
    await stage.api.delete(CSINode, name)


def test_another_node_is_chosen_for_a_claim_whose_node_has_gone_before_the_storage_was_asked(play: Play):
    """Other claims of its pod have their volumes in one place."""

    async def story(stage: ProvisionerStage) -> None:
        await stage.node("n1", "a")
        await stage.storage_class(delayed=True)
        await stage.claim({SELECTED: "n2"})
        with pytest.raises(NodeUnsuited, match="n2"):
            await stage.reconciled()
        claim = await stage.api.get(PersistentVolumeClaim, "c", "default")
        assert SELECTED not in claim.metadata.annotations
        assert not await stage.begun()
        assert stage.storage.calls == []

    play(story, topology=True)


@pytest.mark.parametrize("zone", ["a", "b", "c"])
def test_what_may_be_made_for_a_node_is_asked_for_at_its_place_when_it_has_gone(play: Play, zone: str):
    """Each of two claims of a pod had been asked for in vain, and was then made in a zone of its own (66585
    of the swarm). No node may be left in that place."""

    async def story(stage: ProvisionerStage) -> None:
        await stage.node("n1", "a")
        await stage.node("n2", "b")
        await stage.node("n3", zone)
        await stage.storage_class(delayed=True)
        await stage.claim({SELECTED: "n3"})
        stage.storage.failing["CreateVolume"].errors = [Code.DEADLINE_EXCEEDED]
        with pytest.raises(OutcomeUnknown):
            await stage.reconciled()
        await _without_node(stage, "n3")
        assert await stage.reconciled() is not None
        first, again = (asked.accessibility_requirements.preferred for _, asked in stage.storage.calls)
        assert dict(again[0].segments) == dict(first[0].segments) == {ZONE: zone}

    play(story, topology=True)


def test_a_claim_whose_class_needs_no_node_any_more_is_made_anywhere(play: Play):
    """The class was made anew with another binding mode, and the node has gone."""

    async def story(stage: ProvisionerStage) -> None:
        await stage.node("n1", "a")
        await stage.storage_class()
        await stage.claim({SELECTED: "n2"})
        assert await stage.reconciled() is not None

    play(story, topology=True)


def test_attributes_of_a_class_are_asked_for(play: Play):
    async def story(stage: ProvisionerStage) -> None:
        of_class = {"metadata": {"name": "gold"}, "driverName": NAME, "parameters": {"iops": "9"}}
        await stage.api.create(VolumeAttributesClass, of_class)
        await stage.storage_class()
        await stage.claim(volumeAttributesClassName="gold")
        pv = await stage.reconciled()
        assert pv is not None
        assert pv.spec.volume_attributes_class_name == "gold"
        ((_, asked),) = stage.storage.calls
        assert dict(asked.mutable_parameters) == {"iops": "9"}

    play(story)


@pytest.mark.parametrize(
    ("driver", "why"),
    [
        (None, "VolumeAttributesClass gold of claim default/c does not exist"),
        ("other.example.com", f"gold of claim default/c is of driver other.example.com, not of {NAME}"),
    ],
)
def test_no_volume_is_made_without_the_attributes_that_its_claim_asks_for(
    play: Play, driver: str | None, why: str
):
    async def story(stage: ProvisionerStage) -> None:
        if driver is not None:
            of_class = {"metadata": {"name": "gold"}, "driverName": driver, "parameters": {"iops": "9"}}
            await stage.api.create(VolumeAttributesClass, of_class)
        await stage.storage_class()
        await stage.claim(volumeAttributesClassName="gold")
        with pytest.raises(InvalidSpec, match=why):
            await stage.reconciled()
        assert stage.storage.calls == []

    play(story)


@pytest.mark.parametrize("after", [False, True], ids=["before the request", "after its effect"])
def test_killed_at_every_request_there_is_one_volume_or_none(play: Play, after: bool):
    """A claim is made and deleted; the provisioner dies at its n-th request; a successor goes on."""

    async def story(stage: ProvisionerStage, number: int) -> bool:
        await stage.storage_class()
        await stage.claim()
        stage.wire.crash_at(number, after=after)
        more = await crashed_under(stage.wire, stage.reconciled())
        stage.start()
        assert await stage.reconciled() is not None
        assert len(stage.storage.volumes) == 1
        assert not await stage.begun()
        return more

    number = 0
    while play(lambda at: story(at, number)):  # noqa: B023
        number += 1
    assert number >= 3


@pytest.mark.parametrize("source", [
    {"dataSourceRef": {"kind": "PersistentVolumeClaim", "name": "gone"}},
    {"dataSourceRef": {"kind": "PersistentVolumeClaim", "name": "c", "namespace": "other"}},
    {"dataSourceRef": {"apiGroup": "populators.example.com", "kind": "Book", "name": "b"}},
    {"dataSource": {"apiGroup": "populators.example.com", "kind": "Book", "name": "b"}},
])  # fmt: skip
def test_a_data_source_that_cannot_be_used_never_gives_an_empty_volume(play: Play, source: dict[str, Any]):
    async def story(stage: ProvisionerStage) -> None:
        await stage.storage_class()
        await stage.claim(**source)
        with pytest.raises(InvalidSpec):
            await stage.reconciled()
        assert stage.storage.volumes == {}

    play(story)


@pytest.mark.parametrize("code", [Code.PERMISSION_DENIED, Code.UNAUTHENTICATED])
def test_what_may_be_made_is_not_given_up_because_the_driver_is_not_let_in_to_look(play: Play, code: Code):
    """Its credentials have expired since. The claim goes when it is known what was made for it."""

    async def story(stage: ProvisionerStage) -> None:
        await stage.storage_class()
        await stage.claim()
        failing = stage.storage.failing["CreateVolume"]
        failing.errors, failing.after = [Code.DEADLINE_EXCEEDED], True
        with pytest.raises(OutcomeUnknown):
            await stage.reconciled()
        await stage.api.delete(PersistentVolumeClaim, "c", "default")
        failing.errors, failing.after = [code], False
        with pytest.raises(NotAsked):
            await stage.reconciled()
        assert await stage.begun()
        assert await stage.reconciled() is not None
        assert not await stage.begun()

    play(story)
