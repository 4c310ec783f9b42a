"""How requests fail: with EC2's own codes and, where its wording is known, its messages.

CloudError
├── Ec2Error             the answer to a request: code, message, HTTP status
├── VolumeBusy           a block device is in use and cannot be taken away: `holders` names the users
└── DataDirectoryError   the data directory cannot be used; the message says why
"""

from __future__ import annotations

from collections.abc import Sequence


class CloudError(Exception):
    """Base of all errors of `mooring.cloud`."""


class Ec2Error(CloudError):
    """The answer to one request. `code` as in EC2's table of error codes, `status` the HTTP status."""

    def __init__(self, code: str, message: str, status: int = 400) -> None:
        self.code = code
        self.message = message
        self.status = status
        super().__init__(f"{code}: {message}")


class VolumeBusy(CloudError):
    """The instance still uses the volume's device; `holders` describes each user."""

    def __init__(self, volume_id: str, holders: Sequence[str] = ()) -> None:
        self.volume_id = volume_id
        self.holders = tuple(holders)
        super().__init__(f"{volume_id} is in use{': ' + '; '.join(holders) if holders else ''}")


class DataDirectoryError(CloudError):
    """The data directory cannot be used."""
