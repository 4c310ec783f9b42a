"""EC2's error codes and CSI's code for each: the one place where this is decided. Pure.

A code that CSI takes for final ("nothing has happened, and will not happen later") is given only where that
is true. An action that EC2 may have carried out, or may still be carrying out, is UNAVAILABLE or ABORTED: the
orchestrator then retries and forgets nothing. More precise than upstream (`INTERNAL` or `ABORTED` for nearly
everything): in use is FAILED_PRECONDITION, out of quota or capacity RESOURCE_EXHAUSTED, a failure of EC2
itself UNAVAILABLE, missing permissions PERMISSION_DENIED.
"""

from __future__ import annotations

from collections.abc import Generator, Mapping
from contextlib import contextmanager

from mooring.csi.errors import Code, CsiError
from mooring.ebs.errors import EbsError, Ec2Error, Ec2Unreachable, MalformedAnswer

NO_VOLUME = frozenset({"InvalidVolume.NotFound", "InvalidVolumeID.Malformed", "InvalidVolumeID.NotFound"})
NO_INSTANCE = frozenset({"InvalidInstanceID.NotFound", "InvalidInstanceID.Malformed"})
NO_SNAPSHOT = frozenset({"InvalidSnapshot.NotFound", "InvalidSnapshotID.Malformed"})
NOT_ATTACHED = frozenset({"InvalidAttachment.NotFound"})

CODES: Mapping[str, Code] = {
    **dict.fromkeys((*NO_VOLUME, *NO_INSTANCE, *NO_SNAPSHOT), Code.NOT_FOUND),
    "InvalidAttachment.NotFound": Code.NOT_FOUND,
    "InvalidVolumeModification.NotFound": Code.NOT_FOUND,
    # The request itself is wrong.
    "InvalidParameter": Code.INVALID_ARGUMENT,
    "InvalidParameterCombination": Code.INVALID_ARGUMENT,
    "InvalidParameterDependency": Code.INVALID_ARGUMENT,
    "InvalidParameterValue": Code.INVALID_ARGUMENT,
    "MissingParameter": Code.INVALID_ARGUMENT,
    "ValidationError": Code.INVALID_ARGUMENT,
    "UnknownVolumeType": Code.INVALID_ARGUMENT,
    "InvalidZone.NotFound": Code.INVALID_ARGUMENT,
    "UnknownParameter": Code.INVALID_ARGUMENT,
    "EncryptedVolumesNotSupported": Code.INVALID_ARGUMENT,
    "TagLimitExceeded": Code.INVALID_ARGUMENT,
    "FilterLimitExceeded": Code.INTERNAL,
    "InvalidParameterValueException": Code.INVALID_ARGUMENT,
    # The present state of a resource forbids it.
    "VolumeInUse": Code.FAILED_PRECONDITION,
    "IncorrectState": Code.FAILED_PRECONDITION,
    "IncorrectInstanceState": Code.FAILED_PRECONDITION,
    "IncorrectModificationState": Code.FAILED_PRECONDITION,
    "InvalidSnapshot.InUse": Code.FAILED_PRECONDITION,
    "InvalidVolume.ZoneMismatch": Code.FAILED_PRECONDITION,
    "InvalidVolumeID.ZoneMismatch": Code.FAILED_PRECONDITION,
    "InvalidDevice.InUse": Code.FAILED_PRECONDITION,
    "CustomerKeyHasBeenRevoked": Code.FAILED_PRECONDITION,
    "UnsupportedOperation": Code.FAILED_PRECONDITION,
    "UnsupportedOperationException": Code.FAILED_PRECONDITION,
    "OperationNotPermitted": Code.FAILED_PRECONDITION,
    "IdempotentParameterMismatch": Code.ALREADY_EXISTS,
    # A quota or EC2's capacity is exhausted.
    "AttachmentLimitExceeded": Code.RESOURCE_EXHAUSTED,
    "VolumeLimitExceeded": Code.RESOURCE_EXHAUSTED,
    "MaxIOPSLimitExceeded": Code.RESOURCE_EXHAUSTED,
    "VolumeTypeNotAvailableInZone": Code.RESOURCE_EXHAUSTED,
    "InsufficientVolumeCapacity": Code.RESOURCE_EXHAUSTED,
    "SnapshotLimitExceeded": Code.RESOURCE_EXHAUSTED,
    "PendingSnapshotLimitExceeded": Code.RESOURCE_EXHAUSTED,
    "ConcurrentSnapshotLimitExceeded": Code.RESOURCE_EXHAUSTED,
    "SnapshotCreationPerVolumeRateExceeded": Code.RESOURCE_EXHAUSTED,
    "VolumeModificationSizeLimitExceeded": Code.RESOURCE_EXHAUSTED,
    "VolumeModificationRateExceeded": Code.RESOURCE_EXHAUSTED,
    "VolumeIOPSLimit": Code.RESOURCE_EXHAUSTED,
    # Credentials and permissions.
    "UnauthorizedOperation": Code.PERMISSION_DENIED,
    "AuthFailure": Code.PERMISSION_DENIED,
    "InvalidClientTokenId": Code.PERMISSION_DENIED,
    "OptInRequired": Code.PERMISSION_DENIED,
    "PendingVerification": Code.PERMISSION_DENIED,
    "Blocked": Code.PERMISSION_DENIED,
    "RequestExpired": Code.PERMISSION_DENIED,
    "ExpiredToken": Code.PERMISSION_DENIED,
    "ExpiredTokenException": Code.PERMISSION_DENIED,
    "SignatureDoesNotMatch": Code.PERMISSION_DENIED,
    "IncompleteSignature": Code.PERMISSION_DENIED,
    "MissingAuthenticationToken": Code.PERMISSION_DENIED,
    "AccessDenied": Code.PERMISSION_DENIED,
    "AccessDeniedException": Code.PERMISSION_DENIED,
    # EC2 itself fails.
    "RequestLimitExceeded": Code.UNAVAILABLE,
    "Unavailable": Code.UNAVAILABLE,
    "ServiceUnavailable": Code.UNAVAILABLE,
    "InternalError": Code.UNAVAILABLE,
    "InternalFailure": Code.UNAVAILABLE,
    "InsufficientInstanceCapacity": Code.RESOURCE_EXHAUSTED,
    "DryRunOperation": Code.INTERNAL,
}
"""Sources: EC2's API reference, "Error codes", and upstream's issues."""


def code_of(error: EbsError) -> Code:
    """CSI's code for the error. An unknown one is INTERNAL, which clients take for an unknown outcome."""
    if isinstance(error, Ec2Error):
        return CODES.get(error.code, Code.INTERNAL)
    return Code.UNAVAILABLE if isinstance(error, Ec2Unreachable) else Code.INTERNAL


@contextmanager
def answering(what: str) -> Generator[None]:
    """While entered, an EbsError becomes a CsiError that names what was tried ("attach vol-1 to i-1")."""
    try:
        yield
    except EbsError as error:
        hint = _hint(error)
        raise CsiError(code_of(error), f"could not {what}: {error}{'; ' + hint if hint else ''}") from error


def _hint(error: EbsError) -> str:
    if isinstance(error, MalformedAnswer):
        return "is this really EC2's endpoint?"
    if isinstance(error, Ec2Unreachable):
        return "EC2 may have done it all the same; the next try will see"
    code = error.code if isinstance(error, Ec2Error) else ""
    return HINTS.get(code, "")


HINTS: Mapping[str, str] = {
    "AttachmentLimitExceeded": "the instance has as many volumes and interfaces as its type allows",
    "VolumeLimitExceeded": "delete volumes, or ask Amazon for a higher quota",
    "MaxIOPSLimitExceeded": "ask for fewer IOPS, or Amazon for a higher quota",
    "UnauthorizedOperation": "the driver's IAM policy lacks this action",
    "AuthFailure": "give the controller credentials that EC2 takes",
    "RequestExpired": "the credentials have expired, or this machine's clock is wrong",
    "VolumeModificationRateExceeded": "a volume can be modified four times in any 24 hours",
}
"""Advice, where EC2's own message gives none."""
