"""How a SCSI disk is called, by the kernel or by udev: one form of each name, so that names can be
compared. Pure.

The form is that of udev's `scsi_id`, which upstream's `wwids` have: a digit for the kind of name (SPC, Vital
Product Data page 83h), then the name: 3 NAA, 2 EUI-64, 1 vendor's. The kernel writes `naa.`, `eui.` and
`t10.` instead. White space is one `_`.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

_KINDS = {"naa.": "3", "eui.": "2", "t10.": "1"}
_HEX = re.compile(r"[23][0-9A-Fa-f]{16,32}", re.ASCII)
_SPACE = re.compile(r"[\s_]+")
_PAGE, _HEAD = 0x83, 4
_VENDOR, _EUI, _NAA, _NAME = 1, 2, 3, 8
_BINARY = 1


def named(text: str) -> str:
    """The one form of the name; "" for none."""
    short = _SPACE.sub("_", text.strip())
    for prefix, kind in _KINDS.items():
        if short.lower().startswith(prefix):
            short = kind + short[len(prefix) :].lstrip("_")
    return short.lower() if _HEX.fullmatch(short) else short


def names(wwid: str, page: bytes) -> frozenset[str]:
    """All names of a disk: the kernel's, and those of its page 83h."""
    return frozenset(filter(None, (named(wwid), *_designators(page))))


def _designators(page: bytes) -> Iterator[str]:
    """Those of the disk itself, not of its port or target. What is cut off or of no known form is left
    out."""
    if len(page) < _HEAD or page[1] != _PAGE:
        return
    rest = page[_HEAD : _HEAD + int.from_bytes(page[2:_HEAD], "big")]
    while len(rest) > _HEAD and len(rest) >= _HEAD + rest[3]:
        code, kind, name = rest[0] & 0xF, rest[1] & 0xF, rest[_HEAD : _HEAD + rest[3]]
        if rest[1] & 0x30 == 0:
            yield _designator(code, kind, name)
        rest = rest[_HEAD + rest[3] :]


def _designator(code: int, kind: int, name: bytes) -> str:
    if code == _BINARY:
        return named(f"{kind}{name.hex()}") if kind in (_EUI, _NAA) else ""
    text = name.decode(errors="replace").strip("\0 ")
    if not text.isprintable():
        return ""
    return named(f"t10.{text}") if kind == _VENDOR and text else named(text) if kind == _NAME else ""
