"""What `nvme resv-report --eds --output-format=json` prints of a namespace's reservation. Pure.

Of the forms that nvme-cli has had: `regctl` and `regctlext`, from 3.0 on `regstrnt` and `registrantext`. The
report without --eds (`regctls`) has host identifiers of 64 bits, which are not read here. nvme-cli up to 2.x
asks for 4 KiB at most and leaves out the registrants beyond, without a word: the number that the namespace
tells is compared with what is listed.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, cast

from mooring.fence.identity import is_uuid
from mooring.fence.storage.reservations import Reservation, Unreadable

FOR_ONE = (1, 2)
"""Reservation types under which the holder alone may write (NVM Express Base Specification, Reservation Type
Encoding)."""
FOR_REGISTRANTS = (3, 4, 5, 6)
"""Those under which all that are registered may write, and who is not cannot."""
_FORMS = (("regctl", "regctlext"), ("regstrnt", "registrantext"))
_HOST = re.compile(r"[0-9a-fA-F]{32}", re.ASCII)
_HELD = 1
"""Bit of the reservation status: this host holds the reservation."""


@dataclass(frozen=True)
class Registrant:
    """A host that is registered, by one of its controllers. `host`: its host identifier, 32 hexadecimal
    digits in the order of its bytes."""

    key: int
    host: str
    holds: bool


@dataclass(frozen=True)
class Report:
    """`reservation.type` is -1 if it is one that lets only its holder write."""

    registrants: tuple[Registrant, ...]
    reservation: Reservation


def parse(output: str) -> Report:
    """Raises Unreadable."""
    try:
        read: object = json.loads(output)
    except (ValueError, RecursionError):
        raise Unreadable("nvme resv-report printed no JSON") from None
    found = _mapping(read)
    for count, listing in _FORMS:
        if count in found and listing in found:
            registrants = tuple(map(_registrant, _listed(found[listing], _number(found, count, 1 << 16))))
            return Report(registrants, _reservation(_number(found, "rtype", 1 << 8), registrants))
    raise Unreadable("nvme resv-report printed no registrants with host identifiers of 128 bits")


def _listed(listing: object, count: int) -> list[object]:
    if not isinstance(listing, list):
        raise Unreadable("nvme resv-report printed no list of registrants")
    rows = cast("list[object]", listing)
    if len(rows) != count:
        raise Unreadable(f"nvme resv-report printed {len(rows)} of {count} registrants")
    return rows


def _registrant(row: object) -> Registrant:
    found = _mapping(row)
    host, key = found.get("hostid"), _number(found, "rkey", 1 << 64)
    if not isinstance(host, str) or not _HOST.fullmatch(host) or not is_uuid(host):
        raise Unreadable("nvme resv-report printed a controller whose host is not known")
    if not key:
        raise Unreadable("nvme resv-report printed a registrant without a key")
    return Registrant(key, host.lower(), bool(_number(found, "rcsts", 1 << 8) & _HELD))


def _reservation(kind: int, registrants: tuple[Registrant, ...]) -> Reservation:
    holders = [each for each in registrants if each.holds]
    if kind == 0 and not holders:
        return Reservation()
    if not holders or kind not in (*FOR_ONE, *FOR_REGISTRANTS):
        raise Unreadable(f"nvme resv-report printed a reservation of type {kind} with {len(holders)} holders")
    return Reservation(kind if kind in FOR_REGISTRANTS else -1, holders[0].key)


def _mapping(value: object) -> Mapping[str, Any]:
    if not isinstance(value, dict):
        raise Unreadable("nvme resv-report printed JSON of another form")
    return cast("dict[str, Any]", value)


def _number(found: Mapping[str, Any], name: str, below: int) -> int:
    value = found.get(name)
    if not isinstance(value, int) or isinstance(value, bool) or not 0 <= value < below:
        raise Unreadable(f"nvme resv-report printed no {name}")
    return value
