"""Mutants of the attacher: what is asked of the storage, and what is made of its answers."""

# pyright: basic
# What is replaced is private to its owner and taken by name, whatever its type.
from __future__ import annotations

from typing import Any

from msgspec.structs import replace

from mooring.controllers.attachdetach import attached_lists as reporting
from mooring.controllers.attachdetach import decide
from mooring.controllers.attacher import controller
from mooring.controllers.attacher.controller import AttacherController
from mooring.controllers.attacher.decide import Action
from mooring.controllers.attacher.remembered_detaches import RememberedDetaches
from mooring.kube.decision import Decision
from mooring.kube.objects import VolumeAttachment
from mooring.kube.reason import Reason
from mooring.node.volumes import handshake
from mooring.simulation.search.mutants import scenarios
from mooring.simulation.search.mutants.mutant import Mutant, Patch
from mooring.volumes.names import ATTACHER, ATTACHER_FINALIZER


def _give_up(original: Any) -> Any:
    def decide(record: VolumeAttachment, **given: Any) -> Any:
        if record.deleting and record.status.detach_error is not None:
            return Decision(Action.SETTLED, Reason("Mutant", "failed once"))
        return original(record, **given)

    return decide


def _attached_again(original: Any) -> Any:
    def about(found: Any, attachment: Any, demand: Any, *more: Any) -> Any:
        failed = attachment.detach_error and demand is not None
        again = replace(attachment, deleting=False, marked=False) if failed else attachment
        return original(found, again, demand, *more)

    return about


def _usable_again(original: Any) -> Any:
    def usable(self: Any) -> bool:
        return (self.attached and bool(self.detach_error)) or original.fget(self)

    return property(usable)


def _reported_again(original: Any) -> Any:
    def usable(record: VolumeAttachment) -> bool:
        return (record.status.attached and record.status.detach_error is not None) or original(record)

    return usable


def _no_problem_again(original: Any) -> Any:
    def problem(record: VolumeAttachment, node_name: str) -> str:
        failed = record.status.attached and record.status.detach_error is not None
        return "" if failed else original(record, node_name)

    return problem


def _ask_first(original: Any) -> Any:
    def decide(record: VolumeAttachment, **given: Any) -> Any:
        held = ATTACHER_FINALIZER in record.metadata.finalizers
        if record.spec.attacher == ATTACHER and not record.deleting and not held:
            action = Action.STORE_INTENT if record.status.attached else Action.ATTACH
            return Decision(action, Reason("Mutant", "asks first"))
        return original(record, **given)

    return decide


def _needs_its_volume(original: Any) -> Any:
    async def detach(self: Any, record: VolumeAttachment) -> None:
        await self._definitions.spec(record)
        await original(self, record)

    return detach


def _error_means_no(original: Any) -> Any:
    async def asked(plugin: Any, recorded: Any, log: Any) -> list[tuple[VolumeAttachment, Any]]:
        found: list[tuple[VolumeAttachment, Any]] = []
        for record, spec in recorded:
            try:
                answer = await plugin.new_attacher().volumes_are_attached([spec], record.spec.node_name)
            except Exception:
                answer = {spec: False}
            found.append((record, answer[spec]))
        return found

    return asked


def _forget(original: Any) -> Any:
    async def correct(self: Any, record: VolumeAttachment, status: dict[str, Any]) -> None:
        if status.get("attached", True):
            await original(self, record, status)
            return
        await _drop_finalizer(self, record)
        await self.client.delete(VolumeAttachment, record.name, uid=record.uid)

    return correct


async def _drop_finalizer(self: Any, record: VolumeAttachment) -> None:
    finalizers = [each for each in record.metadata.finalizers if each != ATTACHER_FINALIZER]
    await self.client.revise(record, {"metadata": {"finalizers": finalizers or None}}, any_version=True)


def _detach_anyhow(original: Any) -> Any:
    async def detach(self: Any, record: VolumeAttachment) -> None:
        try:
            await original(self, record)
        except Exception:
            await _drop_finalizer(self, record)

    return detach


def _knows_of_no_asking(original: Any) -> Any:
    async def begin(self: Any) -> None:
        await original(self)
        self._unanswered.clear()

    return begin


def _all_denied(original: Any) -> Any:
    async def asked(plugin: Any, recorded: Any, log: Any) -> list[tuple[VolumeAttachment, bool]]:
        return [(record, False) for record, _ in recorded]

    return asked


MUTANTS: dict[str, Mutant] = {
    "B05": Mutant(
        "an attachment whose detach was not answered counts as attached again",
        "kubernetes/kubernetes#120571",
        ("S6", "S7"),
        scenarios.STORAGE,
        (
            Patch(controller, "decide", _give_up),
            Patch(decide, "_about_attachment", _attached_again),
            Patch(decide.Attachment, "usable", _usable_again),
            Patch(reporting, "is_usable", _reported_again),
            Patch(handshake, "_problem", _no_problem_again),
        ),
    ),
    "B07": Mutant(
        "the storage is asked to attach before the record says so",
        "kubernetes/kubernetes#44858, #94912",
        ("S13", "S8"),
        scenarios.STORAGE,
        (Patch(controller, "decide", _ask_first),),
    ),
    "B17": Mutant(
        "what has lost its PersistentVolume cannot be detached",
        "kubernetes/kubernetes#108221",
        ("L3",),
        scenarios.BY_HAND,
        (Patch(AttacherController, "_detach", _needs_its_volume),),
        omits="the disk stays attached where its record says: the detach is never asked for",
    ),
    "B19": Mutant(
        "storage that gives no answer has nothing attached, and the record is dropped",
        "kubernetes/kubernetes#45569, #50281",
        ("S13",),
        scenarios.STORAGE,
        (Patch(controller, "asked", _error_means_no), Patch(AttacherController, "_correct", _forget)),
    ),
    "B56": Mutant(
        "whatever the storage answers to a detach counts as detached",
        "kubernetes-csi/external-attacher#165",
        ("S13",),
        scenarios.STORAGE,
        (Patch(AttacherController, "_detach", _detach_anyhow),),
    ),
    "B58": Mutant(
        "a list of the storage that is behind makes everything be attached again and again",
        "kubernetes-csi/external-attacher#215, #697",
        ("S13",),
        scenarios.VERIFIED,
        (Patch(controller, "asked", _all_denied),),
    ),
    "X4": Mutant(
        "an attacher that takes a Lease over knows nothing of detaches that the former holder asked for",
        "protocol counterexample C15",
        ("S7", "S4'"),
        scenarios.TENURES,
        (Patch(RememberedDetaches, "begin", _knows_of_no_asking),),
    ),
}
