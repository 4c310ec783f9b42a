"""How EC2 fails, as the driver sees it.

EbsError
├── Ec2Error                 EC2 refused: `code` as in its table of error codes
│   └── (codes are data: see `NOT_FOUND`, `THROTTLED`, ...; CSI's answer to each is in
│       `controller_service.error_codes`)
├── Ec2Unreachable           no answer: the request may have been carried out, or may still be
├── MalformedAnswer          EC2 (or what stands in its place) answered something that cannot be
└── MetadataError            the instance metadata service did not say what the driver must know
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
    """There was no answer (connection, time-out, 5xx without a code): whether it happened is not known."""


class MalformedAnswer(EbsError):
    """An answer without what EC2 always says, or that contradicts itself."""


class MetadataError(EbsError):
    """What the driver must know about its own instance could not be learnt; the message says how to tell
    it."""
