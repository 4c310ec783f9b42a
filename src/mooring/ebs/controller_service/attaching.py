"""Attaching and detaching.

Guarantees: every call decides from EC2's state alone, whatever an earlier call has left half-done; both can
be cancelled at any await. The answer is "attached" only if EC2 shows the attachment, with the device name
that EC2 shows, and "detached" only if EC2 shows none; a description that may be stale proves neither
(`settling`). The driver never force-detaches: that may lose data, and costs the instance a device name
(origin design).

EC2's state also decides which device names are free: after a refusal the attacher notes the name and tries
another one in the same call.
"""

from __future__ import annotations

import itertools
from asyncio import sleep
from collections import Counter
from dataclasses import dataclass
from typing import Any, assert_never

import structlog

from mooring.csi.driver.progress import check_not_forgotten, is_overdue, waits_for
from mooring.csi.errors import Code, CsiError
from mooring.ebs.controller_service.attachment_steps import STUCK_S, Step, next_step, shown
from mooring.ebs.controller_service.detaches import PendingDetaches
from mooring.ebs.controller_service.device_names import DeviceNames
from mooring.ebs.controller_service.error_codes import NO_INSTANCE, NO_VOLUME, NOT_ATTACHED
from mooring.ebs.controller_service.presence import volume_there
from mooring.ebs.ec2.api import Ec2Api
from mooring.ebs.ec2.describe import Describe, could_be, poll_pause_s
from mooring.ebs.ec2.records import Attachment, Instance, Volume
from mooring.ebs.ec2.settling import Settling
from mooring.ebs.errors import EbsError, Ec2Error, Ec2Unreachable

TRIES = 5
"""AttachVolume calls that EC2 accepts, or refuses for the volume's state, in one operation."""

_log = structlog.get_logger(__name__)


@dataclass
class _Attaching:
    """What one operation knows beyond EC2's descriptions."""

    wait_initialized: bool
    """Whether all of the volume's data must be there before the first AttachVolume."""
    attaching_since: float | None = None
    """Since when, in the loop's time, the volume has been attaching; None: it is not."""
    device: str = ""
    """The device name in the AttachVolume call that EC2 accepted, or may have accepted."""
    tries: int = 0
    refusal: str = ""
    """EC2's message of the last refusal because of the volume's state."""


class Attacher:
    """Attaches and detaches volumes, many at once."""

    def __init__(
        self,
        api: Ec2Api,
        describe: Describe,
        names: DeviceNames,
        settling: Settling,
        detaches: PendingDetaches,
    ) -> None:
        """`detaches` records the detaches in flight, for logs and metrics."""
        self._api = api
        self._describe = describe
        self._names = names
        self._settling = settling
        self._detaches = detaches
        self._attaching: dict[tuple[str, str], tuple[str, float]] = {}
        """Volume and node -> which attachment EC2 shows as attaching, and since when, in the loop's time."""
        self._cards = Counter[str]()
        """By instance type, as far as EC2 has told."""

    # --- attaching

    async def attach(self, volume_id: str, node: str, wait_initialized: bool) -> str:
        """Returns the device name when the volume is attached to the node. Raises CsiError, EbsError."""
        work = _Attaching(wait_initialized)
        try:
            return await self._attach(volume_id, node, work)
        finally:
            self._names.end(node, volume_id, self._settling.now())

    async def _attach(self, volume_id: str, node: str, work: _Attaching) -> str:
        # A state machine over EC2's descriptions, with no state of its own that a restart could lose: each
        # round takes a fresh description, notes how old it may be, and takes the one next step.
        for polls in itertools.count():
            requested_at = self._settling.now()
            volume = await volume_there(self._describe, self._settling, volume_id)
            attaching_s = self._attaching_s(volume, node, work)
            proven = self._settling.proves(requested_at, _attach(volume_id), _detach(volume_id))
            stays = self._settling.proves(requested_at, _unanswered_detach(volume_id, node))
            step = next_step(volume, node, work.device, proven, attaching_s, stays)
            match step:
                case Step.DONE:
                    return self._done(volume, node)
                case Step.GIVE_UP:
                    await self._give_up(volume, node)
                case Step.ATTACH:
                    await self._request_attach(volume, node, work)
                case Step.WAIT:
                    waits_for(shown(volume, node))
                case _:
                    assert_never(step)
            await sleep(poll_pause_s(self._describe.batching, polls))
        raise AssertionError("unreachable: the questions have no end")

    def _attaching_s(self, volume: Volume, node: str, work: _Attaching) -> float:
        """What an earlier operation has begun counts from when this process has seen it first: EC2's times
        are of another clock, and tell one attachment from the next."""
        attachment, now = volume.attachment(node), self._settling.now()
        if attachment is None or attachment.state != "attaching":
            work.attaching_since = None
            self._attaching.pop((volume.id, node), None)
            return 0.0
        which = f"{attachment.device} {attachment.since}"
        known, first = self._attaching.get((volume.id, node), (which, now))
        first = first if known == which else now
        self._attaching[volume.id, node] = which, first
        since = now if work.attaching_since is None else work.attaching_since
        work.attaching_since = since if work.device else min(since, first)
        return now - work.attaching_since

    def _done(self, volume: Volume, node: str) -> str:
        attachment = volume.attachment(node)
        assert attachment is not None
        if not attachment.device:
            raise CsiError(
                Code.INTERNAL, f"EC2 does not say as which device {volume.id} is attached to {node}"
            )
        self._names.worked(node, attachment.device, self._settling.now())
        return attachment.device

    async def _give_up(self, volume: Volume, node: str) -> None:
        """Detaches a stuck attachment and raises, so that the next try takes another device name."""
        attachment = volume.attachment(node)
        assert attachment is not None
        self._names.refused(node, attachment.device, self._settling.now())
        await self._request_detach(volume.id, node)
        raise CsiError(
            Code.INTERNAL,
            f"volume {volume.id} has been attaching to {node} as {attachment.device} for more than {STUCK_S:g} s: it "
            "is being detached, and the next try takes another device name",
        )

    async def _initialized(self, volume_id: str) -> None:
        """Waits for the volume's data, which may take hours. Nothing is attached for a caller that has gone
        meanwhile: what leads now, with a driver of its own, may have detached it, and know of no attach."""
        for polls in itertools.count():
            if await self._describe.initialized(volume_id):
                return
            if is_overdue():
                raise CsiError(Code.ABORTED, f"not all data of volume {volume_id} is there yet: try again")
            await sleep(poll_pause_s(batching=False, polls=polls))

    async def _request_attach(self, volume: Volume, node: str, work: _Attaching) -> None:
        """Calls AttachVolume with one device name after the other until EC2 accepts one."""
        if work.wait_initialized:
            await self._initialized(volume.id)
            work.wait_initialized = False
        if work.tries == TRIES:
            raise _not_attached(volume, node, work)
        work.tries += 1
        instance = await self._instance(node)
        cards = await self._card_count(instance.type)
        while not await self._accepted(self._request(volume, instance, cards), work):
            pass

    def _request(self, volume: Volume, instance: Instance, cards: int) -> dict[str, Any]:
        """An AttachVolume request with the next free device name."""
        device = self._name(instance, volume)
        request: dict[str, Any] = {"VolumeId": volume.id, "InstanceId": instance.id, "Device": device}
        if cards > 1:
            used = [each.card for each in instance.devices if each.volume_id]
            card = self._names.choose_card(instance.id, volume.id, cards, used, self._settling.now())
            request["EbsCardIndex"] = card
        return request

    async def _accepted(self, request: dict[str, Any], work: _Attaching) -> bool:
        """Sends AttachVolume. Returns whether an attachment may now be in flight; False if the device name is
        taken. Raises every error that ends the operation."""
        volume_id, device = request["VolumeId"], request["Device"]
        check_not_forgotten(f"volume {volume_id} is not attached to {request['InstanceId']}")
        try:
            await self._api.call("AttachVolume", request)
            work.device, work.refusal = device, ""
        except Ec2Unreachable as error:
            _log.info("the outcome of AttachVolume is not known", volume=volume_id, error=str(error))
            work.device = device
        except Ec2Error as error:
            if _is_name_taken(error):
                self._names.refused(request["InstanceId"], device, self._settling.now())
                return False
            if error.code not in ("VolumeInUse", "IncorrectState"):
                raise
            # EC2's description was stale: it refuses by its present state, in which our call may have
            # succeeded.
            work.device, work.refusal = device, str(error)
        finally:
            self._settling.note(_attach(volume_id))
        return True

    def _name(self, instance: Instance, volume: Volume) -> str:
        in_use = [each.device for each in instance.devices] + [instance.root_device]
        device = self._names.give(instance.id, volume.id, in_use, self._settling.now())
        if device is None:
            raise CsiError(Code.RESOURCE_EXHAUSTED, f"all device names of {instance.id} are in use")
        return device

    async def _instance(self, node: str) -> Instance:
        instance = await self._describe.instance(node)
        if instance is None:
            raise CsiError(Code.NOT_FOUND, f"there is no instance {node}")
        if instance.state == "shutting-down":
            raise CsiError(Code.FAILED_PRECONDITION, f"instance {node} is shutting down")
        return instance

    async def _card_count(self, instance_type: str) -> int:
        """The number of EBS cards, from EC2 once for each type; 0 if EC2 does not tell, and EC2 chooses the
        card."""
        if instance_type and instance_type not in self._cards:
            try:
                self._cards[instance_type] = await self._describe.cards(instance_type)
            except EbsError as error:
                _log.warning("EBS cards are not told apart", instance_type=instance_type, error=str(error))
        return self._cards[instance_type]

    # --- detaching

    async def detach(self, volume_id: str, node: str) -> None:
        """Returns when the volume is not attached to the node, or, for an empty node, to none. Raises
        EbsError."""
        if not could_be("vol", volume_id):
            return
        if node:
            await self._detach(volume_id, node)
            return
        await self._settling.settle(_attach(volume_id))
        volume = await self._describe.volume(volume_id)
        for attachment in volume.attachments if volume else ():
            await self._detach(volume_id, attachment.instance_id)

    async def _detach(self, volume_id: str, node: str) -> None:
        if not could_be("i", node):
            return
        self._attaching.pop((volume_id, node), None)
        is_requested = False
        with self._detaches.waiting(volume_id, node) as under_way:
            for polls in itertools.count():
                requested_at = self._settling.now()
                volume = await self._describe.volume(volume_id)
                attachment = volume.attachment(node) if volume else None
                if (
                    is_requested
                    and attachment is None
                    and self._settling.proves(requested_at, _attach(volume_id))
                ):
                    self._settling.note(
                        _detach(volume_id)
                    )  # it ended only now: EC2 may go on showing it a while
                    return
                if volume is not None and attachment is not None:
                    under_way.saw(attachment.state, attachment.device, requested_at)
                    waits_for(shown(volume, node))
                is_due = self._is_request_due(volume_id, attachment, is_requested, requested_at)
                is_gone = is_due and await self._request_detach(volume_id, node)
                # An AttachVolume without an answer may be carried out still: then descriptions tell.
                if is_gone and not self._settling.is_recent(_attach(volume_id)):
                    return
                is_requested = True
                await sleep(poll_pause_s(self._describe.batching, polls))

    def _is_request_due(
        self, volume_id: str, attachment: Attachment | None, is_requested: bool, requested_at: float
    ) -> bool:
        """DetachVolume is sent once in any case, because the description may be stale (but not while EC2
        shows the attachment as detaching), and again if a proven description still shows it attached."""
        if attachment is not None and attachment.state in ("detaching", "busy"):
            return False
        if not is_requested:
            return True
        return attachment is not None and self._settling.proves(requested_at, _detach(volume_id))

    async def _request_detach(self, volume_id: str, node: str) -> bool:
        """Sends DetachVolume. Returns whether EC2 answers that there is nothing to detach."""
        check_not_forgotten(f"volume {volume_id} is not detached from {node}")
        try:
            await self._api.call("DetachVolume", {"VolumeId": volume_id, "InstanceId": node})
        except Ec2Error as error:
            if error.code in NO_VOLUME | NO_INSTANCE | NOT_ATTACHED:
                return True
            if error.code != "IncorrectState":
                raise
            return "'available'" in error.message  # otherwise EC2 is detaching it already
        except BaseException as error:  # EC2 may still carry it out, whatever it shows until then
            self._settling.note(_unanswered_detach(volume_id, node))
            if not isinstance(error, Ec2Unreachable):
                raise
            _log.info("the outcome of DetachVolume is not known", volume=volume_id, error=str(error))
        finally:
            self._settling.note(_detach(volume_id))
        return False


def _is_name_taken(error: Ec2Error) -> bool:
    """Whether EC2 refused the device name. EC2 has no error code for that alone, so the message counts."""
    return error.code == "InvalidDevice.InUse" or (
        error.code == "InvalidParameterValue" and "already in use" in error.message
    )


def _not_attached(volume: Volume, node: str, work: _Attaching) -> CsiError:
    return CsiError(
        Code.FAILED_PRECONDITION,
        f"EC2 does not attach volume {volume.id} to {node}, though it shows it as {volume.state}"
        + (f": {work.refusal}" if work.refusal else ""),
    )


def _attach(volume_id: str) -> str:
    return f"attach {volume_id}"


def _detach(volume_id: str) -> str:
    return f"detach {volume_id}"


def _unanswered_detach(volume_id: str, node: str) -> str:
    return f"unanswered detach {volume_id} {node}"
