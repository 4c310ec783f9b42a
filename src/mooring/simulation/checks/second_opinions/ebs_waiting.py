"""How the driver waits for a volume that EC2 makes, which code its errors have, and its numbers: docs/ebs.md
("Errors", "Flags"), CSI's specification, and upstream's experience (issue 3010)."""

from __future__ import annotations

from collections.abc import Iterator
from hashlib import sha256
from typing import Any

from mooring.csi.errors import Code, CsiError
from mooring.ebs.controller_service import creating, error_codes, provisioning
from mooring.ebs.controller_service.tags import TagPolicy
from mooring.ebs.controller_service.volume_types import TYPES
from mooring.ebs.ec2.buckets import QUOTAS
from mooring.ebs.ec2.records import Volume
from mooring.ebs.errors import EbsError, Ec2Error, Ec2Unreachable
from mooring.ebs.options import Options
from mooring.simulation.checks.second_opinions.ebs_quotas import LISTED
from mooring.simulation.checks.second_opinions.ebs_volumes import IOPS, SIZES
from mooring.simulation.checks.second_opinions.question import Question
from mooring.simulation.parts import ebs_driver

CREATION_S = 60.0
Seen = tuple[bool, float | None]
"""Whether the volume was shown, and since when it is missing."""


def seen(waiting: Any, *_: object) -> Seen:
    return waiting.was_seen, waiting.missing_since


def of_a_wait(
    answer: CsiError | None,
    before: Seen,
    waiting: Any,
    id: str,
    volume: Volume | None,
    requested_at: float,
    at: float,
) -> Iterator[str]:
    """It goes on while EC2 makes the volume, or does not show it yet, for a minute. It is over when the
    volume has failed or is being deleted, or was shown and has been missing for as long as descriptions
    lag."""
    was_seen, since = before
    expected = Code.UNAVAILABLE if requested_at > waiting.began + CREATION_S else Code.OK
    if volume is None:
        since = requested_at if since is None else since
        if was_seen and at >= since + waiting.settle_s:
            expected = Code.FAILED_PRECONDITION
    elif volume.state == "creating":
        was_seen, since = True, None
    else:
        expected = Code.INTERNAL if volume.state == "error" else Code.FAILED_PRECONDITION
    if (answer.code if answer is not None else Code.OK) is not expected:
        yield f"waiting for {id} ({volume.state if volume else 'not shown'}) ends with {answer!r}, not {expected}"
    if seen(waiting) != (was_seen, since):
        yield f"{id} ({volume.state if volume else 'not shown'}) is remembered as {seen(waiting)}"


FINAL = {
    Code.NOT_FOUND: ("NotFound", "Malformed"),
    Code.FAILED_PRECONDITION: ("InUse", "State", "ZoneMismatch", "Revoked", "Operation", "NotPermitted"),
    Code.RESOURCE_EXHAUSTED: ("Exceeded", "Limit", "Capacity", "InZone"),
    Code.PERMISSION_DENIED: (
        *("Unauthorized", "Auth", "Token", "OptIn", "Verification", "Blocked"),
        *("Expired", "Signature", "Denied"),
    ),
    Code.ALREADY_EXISTS: ("Idempotent",),
    Code.INVALID_ARGUMENT: ("Parameter", "Validation", "VolumeType", "Zone", "NotSupported", "TagLimit"),
}
"""What stands in EC2's codes that CSI takes for final: nothing has happened, and nothing will."""


OURS = ("FilterLimitExceeded", "DryRunOperation")
"""What only a mistake of the driver's would bring about."""


def of_a_code(answer: Code, error: EbsError) -> Iterator[str]:
    """What is final for CSI is final at EC2: EC2 has refused it, for a reason that says so. Where nothing is
    known of the outcome nothing is said of it."""
    if isinstance(error, Ec2Error):
        if answer in FINAL and not any(each in error.code for each in FINAL[answer]):
            yield f"{error.code} is told as {answer.name}"
        if answer is Code.INTERNAL and error.code in error_codes.CODES and error.code not in OURS:
            yield f"{error.code} is told as {answer.name}"
    elif answer is not (Code.UNAVAILABLE if isinstance(error, Ec2Unreachable) else Code.INTERNAL):
        yield f"{type(error).__name__} is told as {answer.name}"


def of_a_token(answer: str, name: str, number: int = 1) -> Iterator[str]:
    """64 characters that follow from the name alone; the second is that of name-2."""
    named = [name, *(f"{name}-{each}" for each in range(2, number + 1))][-1]
    if answer != sha256(named.encode()).hexdigest():
        yield f"token {number} of {name} is {answer}"


def of_tags(answer: dict[str, str], policy: TagPolicy) -> Iterator[str]:
    """All that the driver has made, and where the cluster has an id, this one's alone."""
    cluster = {"ebs.csi.aws.com/cluster-name": policy.cluster_id} if policy.cluster_id else {}
    if answer != {"ebs.csi.aws.com/cluster": "true"} | cluster:
        yield f"volumes are listed by {answer}"


DEFAULTS = {
    "batching": True,
    "pacing": True,
    "settle_time": 5.0,
    "modify_volume_request_handler_timeout": 2.0,
}
"""Of the flags that no run gives to the controller, as docs/ebs.md has them."""


def of_options(answer: object, options: Options, api: object, **_: object) -> Iterator[str]:
    """What is not given is as documented; and so are EC2's own numbers."""
    for name, value in DEFAULTS.items():
        if getattr(options, name) != value:
            yield f"--{name.replace('_', '-')} is {getattr(options, name)!r} where it is not given"
    for kind, (smallest, largest) in SIZES.items():
        has, numbers = TYPES[kind], IOPS.get(kind, (0, 0, 0))
        said = has.smallest, has.largest, has.least_iops, has.most_iops, has.iops_per_gib, has.multi_attach
        if said != (smallest, largest, *numbers, kind == "io2"):
            yield f"a volume of type {kind} is said to have {said}"
    for action, numbers in LISTED.items():
        if (QUOTAS[action].capacity, QUOTAS[action].refill) != numbers:
            yield f"{action} is said to have the quota {QUOTAS[action]}"


QUESTIONS = (
    Question(creating._Waiting, "check", of_a_wait, before=seen, refusals=(CsiError,)),  # pyright: ignore[reportPrivateUsage]
    Question(error_codes, "code_of", of_a_code),
    Question(provisioning, "client_token", of_a_token),
    Question(TagPolicy, "listed", of_tags),
    Question(ebs_driver, "make_controller", of_options),
)
