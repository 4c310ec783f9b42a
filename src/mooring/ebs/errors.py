"""The errors of EC2, as the driver sees them.

EbsError
├── Ec2Error                 EC2 refused: `code` as in its table of error codes
│   └── (codes are data: see `NOT_FOUND`, `THROTTLED`, ...; CSI's answer to each is in
│       `controller_service.error_codes`)
├── Ec2Unreachable           no answer: the request may have been carried out, or may still be
├── MalformedAnswer          EC2 (or a stand-in) gave an answer that EC2 never gives
└── MetadataError            the instance metadata service did not answer what the driver must know
"""

from __future__ import annotations


class EbsError(Exception):
    """Base of all errors of `mooring.ebs`."""


class Ec2Error(EbsError):
    """EC2 refused `action`; nothing has happened."""

    def __init__(self, code: str, message: str, action: str = "") -> None:
        self.code = code
        self.message = message
        self.action = action
        super().__init__(f"{action + ': ' if action else ''}{code}: {message}")


class Ec2Unreachable(EbsError):
    """There was no answer (connection, time-out, 5xx without a code): the outcome is unknown."""


class MalformedAnswer(EbsError):
    """An answer that lacks what EC2 always gives, or contradicts itself."""


class MetadataError(EbsError):
    """The driver could not learn what it must know of its own instance; the message names the flags that give
    it."""
