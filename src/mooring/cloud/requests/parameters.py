"""Reading a request's parameters, with EC2's own errors for missing ones and wrong types.

Pure. Requests have boto3's names and types; they come from any client, so everything is checked.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple, NoReturn, cast

from mooring.cloud.errors import Ec2Error

Request = Mapping[str, Any]

_ID = {
    "vol": ("InvalidVolumeID.Malformed", "InvalidVolume.NotFound", "volume"),
    "snap": ("InvalidSnapshotID.Malformed", "InvalidSnapshot.NotFound", "snapshot"),
    "i": ("InvalidInstanceID.Malformed", "InvalidInstanceID.NotFound", "instance ID"),
}
_PATTERN = re.compile(r"(vol|snap|i)-(?:[0-9a-f]{8}|[0-9a-f]{17})")

_NO_TEXT = re.compile(r"[\ud800-\udfff]")


def invalid(name: str, value: object, because: str) -> NoReturn:
    """Raises Ec2Error (InvalidParameterValue) for a parameter's value."""
    raise Ec2Error("InvalidParameterValue", f"Value ({value}) for parameter {name} is invalid. {because}")


def missing(name: str) -> NoReturn:
    """Raises Ec2Error (MissingParameter)."""
    raise Ec2Error("MissingParameter", f"The request must contain the parameter {name}")


def text(request: Request, name: str, *, required: bool = False) -> str:
    """A string; "" if it is absent."""
    value = request.get(name)
    if value is None or value == "":
        if required:
            missing(name)
        return ""
    return _text(name, value)


def _text(name: str, value: object) -> str:
    if not isinstance(value, str) or _NO_TEXT.search(value):
        invalid(name, repr(value), "It must be a string of Unicode characters.")
    return value


def number(request: Request, name: str) -> int | None:
    """An integer; None if it is absent."""
    value = request.get(name)
    if value is None:
        return None
    if isinstance(value, bool) or not isinstance(value, int) or not -(2**63) <= value < 2**63:
        invalid(name, value, "It must be an integer.")
    return value


def flag(request: Request, name: str) -> bool:
    """A boolean; False if it is absent."""
    value = request.get(name)
    if value is not None and not isinstance(value, bool):
        invalid(name, value, "It must be true or false.")
    return bool(value)


def items(request: Request, name: str) -> list[Any]:
    """A list; empty if it is absent."""
    value = request.get(name)
    if value is None:
        return []
    if not isinstance(value, (list, tuple)):
        invalid(name, value, "It must be a list.")
    return list(cast(Sequence[Any], value))


def structures(request: Request, name: str) -> list[Request]:
    """A list of structures."""
    found = items(request, name)
    for each in found:
        if not isinstance(each, Mapping):
            invalid(name, each, "It must be a structure.")
    return cast(list[Request], found)


def structure(request: Request, name: str) -> Request:
    """A structure; empty if it is absent."""
    value = request.get(name)
    if value is None:
        return {}
    if not isinstance(value, Mapping):
        invalid(name, value, "It must be a structure.")
    return cast(Request, value)


def texts(request: Request, name: str) -> list[str]:
    """A list of strings without repetitions, in their order."""
    found = items(request, name)
    return list(dict.fromkeys(_text(name, each) for each in found))


def check_id(id: str, prefix: str) -> str:
    """Returns the id if it has the form of its kind ("vol", "snap", "i"). Raises Ec2Error
    (Invalid...ID.Malformed)."""
    match = _PATTERN.fullmatch(id)
    if match is None or match[1] != prefix:
        raise Ec2Error(_ID[prefix][0], f'Invalid id: "{id}" (expecting "{prefix}-...")')
    return id


def not_found(prefix: str, ids: Sequence[str]) -> Ec2Error:
    """The error for ids that do not exist; it names these and no others."""
    _, code, kind = _ID[prefix]
    if len(ids) > 1:
        return Ec2Error(code, f"The {kind}s '{', '.join(ids)}' do not exist")
    return Ec2Error(code, f"The {kind} '{ids[0]}' does not exist.")


def one_id(request: Request, name: str, prefix: str) -> str:
    """A required id. Raises Ec2Error (MissingParameter, Invalid...ID.Malformed)."""
    return check_id(text(request, name, required=True), prefix)


def ids(request: Request, name: str, prefix: str) -> list[str]:
    """A list of ids, each once. Raises Ec2Error (Invalid...ID.Malformed)."""
    return [check_id(id, prefix) for id in texts(request, name)]


class Filter(NamedTuple):
    """One of a describe's filters: any of the values, where * and ? stand for any characters and any one."""

    name: str
    values: tuple[str, ...]


def filters(request: Request) -> list[Filter]:
    """The filters of a describe. Raises Ec2Error; FilterLimitExceeded for more than 200 values."""
    found: list[Filter] = []
    for each in structures(request, "Filters"):
        name = text(each, "Name")
        values = tuple(str(value) for value in items(each, "Values"))
        if not name or not values:
            raise Ec2Error(
                "InvalidParameterValue", f"The filter '{name or 'null'}' has no {'value' if name else 'name'}"
            )
        found.append(Filter(name, values))
    if sum(len(each.values) for each in found) > 200:
        raise Ec2Error(
            "FilterLimitExceeded",
            "The maximum number of filter values specified on a single call is 200",
        )
    return found
