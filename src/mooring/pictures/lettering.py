"""How much room a text takes, and texts made to fit. Pure.

Which font will be there is not known, so widths are those of a wide one (DejaVu Sans), rounded up.
"""

from __future__ import annotations

from collections.abc import Iterator
from unicodedata import east_asian_width

NARROW, WIDE = frozenset("ijlft.,:;'|!()[]I/\\ -·`"), frozenset("mwMW@%&—…+=<>~#^")
KNOWN = frozenset(map(chr, range(32, 127))) | frozenset("—–…·→×")
"""Letters whose widths are known."""
MOST = 2000
"""Characters of any one text."""
_BOLD = 1.12


def plain(text: str) -> str:
    """The text on one line, bounded; what cannot be printed, or turns the direction of what is, is shown as
    a replacement character."""
    text = " ".join(text[:MOST].split())
    return "".join(each if each.isprintable() else "\N{REPLACEMENT CHARACTER}" for each in text)


def width(text: str, size: float, *, bold: bool = False, mono: bool = False) -> float:
    """The room that a text takes, for sure, in a font of that size."""
    ems = sum(0.63 if each.isascii() else 1.26 for each in text) if mono else sum(map(_ems, text))
    return ems * size * (_BOLD if bold else 1.0)


def _ems(letter: str) -> float:
    if letter in NARROW:
        return 0.42
    if letter in WIDE or east_asian_width(letter) in "WF":
        return 1.04
    if letter in KNOWN:
        return 0.84 if letter.isupper() or letter in "→×–" else 0.66
    return 1.04


def is_known(text: str) -> bool:
    """Whether its width is that of all its letters."""
    return KNOWN.issuperset(text)


def fitting(text: str, size: float, room: float, *, bold: bool = False, mono: bool = False) -> str:
    """As much of the text as the room allows, with an ellipsis if that is not all; "" if nothing fits."""
    if width(text, size, bold=bold, mono=mono) <= room:
        return text
    left, kept = room - width("…", size, bold=bold, mono=mono), 0
    for letter in text:
        left -= width(letter, size, bold=bold, mono=mono)
        if left < 0:
            break
        kept += 1
    return f"{text[:kept].rstrip()}…" if kept else ""


def wrapped(text: str, size: float, room: float, most: int) -> list[str]:
    """The text in lines, at most so many; the last one ends with an ellipsis if that is not all."""
    lines = list(_lines(text, size, room))
    if len(lines) > most:
        lines[most - 1 :] = [fitting(" ".join(lines[most - 1 :]), size, room)]
    return lines


def _lines(text: str, size: float, room: float) -> Iterator[str]:
    line = ""
    for word in text.split():
        longer = f"{line} {word}" if line else word
        if width(longer, size) <= room:
            line = longer
            continue
        if line:
            yield line
        line = fitting(word, size, room)
    if line:
        yield line
