"""Mutants of the EBS driver's controller: what EC2's answers, and its silence, mean."""

# pyright: basic
# What is replaced is private to its owner and taken by name, whatever its type.
from __future__ import annotations

import itertools
from typing import Any

from mooring.csi.errors import Code
from mooring.ebs.controller_service import attaching, error_codes, provisioning
from mooring.ebs.controller_service.attaching import Attacher
from mooring.ebs.controller_service.attachment_steps import Step
from mooring.ebs.controller_service.device_names import NAMES, DeviceNames, canonical
from mooring.ebs.controller_service.provisioning import Provisioner, client_token
from mooring.ebs.ec2.settling import Settling
from mooring.ebs.errors import Ec2Unreachable
from mooring.simulation.search.mutants import scenarios
from mooring.simulation.search.mutants.mutant import Mutant, Patch, always


def _nothing_is_looked_up(original: Any) -> Any:
    async def existing(self: Any, wanted: Any) -> None:
        return None

    return existing


def _a_token_of_the_call(original: Any) -> Any:
    numbers = itertools.count(1)

    def token(name: str, number: int = 1) -> str:
        return original(f"{name} {next(numbers)}", number)

    return token


def _another_token_for_each_try(original: Any) -> Any:
    async def send(self: Any, action: str, request: Any, wanted: Any) -> Any:
        for number in itertools.count(1):
            try:
                return await self._api.call(
                    action, {**request, "ClientToken": client_token(wanted.name, number)}
                )
            except Ec2Unreachable:
                if number == 3:
                    raise
        raise AssertionError("unreachable: the tries have an end")

    return send


def _unanswered_is_deleted(original: Any) -> Any:
    async def delete(self: Any, volume_id: str) -> None:
        try:
            await original(self, volume_id)
        except Ec2Unreachable:
            return

    return delete


def _first_that_is_shown_as_free(original: Any) -> Any:
    def give(self: Any, node: str, volume: str, in_use: Any, now: float) -> str | None:
        names = self._node(node, now)
        taken = {canonical(device) for device in in_use} | set(names.bad)
        chosen = next((name for name in NAMES if canonical(name) not in taken), None)
        if chosen is not None:
            names.given[volume] = (canonical(chosen), 0)
        return chosen

    return give


def _first_that_nothing_has(original: Any) -> Any:
    def give(self: Any, node: str, volume: str, in_use: Any, now: float) -> str | None:
        names = self._node(node, now)
        names.given.pop(volume, None)
        taken = {*map(canonical, in_use), *(name for name, _ in names.given.values())}
        chosen = next((name for name in NAMES if canonical(name) not in taken), None)
        if chosen is not None:
            names.given[volume] = (canonical(chosen), 0)
        return chosen

    return give


def _notes_the_name_it_asked_for(original: Any) -> Any:
    async def accepted(self: Any, request: Any, work: Any) -> bool:
        first = self.__dict__.setdefault("_first", {})
        first.setdefault((request["VolumeId"], request["InstanceId"]), request["Device"])
        return await original(self, request, work)

    return accepted


def _answers_the_name_it_asked_for(original: Any) -> Any:
    def done(self: Any, volume: Any, node: str) -> str:
        return self.__dict__.get("_first", {}).pop((volume.id, node), None) or original(self, volume, node)

    return done


def _asked_is_detached(original: Any) -> Any:
    async def ask_to_detach(self: Any, volume_id: str, node: str) -> bool:
        await original(self, volume_id, node)
        return True

    return ask_to_detach


def _attaching_is_attached(original: Any) -> Any:
    def next_step(volume: Any, node: str, *others: Any) -> Step:
        attachment = volume.attachment(node)
        if attachment is not None and attachment.state == "attaching":
            return Step.DONE
        return original(volume, node, *others)

    return next_step


def _unknown_is_refused(original: Any) -> Any:
    def code_of(error: Any) -> Code:
        return Code.FAILED_PRECONDITION if isinstance(error, Ec2Unreachable) else original(error)

    return code_of


MUTANTS: dict[str, Mutant] = {
    "B60": Mutant(
        "a device name with which attaching got stuck, as the guest still has it, is given again and again",
        "kubernetes/kubernetes#31891; kubernetes-sigs/aws-ebs-csi-driver#795, #1166",
        ("L1", "L3"),
        scenarios.EBS_STUCK,
        (Patch(DeviceNames, "give", _first_that_nothing_has),),
        omits="the volume stays attaching where its record says: its pod waits for ever",
    ),
    "B61": Mutant(
        "a device name is chosen from what is shown alone, and the one that was asked for is answered, not EC2's",
        "Azure/AKS#110, kubernetes-sigs/azuredisk-csi-driver#3457, kubernetes/kubernetes#60183",
        ("S10",),
        scenarios.EBS_MOVING,
        (
            Patch(DeviceNames, "give", _first_that_is_shown_as_free),
            Patch(Attacher, "_accepted", _notes_the_name_it_asked_for),
            Patch(Attacher, "_done", _answers_the_name_it_asked_for),
        ),
    ),
    "B63a": Mutant(
        "a volume is made without looking for its name first, and with a token of the call, not of the name",
        "kubernetes-sigs/aws-ebs-csi-driver#771, #744",
        ("S9",),
        scenarios.EBS_CLAIMS,
        (
            Patch(Provisioner, "_existing", _nothing_is_looked_up),
            Patch(provisioning, "client_token", _a_token_of_the_call),
        ),
    ),
    "B63b": Mutant(
        "a CreateVolume that was not answered counts as one that failed: the next one has a token of its own",
        "kubernetes-sigs/aws-ebs-csi-driver#982, #2075",
        ("S9",),
        scenarios.EBS_CLAIMS,
        (Patch(Provisioner, "_send", _another_token_for_each_try),),
    ),
    "E1": Mutant(
        "ControllerUnpublish is answered when EC2 has been asked, not when the volume is detached",
        "kubernetes-sigs/aws-ebs-csi-driver#389",
        ("S13", "S20'"),
        scenarios.EBS_MOVING,
        (Patch(Attacher, "_request_detach", _asked_is_detached),),
    ),
    "E2": Mutant(
        "what EC2 describes is believed, however old it may be",
        "kubernetes-sigs/aws-ebs-csi-driver#801, #2005",
        ("S13",),
        scenarios.EBS_MOVING,
        (Patch(Settling, "proves", always(True)),),
    ),
    "E3": Mutant(
        "a volume that is attaching counts as attached",
        "kubernetes-sigs/aws-ebs-csi-driver#2833",
        ("S13", "S6"),
        scenarios.EBS_MOVING,
        (Patch(attaching, "next_step", _attaching_is_attached),),
    ),
    "E4": Mutant(
        "a DeleteVolume that was not answered counts as done",
        "kubernetes-sigs/aws-ebs-csi-driver#2803",
        ("S9",),
        scenarios.EBS_FAILING,
        (Patch(Provisioner, "delete", _unanswered_is_deleted),),
    ),
    "E5": Mutant(
        "what EC2 did not answer is told as refused",
        "kubernetes-csi/external-provisioner#486",
        ("S9", "S13"),
        scenarios.EBS_CLAIMS,
        (Patch(error_codes, "code_of", _unknown_is_refused),),
    ),
}
