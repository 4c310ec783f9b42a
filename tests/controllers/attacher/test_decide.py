"""The attacher's steps: intent before the request, and never forgotten before the storage says "detached"."""

from __future__ import annotations

import hypothesis.strategies as st
import pytest
from hypothesis import given

from mooring.controllers.attacher.decide import Action, decide
from mooring.kube.objects import ObjectMeta, VolumeAttachment, VolumeAttachmentSpec, VolumeAttachmentStatus

ATTACHER, FINALIZER, REQUESTED = (
    "plugins.mooring.dev",
    "mooring.dev/attacher",
    "mooring.dev/attach-requested-at",
)


def record(
    *,
    attacher: str = ATTACHER,
    held: bool = False,
    asked: bool = False,
    attached: bool = False,
    deleting: bool = False,
) -> VolumeAttachment:
    metadata = ObjectMeta(
        name="va",
        finalizers=("other/finalizer", FINALIZER) if held else ("other/finalizer",),
        annotations={REQUESTED: "t"} if asked else {},
        deletion_timestamp="t" if deleting else None,
    )
    spec, status = VolumeAttachmentSpec(attacher=attacher), VolumeAttachmentStatus(attached=attached)
    return VolumeAttachment(metadata=metadata, spec=spec, status=status)


@pytest.mark.parametrize(
    ("given_record", "action"),
    [
        (record(), Action.STORE_INTENT),
        (record(held=True), Action.STORE_INTENT),
        (record(asked=True), Action.STORE_INTENT),
        (record(held=True, asked=True), Action.STORE_INTENT),
        (record(held=True, asked=True, attached=True), Action.SETTLED),
        (record(held=True, asked=True, attached=True, deleting=True), Action.DETACH),
        (record(held=True, asked=True, deleting=True), Action.DETACH),
        (record(held=True, deleting=True), Action.DETACH),
        (record(deleting=True), Action.IGNORE),
        (record(attacher="ebs.csi.aws.com"), Action.IGNORE),
        (record(attacher="ebs.csi.aws.com", held=True, deleting=True), Action.IGNORE),
    ],
)
def test_the_next_step(given_record: VolumeAttachment, action: Action):
    assert decide(given_record).action is action


def test_the_storage_is_asked_when_this_very_request_was_stored():
    assert decide(record(held=True, asked=True), stored=True).action is Action.ATTACH
    assert decide(record(asked=True), stored=True).action is Action.STORE_INTENT


@given(
    st.fixed_dictionaries({key: st.booleans() for key in ("held", "asked", "attached", "deleting")}),
    st.booleans(),
)
def test_the_storage_is_asked_to_attach_only_what_the_finalizer_holds_and_nobody_deletes(
    flags: dict[str, bool], stored: bool
):
    if decide(record(**flags), stored=stored).action is Action.ATTACH:
        assert flags["held"]
        assert flags["asked"]
        assert not flags["deleting"]


@given(st.fixed_dictionaries({key: st.booleans() for key in ("asked", "attached")}))
def test_whatever_may_have_been_attached_is_detached_when_it_is_deleted(flags: dict[str, bool]):
    assert decide(record(held=True, deleting=True, **flags)).action is Action.DETACH
