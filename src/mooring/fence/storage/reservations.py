"""What sg_persist prints of a disk's persistent reservation. Pure."""

from __future__ import annotations

import hashlib
import re
from dataclasses import dataclass

_KEY = re.compile(r"^\s+0x([0-9a-fA-F]{1,16})\s*$", re.MULTILINE | re.ASCII)
_HOLDER = re.compile(r"Key=0x([0-9a-fA-F]{1,16})", re.ASCII)
_TYPE = re.compile(r"scope:\s*\S+,\s+type:\s*([A-Za-z ,]+?)\s*$", re.MULTILINE)
TYPES = {
    "write exclusive, registrants only": 5,
    "exclusive access, registrants only": 6,
    "write exclusive, all registrants": 7,
    "exclusive access, all registrants": 8,
}
"""Those under which who is not registered cannot write, and all who are can (SPC-4)."""


class Unreadable(Exception):
    """It is not what sg_persist prints."""


@dataclass(frozen=True)
class Reservation:
    """`type` is 0 if there is none, -1 if it is one that lets only its holder write."""

    type: int = 0
    holder: int = 0


def keys(output: str) -> set[int]:
    """From `--in --read-keys`. Raises Unreadable."""
    if "NO registered reservation keys" in output:
        return set()
    found = {int(each, 16) for each in _KEY.findall(output)}
    if not found or "PR generation" not in output:
        raise Unreadable("sg_persist --read-keys printed no keys")
    return found


def reservation(output: str) -> Reservation:
    """From `--in --read-reservation`. Raises Unreadable."""
    if "NO reservation held" in output:
        return Reservation()
    holder, kind = _HOLDER.search(output), _TYPE.search(output)
    if holder is None or kind is None:
        raise Unreadable("sg_persist --read-reservation printed no reservation")
    return Reservation(TYPES.get(kind[1].lower(), -1), int(holder[1], 16))


def own_key(node: str, token: str) -> int:
    """The fence's own, never 0."""
    return int.from_bytes(hashlib.sha256(f"{node} {token}".encode()).digest()[:8], "big") | 1


def ended_key(own: int) -> int:
    """Says, in the place of that one: each of the machine's keys was preempted, and its commands aborted."""
    return own_key("ended", hex(own))


def key(text: str) -> int:
    """A key as a parameter. Raises ValueError."""
    if not re.fullmatch(r"0x[0-9a-fA-F]{1,16}", text.strip()) or int(text, 16) == 0:
        raise ValueError(f"{text!r} is no reservation key: 0x1 to 0xffffffffffffffff")
    return int(text, 16)
