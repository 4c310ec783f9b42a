"""The attacher's steps: intent before the request, and never forgotten before the storage says "detached"."""

from __future__ import annotations

import hypothesis.strategies as st
import pytest
from hypothesis import given

from mooring.controllers.attacher.decide import Step, decide
from mooring.kube.objects import ObjectMeta, VolumeAttachment, VolumeAttachmentSpec, VolumeAttachmentStatus

ATTACHER, FINALIZER, REQUESTED = "plugins.mooring.dev", "mooring.dev/attacher", "mooring.dev/attach-requested-at"


def record(
    *, attacher: str = ATTACHER, held: bool = False, asked: bool = False, attached: bool = False, deleting: bool = False
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
    ("given_record", "step"),
    [
        (record(), Step.STORE_INTENT),
        (record(held=True), Step.STORE_INTENT),
        (record(asked=True), Step.STORE_INTENT),
        (record(held=True, asked=True), Step.STORE_INTENT),
        (record(held=True, asked=True, attached=True), Step.SETTLED),
        (record(held=True, asked=True, attached=True, deleting=True), Step.DETACH),
        (record(held=True, asked=True, deleting=True), Step.DETACH),
        (record(held=True, deleting=True), Step.DETACH),
        (record(deleting=True), Step.IGNORE),
        (record(attacher="ebs.csi.aws.com"), Step.IGNORE),
        (record(attacher="ebs.csi.aws.com", held=True, deleting=True), Step.IGNORE),
    ],
)
def test_the_next_step(given_record: VolumeAttachment, step: Step):
    assert decide(given_record)[0] is step


def test_the_storage_is_asked_when_this_very_request_was_stored():
    assert decide(record(held=True, asked=True), stored=True)[0] is Step.ATTACH
    assert decide(record(asked=True), stored=True)[0] is Step.STORE_INTENT


@given(st.fixed_dictionaries({key: st.booleans() for key in ("held", "asked", "attached", "deleting")}), st.booleans())
def test_the_storage_is_asked_to_attach_only_what_the_finalizer_holds_and_nobody_deletes(
    flags: dict[str, bool], stored: bool
):
    if decide(record(**flags), stored=stored)[0] is Step.ATTACH:
        assert flags["held"]
        assert flags["asked"]
        assert not flags["deleting"]


@given(st.fixed_dictionaries({key: st.booleans() for key in ("asked", "attached")}))
def test_whatever_may_have_been_attached_is_detached_when_it_is_deleted(flags: dict[str, bool]):
    assert decide(record(held=True, deleting=True, **flags))[0] is Step.DETACH
