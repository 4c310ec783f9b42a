"""Device names of volumes on an instance: which are valid, and which are spellings of the same name.

Pure. The names are those of the EC2 User Guide ("Device names for volumes on Amazon EC2 instances") for HVM
instances: /dev/sd[a-z], /dev/xvd[a-d][a-z] and /dev/xvd[e-z]; the older /dev/xvd[b-z] and a partition number
after sd are taken too, as EC2 does. /dev/sdf, /dev/xvdf, sdf and xvdf are one name (upstream EBS driver,
issue 1674).
"""

from __future__ import annotations

import re

from mooring.cloud.errors import Ec2Error

_NAME = re.compile(r"(?:/dev/)?(?:sd(?P<sd>[a-z](?:[1-9]|1[0-5])?)|xvd(?P<xvd>[a-z]|[a-d][a-z]))")


def check(device: str) -> str:
    """Returns the name if it is valid. Raises Ec2Error (InvalidParameterValue)."""
    if not _NAME.fullmatch(device):
        raise Ec2Error(
            "InvalidParameterValue",
            f"Value ({device}) for parameter device is invalid. {device} is not a valid EBS device name.",
        )
    return device


def same(device: str) -> str:
    """One spelling for all spellings of a name; the root device's partition counts as the root device."""
    match = _NAME.fullmatch(device)
    if match is None:
        return device
    letters = match["sd"] or match["xvd"]
    return "a" if letters == "a1" else letters
