"""Second opinions about what is there after tries that failed: none to what is right, one to each wrong one;
what is remembered is from the answers alone."""

from __future__ import annotations

from random import Random
from types import SimpleNamespace
from typing import Any

import pytest
from claims_and_volumes import claim
from msgspec.structs import replace

from mooring.controllers.provisioning.controller import ProvisioningController
from mooring.kube.errors import Conflict
from mooring.kube.objects import Node, ObjectMeta, PersistentVolumeClaim, StorageClass
from mooring.simulation.checks.second_opinions import provisioning_tries as tries
from mooring.simulation.checks.second_opinions.near import Near, changed
from mooring.volumes.errors import InvalidSpec, NodeUnsuited, NotAsked, OutcomeUnknown, StorageFull
from mooring.volumes.interfaces import ModifiableVolumePlugin

DISK = "example.com/disk"
NOW, LATE = (
    StorageClass(metadata=ObjectMeta(name="disk"), provisioner=DISK, volume_binding_mode=mode)
    for mode in ("Immediate", "WaitForFirstConsumer")
)
ERRORS = [StorageFull(""), InvalidSpec(""), NotAsked(""), NodeUnsuited(""), OutcomeUnknown("")]

ASKED_BY = "mooring.dev/provisioning-asked-by"
WITHOUT_NODE = {ASKED_BY: None, "volume.kubernetes.io/selected-node": None}


def begun(signed: str = "7", *, deleting: bool = False) -> PersistentVolumeClaim:
    annotations = {
        ASKED_BY: signed,
        "volume.kubernetes.io/storage-provisioner": DISK,
        "volume.kubernetes.io/selected-node": "n",
    }
    plain = claim(annotations=annotations)
    gone = "t" if deleting else None
    metadata = replace(plain.metadata, finalizers=("mooring.dev/provisioning",), deletion_timestamp=gone)
    return replace(plain, metadata=metadata)


class Provisioner(SimpleNamespace):
    """One that may be remembered for as long as it lives, and its own account of what it has begun."""

    @property
    def _begun(self) -> Provisioner:
        return self

    def is_certain(self, claim: PersistentVolumeClaim) -> bool:
        return claim.uid in self._certain


def sign(asked: Any, *signatures: str, version: str = "") -> None:
    """It writes these upon the claim of that version; of that of the last signature if none is given."""
    written = {ASKED_BY: " ".join(signatures)}
    upon = replace(claim().metadata, resource_version=version or signatures[-1])
    read = replace(claim(), metadata=upon)
    assert [*tries.of_finalizers(begun(), asked, read, ["mooring.dev/provisioning"], written)] == []


def provisioner(*, certain: bool) -> Any:
    """One that has begun the claim, and may have asked the storage in vain."""
    asked = Provisioner(_certain={"u"} if certain else set(), _ours={DISK}, _claims={begun().key: begun()})
    sign(asked, "7")
    assert [*tries.of_a_beginning(begun(), asked, claim())] == []
    if not certain:
        assert [*tries.of_a_try(OutcomeUnknown(""), asked, begun(), None)] == []
    return asked


def test_a_claim_that_is_not_marked_when_its_volume_is_to_be_made_is_objected_to():
    asked = Provisioner(_claims={})
    sign(asked, "7")
    unmarked = replace(begun(), metadata=replace(begun().metadata, finalizers=()))
    assert len([*tries.of_a_beginning(unmarked, asked, claim())]) == 1


@pytest.mark.parametrize(("signed", "right"), [("7", True), ("3 7", True), ("7 8", True), ("8", False)])
def test_who_asks_and_has_not_signed_is_objected_to(signed: str, right: bool):
    asked = Provisioner(_claims={})
    sign(asked, "3", "7")
    assert (not [*tries.of_a_beginning(begun(signed), asked, begun("3"))]) is right


@pytest.mark.parametrize(
    ("near", "argument", "values"),
    [(tries.OF_ERRORS, "error", tries.ERRORS), (tries.OF_CLASSES, "storage_class", (NOW, LATE))],
)
def test_what_is_remembered_is_asked_about_with_other_errors_and_classes(
    near: Near, argument: str, values: Any
):
    asked = {"self": object(), "claim": claim(), argument: values[0]}
    drawn = [changed(Random(number), asked, *near.facts[0]) for number in range(60)]
    assert {repr(each[argument]) for each in drawn} == {repr(each) for each in values}
    assert all(each["self"] is asked["self"] for each in drawn)


@pytest.mark.parametrize("error", [StorageFull(""), InvalidSpec(""), NotAsked("")])
def test_a_try_that_certainly_had_no_effect_leaves_what_was_known(error: Exception):
    asked = provisioner(certain=True)
    assert [*tries.of_a_try(error, asked, begun(), None)] == []
    assert [*tries.of_nothing(True, asked, begun(), NotAsked(""))] == []


def test_of_what_another_process_has_begun_nothing_is_known():
    asked = Provisioner(_claims={})
    sign(asked, "3", "7")
    assert [*tries.of_a_beginning(begun("3 7"), asked, begun("3"))] == []
    assert len([*tries.of_nothing(True, asked, begun(), NotAsked(""))]) == 1


@pytest.mark.parametrize(
    ("told", "untouched"),
    [(None, True), (begun(), True), (claim(), False), (begun("7 8"), False), (begun("8"), False)],
)
def test_what_is_known_of_a_claim_is_known_as_long_as_it_is_told_with_its_mark_and_no_other_asks(
    told: Any, untouched: bool
):
    asked = provisioner(certain=True)
    assert [*tries.of_a_change(None, asked, begun(), told)] == []
    assert [*tries.of_nothing(untouched, asked, begun(), NotAsked(""))] == []
    assert len([*tries.of_nothing(not untouched, asked, begun(), NotAsked(""))]) == 1


@pytest.mark.parametrize("told", [claim(), begun("7 8")])
def test_of_a_mark_that_was_told_to_be_gone_or_signed_before_its_answer_nothing_is_known(told: Any):
    asked = Provisioner(_claims={claim().key: told})
    sign(asked, "7")
    assert [*tries.of_a_beginning(begun(), asked, claim())] == []
    assert len([*tries.of_nothing(True, asked, begun(), NotAsked(""))]) == 1


@pytest.mark.parametrize("certain", [True, False])
@pytest.mark.parametrize("error", ERRORS)
def test_whether_nothing_is_there_is_right_and_the_contrary_objected_to(error: Exception, certain: bool):
    asked = provisioner(certain=certain)
    real = ProvisioningController.__dict__["_is_nothing_there"](asked, claim(), error)
    assert [*tries.of_nothing(real, asked, claim(), error)] == []
    assert [*tries.of_nothing(not real, asked, claim(), error)]


@pytest.mark.parametrize("certain", [True, False])
@pytest.mark.parametrize("of_class", [NOW, LATE])
def test_whether_another_node_may_do_is_right_and_the_contrary_objected_to(
    of_class: StorageClass, certain: bool
):
    asked = provisioner(certain=certain)
    real = ProvisioningController.__dict__["_can_go_elsewhere"](asked, begun(), of_class)
    assert [*tries.of_elsewhere(real, asked, begun(), of_class)] == []
    assert [*tries.of_elsewhere(not real, asked, begun(), of_class)]


NODE, OTHER = (Node(metadata=ObjectMeta(name=name)) for name in "nm")


@pytest.mark.parametrize(
    ("answer", "of_class", "certain", "right"),
    [
        (NODE, LATE, True, True),
        (OTHER, LATE, True, False),
        (None, LATE, False, True),
        (None, NOW, True, True),
        (None, LATE, True, False),
        (NodeUnsuited(""), LATE, True, True),
        (NodeUnsuited(""), LATE, False, False),
        (NodeUnsuited(""), NOW, True, False),
    ],
)
def test_the_node_is_the_selected_one_and_another_is_chosen_if_it_has_gone_and_nothing_is_there(
    answer: Any, of_class: StorageClass, certain: bool, right: bool
):
    asked = provisioner(certain=certain)
    assert (not [*tries.of_selected_node(answer, asked, begun(), of_class)]) is right


def test_a_claim_without_a_selected_node_is_for_none():
    asked = provisioner(certain=True)
    assert [*tries.of_selected_node(None, asked, claim(), LATE)] == []
    assert len([*tries.of_selected_node(NODE, asked, claim(), LATE)]) == 1


@pytest.mark.parametrize(("told", "right"), [(begun(), False), (claim(), True), (None, True)])
def test_the_place_of_a_volume_that_may_be_there_is_not_forgotten_as_long_as_its_claim_is_marked(
    told: Any, right: bool
):
    asked = provisioner(certain=False)
    assert [*tries.of_selected_node(NODE, asked, begun(), LATE)] == []
    assert [*tries.of_a_change(None, asked, begun(), told)] == []
    assert (not [*tries.of_selected_node(None, asked, begun(), LATE)]) is right


def failure(error: Exception, asked: Any, kept: PersistentVolumeClaim, of_class: StorageClass) -> int:
    """How much is objected to."""
    was = tries.untouched_before(asked, kept, of_class)
    return len([*tries.of_a_failure(error, was, asked, kept, of_class)])


@pytest.mark.parametrize(
    ("error", "of_class", "deleting", "certain", "objected"),
    [
        (StorageFull(""), NOW, True, False, 1),
        (StorageFull(""), LATE, True, True, 2),
        (StorageFull(""), LATE, False, True, 2),
        (NodeUnsuited(""), LATE, False, True, 2),
        (NodeUnsuited(""), LATE, False, False, 0),
        (NotAsked(""), NOW, True, True, 1),
        (NotAsked(""), NOW, True, False, 0),
        (NotAsked(""), NOW, False, True, 0),
        (Conflict("", status=409), LATE, True, True, 0),
    ],
)
def test_a_claim_that_is_kept_for_nothing_is_objected_to(
    error: Exception, of_class: StorageClass, deleting: bool, certain: bool, objected: int
):
    kept, asked = begun(deleting=deleting), provisioner(certain=certain)
    assert failure(error, asked, kept, of_class) == objected
    assert [*tries.of_finalizers(claim(), asked, kept, [], WITHOUT_NODE)] == []
    assert failure(error, asked, kept, of_class) == 0
    assert [*tries.of_finalizers(kept, asked, claim(), kept.metadata.finalizers, {ASKED_BY: "7"})] == []
    assert failure(error, asked, kept, of_class) == objected


def test_a_claim_that_another_process_may_be_asking_for_may_be_kept():
    asked = provisioner(certain=False)
    assert failure(StorageFull(""), asked, begun("3 7", deleting=True), NOW) == 0
    sign(asked, "3", version="8")  # it takes its signature back
    assert len([*tries.of_a_beginning(begun("3 7"), asked, begun("3"))]) == 1


@pytest.mark.parametrize("node", ["kept", "taken away"])
def test_a_claim_that_is_given_back_with_its_node_is_objected_to_though_its_mark_is_told_to_be_gone(
    node: str,
):
    kept, asked = begun(), provisioner(certain=True)
    was = tries.untouched_before(asked, kept, LATE)
    without = WITHOUT_NODE if node == "taken away" else {ASKED_BY: None}
    assert [*tries.of_a_change(None, asked, kept, claim())] == []
    assert [*tries.of_finalizers(claim(), asked, kept, [], without)] == []
    objected = [*tries.of_a_failure(NodeUnsuited(""), was, asked, kept, LATE)]
    assert len(objected) == (node == "kept")


def test_a_claim_whose_mark_was_taken_away_during_the_try_need_not_be_given_back():
    kept, asked = begun(), provisioner(certain=True)
    was = tries.untouched_before(asked, kept, LATE)
    assert [*tries.of_a_change(None, asked, kept, claim())] == []
    assert [*tries.of_a_failure(NodeUnsuited(""), was, asked, kept, LATE)] == []


class Changeable(ModifiableVolumePlugin):
    """Of volumes that have attributes."""


Changeable.__abstractmethods__ = frozenset()  # nothing is asked of it
CHANGEABLE = Changeable()


@pytest.mark.parametrize(
    ("named", "plugin", "answer", "right"),
    [
        ("", object(), {}, True),
        ("", object(), {"iops": "4000"}, False),
        ("", object(), InvalidSpec("volumes of it have no attributes"), False),
        ("fast", object(), InvalidSpec("volumes of it have no attributes"), True),
        ("fast", object(), {"iops": "4000"}, False),
        ("fast", CHANGEABLE, {"iops": "4000"}, True),
        ("fast", CHANGEABLE, InvalidSpec("VolumeAttributesClass fast does not exist"), True),
        ("fast", CHANGEABLE, InvalidSpec("volumes of it have no attributes"), False),
    ],
)
def test_attributes_are_those_of_the_class_where_volumes_have_any(
    named: str, plugin: Any, answer: Any, right: bool
):
    asked = claim()
    asked = replace(asked, spec=replace(asked.spec, volume_attributes_class_name=named or None))
    assert (not [*tries.of_attributes(answer, None, asked, plugin)]) is right
