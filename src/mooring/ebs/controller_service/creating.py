"""Waiting for a volume that EC2 is creating: until it can be used, or certainly never will be."""

from __future__ import annotations

import itertools
from asyncio import sleep
from dataclasses import dataclass

from mooring.csi.errors import Code, CsiError
from mooring.ebs.controller_service.volume_requests import Wanted
from mooring.ebs.ec2.describe import Describe, poll_pause_s
from mooring.ebs.ec2.records import Volume
from mooring.ebs.ec2.settling import Settling

CREATION_S = 60.0
"""The longest wait, in seconds; most volumes take 1.5 s, nearly all less than 4 s."""
USABLE = frozenset({"available", "in-use"})


async def available(describe: Describe, settling: Settling, made: Volume, wanted: Wanted) -> Volume:
    """Returns the volume when it can be used. Raises CsiError if it vanishes, fails, or takes too long."""
    waiting = _Waiting(wanted, settling.settle_s, settling.now(), was_seen=made.state in USABLE)
    for polls in itertools.count():
        requested_at = settling.now()
        volume = await describe.volume(made.id)
        if volume is not None and volume.state in USABLE:
            return volume
        waiting.check(made.id, volume, requested_at, settling.now())
        await sleep(poll_pause_s(describe.batching, polls))
    raise AssertionError("unreachable: the questions have no end")


@dataclass
class _Waiting:
    """What the descriptions so far have shown of a volume. Times are the event loop's, in seconds."""

    wanted: Wanted
    settle_s: float
    began: float
    was_seen: bool
    missing_since: float | None = None

    def check(self, id: str, volume: Volume | None, requested_at: float, now: float) -> None:
        """`volume` is EC2's answer to a request made at `requested_at`. Raises CsiError if waiting is
        over."""
        if volume is None:
            self.missing_since = requested_at if self.missing_since is None else self.missing_since
            if self.was_seen and now - self.missing_since >= self.settle_s:
                raise _vanished(id, self.wanted)
        elif volume.state == "creating":
            self.was_seen, self.missing_since = True, None
        elif volume.state == "error":
            raise CsiError(
                Code.INTERNAL,
                f"volume {id} for {self.wanted.name} went wrong at EC2: delete it there, then try again",
            )
        else:
            raise _vanished(id, self.wanted)
        if requested_at - self.began > CREATION_S:
            problem = "is still being created" if self.was_seen else "is not shown"
            raise CsiError(
                Code.UNAVAILABLE, f"volume {id} for {self.wanted.name} {problem} after {CREATION_S:g} s"
            )


def _vanished(volume_id: str, wanted: Wanted) -> CsiError:
    """The error for a volume that was shown and is gone. The usual cause is its KMS key, which EC2 checks
    only after it has answered CreateVolume (upstream issue 3010)."""
    key = wanted.parameters.kms_key_id
    if wanted.parameters.encrypted:
        cause = (
            f"most likely the KMS key {key or '(the default one)'} does not exist, is disabled, or may not be used "
            "by the driver's role: kms:CreateGrant, kms:GenerateDataKeyWithoutPlaintext, kms:Decrypt"
        )
    else:
        cause = "was it deleted by hand? If volumes are encrypted by default, look at the default KMS key"
    return CsiError(
        Code.FAILED_PRECONDITION,
        f"EC2 made volume {volume_id} for {wanted.name}, and then it vanished: {cause}",
    )
