"""What `ceph --format json` prints of a cluster's blocklist and of its storage daemons. Pure."""

from __future__ import annotations

import json
import re
from datetime import datetime
from ipaddress import ip_address
from typing import NamedTuple, TypeVar

import msgspec

_WHOLE = re.compile(r"\s*(?:v[12]:|any:)?\[?([0-9a-fA-F.:]+?)\]?:0/0\s*", re.ASCII)
"""An address with all its ports: what stands for one client has a nonce."""
_ENDPOINT = re.compile(r"(?:\[[0-9a-fA-F.:]+\]|[A-Za-z0-9][-A-Za-z0-9.]{0,252}):([0-9]{1,5})", re.ASCII)


T = TypeVar("T")


class Unreadable(Exception):
    """It is not what ceph prints."""


class OsdMap(NamedTuple):
    """`up`: the daemons that serve."""

    epoch: int
    up: tuple[int, ...]


class _Entry(msgspec.Struct):
    addr: str
    until: str


class _Daemon(msgspec.Struct):
    osd: int
    up: int


class _Map(msgspec.Struct):
    epoch: int
    osds: list[_Daemon]


class _Status(msgspec.Struct):
    newest_map: int


def blocklist(output: str) -> dict[str, datetime]:
    """From `osd blocklist ls`: addresses that are listed as a whole, and until when. Raises Unreadable."""
    found: dict[str, datetime] = {}
    for each in _read(output, list[_Entry]):
        if (whole := _WHOLE.fullmatch(each.addr)) is None:
            continue
        try:
            address, until = str(ip_address(whole[1])), datetime.fromisoformat(each.until)
        except ValueError as error:
            raise Unreadable(f"an entry of the blocklist cannot be read: {error}") from error
        if until.tzinfo is None:
            raise Unreadable(f"an entry of the blocklist ends at {each.until[:40]!r}, without a time zone")
        found[address] = max(until, found.get(address, until))
    return found


def osd_map(output: str) -> OsdMap:
    """From `osd dump`. Raises Unreadable."""
    read = _read(output, _Map)
    return OsdMap(read.epoch, tuple(each.osd for each in read.osds if each.up))


def newest_map(output: str) -> int:
    """From `tell osd.N status`. Raises Unreadable."""
    return _read(output, _Status).newest_map


def is_endpoint(text: str) -> bool:
    """Whether it is a host, by name or address, with a port."""
    found = _ENDPOINT.fullmatch(text)
    return found is not None and 0 < int(found[1]) < 65536


def _read(output: str, kind: type[T]) -> T:
    """The first document: Ceph 16 prints another, empty one after a blocklist."""
    try:
        first, _ = json.JSONDecoder().raw_decode(output.lstrip())
        return msgspec.convert(first, kind)
    except (ValueError, RecursionError, msgspec.ValidationError) as error:
        raise Unreadable(f"ceph printed something else than was asked for: {str(error)[:200]}") from error
