"""What a storage does not say, when it is asked what is attached, is not taken for a no."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import Any
from unittest.mock import Mock, create_autospec

import pytest

from mooring.controllers.attacher.verification import asked as asked_of
from mooring.controllers.attacher.verification import correction, is_verified
from mooring.kube.objects import ObjectMeta, PersistentVolume, VolumeAttachment
from mooring.kube.objects.storage import VolumeAttachmentSpec, VolumeAttachmentStatus
from mooring.volumes.errors import VolumeError
from mooring.volumes.interfaces import AttachableVolumePlugin, Attacher, BulkVolumeVerifier
from mooring.volumes.names import DETACHING
from mooring.volumes.spec import VolumeSpec

A, B = (
    VolumeSpec.of_persistent_volume(PersistentVolume(metadata=ObjectMeta(name=name))) for name in ("a", "b")
)


class BulkAttacher(Attacher, BulkVolumeVerifier):
    """What a plugin returns that can ask about all nodes at once."""


def asked(answers: Mapping[str, Any], whom: list[str], kind: type[Attacher]) -> Any:
    """An attacher that answers for each node, or raises what it is to raise; it notes whom it was asked
    about."""

    def answer(about: str) -> Any:
        whom.append(about)
        if isinstance(answers[about], Exception):
            raise answers[about]
        return answers[about]

    attacher = create_autospec(kind, instance=True)
    attacher.volumes_are_attached.side_effect = lambda specs, node: answer(node)
    if kind is BulkAttacher:
        attacher.bulk_verify_volumes.side_effect = lambda by_node: answer("all")
    return attacher


def lost(
    answers: Mapping[str, Any], *, kind: type[Attacher] = BulkAttacher
) -> tuple[list[str], list[str], int]:
    """The nodes on which something is not attached, whom the storage was asked about, and what was logged."""
    whom: list[str] = []
    log = Mock()
    plugin = create_autospec(AttachableVolumePlugin, instance=True)
    plugin.supports_bulk_volume_verification.return_value = "all" in answers
    plugin.new_attacher.return_value = asked(answers, whom, kind)
    recorded = [
        (VolumeAttachment(metadata=ObjectMeta(name=node), spec=VolumeAttachmentSpec(node_name=node)), spec)
        for node, spec in (("n0", A), ("n1", B))
    ]
    found = asyncio.run(asked_of(plugin, recorded, log))
    lost = [record.spec.node_name for record, said in found if correction(record, said)]
    return lost, whom, log.warning.call_count


def test_what_the_storage_says_is_not_attached_is_lost():
    assert lost({"all": {"n0": {A: False}, "n1": {B: True}}}) == (["n0"], ["all"], 0)
    assert lost({"n0": {A: True}, "n1": {B: False}}) == (["n1"], ["n0", "n1"], 0)


@pytest.mark.parametrize("error", [VolumeError("no answer"), RuntimeError("a bug")])
def test_a_storage_that_does_not_answer_for_all_is_not_asked_once_more_for_each_node(error: Exception):
    assert lost({"all": error}) == ([], ["all"], 1)


def test_a_node_for_which_the_storage_does_not_answer_does_not_keep_it_from_the_others():
    assert lost({"n0": VolumeError("no answer"), "n1": {B: False}}) == (["n1"], ["n0", "n1"], 1)


def test_an_attacher_that_cannot_ask_for_all_is_asked_about_each_node_though_its_plugin_can():
    answers = {"all": {}, "n0": {A: True}, "n1": {B: False}}
    assert lost(answers, kind=Attacher) == (["n1"], ["n0", "n1"], 0)


def test_a_volume_that_an_answer_leaves_out_is_not_lost():
    assert lost({"all": {"n0": {}, "n1": {B: True}}}) == ([], ["all"], 0)


@pytest.mark.parametrize(
    ("record", "verified"),
    [
        ({}, True),
        ({"attacher": "other.example.com"}, False),
        ({"attached": False}, False),
        ({"deletion_timestamp": "2030-01-01T00:00:00Z"}, False),
        ({"annotations": {DETACHING: "t"}}, False),
    ],
)
def test_it_is_asked_about_what_is_carried_out_here_and_attached_and_stays(
    record: dict[str, Any], verified: bool
):
    spec = VolumeAttachmentSpec(attacher=record.pop("attacher", "plugins.mooring.dev"))
    status = VolumeAttachmentStatus(attached=record.pop("attached", True))
    found = VolumeAttachment(metadata=ObjectMeta(name="va", **record), spec=spec, status=status)
    assert is_verified(found, {"plugins.mooring.dev": "f"}) is verified


@pytest.mark.parametrize(
    ("said", "changes"),
    [
        (False, {"attached": False}),
        (True, {}),
        ({"devicePath": "/dev/a", "lun": "1"}, {}),
        ({"devicePath": "/dev/b"}, {"attachmentMetadata": {"devicePath": "/dev/b", "lun": None}}),
        ({}, {"attachmentMetadata": {"devicePath": None, "lun": None}}),
    ],
)
def test_a_record_is_corrected_by_what_the_storage_says(
    said: bool | Mapping[str, str], changes: dict[str, Any]
):
    """As a merge patch of the status: what is not so any more is taken away."""
    held = VolumeAttachmentStatus(attached=True, attachment_metadata={"devicePath": "/dev/a", "lun": "1"})
    assert correction(VolumeAttachment(metadata=ObjectMeta(name="va"), status=held), said) == changes
