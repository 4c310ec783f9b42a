"""Creating and deleting volumes: never two volumes for one name.

EC2 has no names, so the provisioner recognizes a volume by two things, of which neither is enough alone:

- Its tag `CSIVolumeName`, which is part of the call that creates the volume. But descriptions lag: EC2 may
  not yet show a volume that this process or its predecessor has just created.
- Its client token, made from the name. The same request with the same token gives the same volume, without
  any lag. But a token belongs to a zone: the same request in another zone silently creates another volume.

So the provisioner looks the name up and compares the volume that it finds with the request. If it finds none,
but a call for this name was made less than the lag ago, it waits for the lag and looks again. (For calls of
its predecessor, the start of the process counts. A volume that is found within the lag of the start is looked
up again, too, because the predecessor may just have deleted it.) Only then it creates a volume, in the first
zone that the request prefers. A crash at any point thus leads to the same volume: within the lag the new
process waits; after the lag EC2 shows the tag; and the token covers a repeated request in the same zone.

One case is left: two live controllers create a volume for one name in two zones within the lag. After
creating one, each looks the name up again, and both take the oldest. Neither deletes the other volume, which
may be in use already (upstream issue 918): it stays, and the log names it.

IdempotentParameterMismatch has two meanings. Either the token's volume is deleted (EC2's message says so, or
the name has no volume after the lag): the next token is name-2, then name-3, ..., always in this order, so
that another process finds the same one (upstream issues 1951, 2075). It is sent only while the caller waits:
a process that was frozen, or a request that was throttled, must not make once more what another caller has
had, and deleted. Or the volume exists and was requested with other parameters: it is compared like any volume
that is found.

EC2 answers VolumeLimitExceeded even for a token whose volume exists (upstream issue 2512), so the name is
then looked up again. After a request without an answer no refusal is final: the volume may be there, and not
be shown yet.
"""

from __future__ import annotations

import hashlib
import itertools
from asyncio import sleep
from collections.abc import Generator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from typing import Any

import structlog

from mooring.csi.driver.progress import while_it_waits
from mooring.csi.errors import Code, CsiError
from mooring.ebs.controller_service.creating import available
from mooring.ebs.controller_service.error_codes import NO_VOLUME
from mooring.ebs.controller_service.presence import making
from mooring.ebs.controller_service.tags import specification
from mooring.ebs.controller_service.volume_requests import Wanted, conflict
from mooring.ebs.ec2.api import Ec2Api
from mooring.ebs.ec2.describe import Describe, could_be, poll_pause_s
from mooring.ebs.ec2.records import Fields, Volume
from mooring.ebs.ec2.settling import Settling
from mooring.ebs.errors import Ec2Error, Ec2Unreachable, MalformedAnswer
from mooring.ebs.topology import Place

TOKENS = 200
"""How many volumes of one name may vanish while EC2 remembers their tokens, about twelve hours."""
SEND_TRIES = 3
MISMATCH = "IdempotentParameterMismatch"

_log = structlog.get_logger(__name__)
_ALIVE = frozenset({"creating", "available", "in-use", "error"})


class Provisioner:
    """Makes and deletes volumes, many at once."""

    def __init__(self, api: Ec2Api, describe: Describe, settling: Settling) -> None:
        self._api = api
        self._describe = describe
        self._settling = settling
        self._zones: tuple[str, ...] = ()
        self._spent: dict[str, int] = {}
        """By name: the number of the token that this process came to last. Another process finds it by trying
        the numbers in order."""

    # --- making

    async def create(self, wanted: Wanted) -> Volume:
        """Returns the volume of that name when it is available. Raises CsiError, EbsError."""
        volume = await self._existing(wanted) or await self._make(wanted)
        with _there_may_be_one(wanted):
            volume = await self._available(volume, wanted)
            oldest = await self._lookup(wanted.name) or volume
            if oldest.id != volume.id:
                _check_same(oldest, wanted)
                return await self._available(oldest, wanted)
        _check_same(volume, wanted)
        self._settling.note(making(volume.id))
        self._spent.pop(wanted.name, None)
        return volume

    async def _existing(self, wanted: Wanted) -> Volume | None:
        found = await self._settling.looked_up(lambda: self._lookup(wanted.name), _create(wanted.name))
        if found is not None:
            _check_same(found, wanted)
        return found

    async def _lookup(self, name: str) -> Volume | None:
        """The oldest live volume of the name, or None."""
        found = [
            volume
            for volume in await self._describe.volumes_named(name)
            if volume.state in _ALIVE and not self._settling.is_recent(_delete(volume.id))
        ]
        if len(found) > 1:
            _log.error(
                "there are several volumes for one name: the first is used, delete the others unless they are in use",
                name=name, volumes=[volume.id for volume in found],
            )  # fmt: skip
        return found[0] if found else None

    async def _make(self, wanted: Wanted) -> Volume:
        action, request = await self._request(wanted)
        first = self._spent.get(wanted.name, 1)
        for number in range(first, TOKENS + 1):
            self._spent[wanted.name] = number
            numbered = {**request, "ClientToken": client_token(wanted.name, number)}
            try:
                async with while_it_waits() if number > first else nullcontext():
                    return _made(await self._send(action, numbered, wanted), action, wanted)
            except TimeoutError:  # what the caller wanted may have gone with the volume
                raise CsiError(
                    Code.UNAVAILABLE, f"volume {wanted.name} was deleted while it was being made: try again"
                ) from None
            except Ec2Error as error:
                found = await self._instead(error, wanted)
            if found is not None:
                return found
        raise CsiError(
            Code.INTERNAL,
            f"volume {wanted.name}: EC2 has used up {TOKENS} client tokens for this name: take another name",
        )

    async def _send(self, action: str, request: Mapping[str, Any], wanted: Wanted) -> Mapping[str, Any]:
        """Sends the request, and again if there was no answer: the client token makes that idempotent. A
        refusal then says nothing of the request before; a token that does not match is looked into."""
        for attempt in itertools.count(1):
            try:
                return await self._api.call(action, request)
            except Ec2Unreachable:
                if attempt == SEND_TRIES:
                    raise
            except Ec2Error as error:
                if attempt == 1 or error.code == MISMATCH:
                    raise
                raise Ec2Unreachable(f"{action}: there was no answer, and then {error}") from error
            finally:
                self._settling.note(_create(wanted.name))
            await sleep(attempt)
        raise AssertionError("unreachable: the attempts have an end")

    async def _instead(self, error: Ec2Error, wanted: Wanted) -> Volume | None:
        """After a refusal: the existing volume of the name, or None if another token is needed. Raises any
        other error."""
        if error.code == MISMATCH:
            if "deleted" in error.message:
                return None
            await self._settling.settle(_create(wanted.name))
            return await self._checked(wanted)
        if error.code in ("VolumeLimitExceeded", "MaxIOPSLimitExceeded"):
            found = await self._checked(wanted)
            if found is not None:
                return found
        raise error

    async def _checked(self, wanted: Wanted) -> Volume | None:
        with _there_may_be_one(wanted):
            found = await self._lookup(wanted.name)
        if found is not None:
            _check_same(found, wanted)
        return found

    async def _request(self, wanted: Wanted) -> tuple[str, dict[str, Any]]:
        request: dict[str, Any] = {
            "Size": wanted.size,
            "VolumeType": wanted.parameters.type,
            "TagSpecifications": specification("volume", wanted.tags),
        }
        optional = {
            "Iops": wanted.iops,
            "Throughput": wanted.parameters.throughput,
            "Encrypted": wanted.parameters.encrypted,
            "KmsKeyId": wanted.parameters.kms_key_id,
            "MultiAttachEnabled": wanted.multi_attach,
        }
        request |= {name: value for name, value in optional.items() if value}
        if wanted.source_volume:
            return "CopyVolumes", {**request, "SourceVolumeId": wanted.source_volume}
        if wanted.snapshot:
            request["SnapshotId"] = wanted.snapshot
        if wanted.parameters.initialization_rate:
            request["VolumeInitializationRate"] = wanted.parameters.initialization_rate
        return "CreateVolume", {**request, **await self._zone(wanted.places)}

    async def _zone(self, places: Sequence[Place]) -> dict[str, str]:
        if places:
            place = places[0]
            return {"AvailabilityZone": place.zone} if place.zone else {"AvailabilityZoneId": place.zone_id}
        if not self._zones:
            self._zones = await self._describe.zones()
        if not self._zones:
            raise MalformedAnswer("DescribeAvailabilityZones: there is no zone in this region")
        return {"AvailabilityZone": self._zones[0]}

    async def _available(self, made: Volume, wanted: Wanted) -> Volume:
        return await available(self._describe, self._settling, made, wanted)

    # --- deleting

    async def delete(self, volume_id: str) -> None:
        """Returns when EC2 is deleting the volume, or has no such volume. Raises EbsError, also if it is in
        use."""
        if not could_be("vol", volume_id):
            return
        try:
            await self._api.call("DeleteVolume", {"VolumeId": volume_id})
        except Ec2Error as error:
            if error.code in NO_VOLUME:
                return
            if error.code != "IncorrectState" or not await self._is_being_deleted(volume_id):
                raise
        self._settling.note(_delete(volume_id))

    async def _is_being_deleted(self, volume_id: str) -> bool:
        """Whether EC2 refused because it is deleting the volume already. Waits for a description that is
        younger than the refusal."""
        refused = f"refused {volume_id}"
        self._settling.note(refused)
        for polls in itertools.count():
            requested_at = self._settling.now()
            volume = await self._describe.volume(volume_id)
            if volume is None or volume.state in ("deleting", "deleted"):
                return True
            if self._settling.proves(requested_at, refused):
                return False
            await sleep(poll_pause_s(self._describe.batching, polls))
        raise AssertionError("unreachable: the questions have no end")


def client_token(name: str, number: int = 1) -> str:
    """The `number`-th token of the name: 64 characters, as many as EC2 takes (upstream issue 1038)."""
    return hashlib.sha256(f"{name}-{number}".encode() if number > 1 else name.encode()).hexdigest()


@contextmanager
def _there_may_be_one(wanted: Wanted) -> Generator[None, None, None]:
    """While entered, what EC2 refuses is a question about a volume that it has made, or may have made: the
    credentials have expired meanwhile, say. That is no refusal to make it."""
    try:
        yield
    except Ec2Error as error:
        raise Ec2Unreachable(f"what has become of volume {wanted.name} is not told: {error}") from error


def _made(answer: Mapping[str, Any], action: str, wanted: Wanted) -> Volume:
    fields = Fields(answer, action)
    if action == "CopyVolumes":
        made = fields.each("Volumes", lambda one: one)
        if len(made) != 1:
            raise MalformedAnswer(f"{action}: {len(made)} volumes are made instead of one")
        (fields,) = made
    return Volume(
        id=fields.text("VolumeId"),
        state=fields.text("State", "creating"),
        size=wanted.size,
        type=wanted.parameters.type,
        zone=fields.text("AvailabilityZone", ""),
    )


def _check_same(volume: Volume, wanted: Wanted) -> None:
    if problem := conflict(volume, wanted):
        raise CsiError(
            Code.ALREADY_EXISTS,
            f"there is a volume {volume.id} of the name {wanted.name}, but {problem}: take another name",
        )


def _create(name: str) -> str:
    return f"create {name}"


def _delete(volume_id: str) -> str:
    return f"delete {volume_id}"
