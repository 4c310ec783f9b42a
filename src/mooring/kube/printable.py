"""Text from outside, made fit for a terminal and for one line of a log. Pure.

Names, messages and labels of objects may hold anything: a line feed forges a line of a log, an escape
sequence clears a terminal or sets its title, a bidirectional override shows one name as another. Such
characters are shown as Python writes them. What is asked for as it is (a container's log, `-o json`) is not
changed.
"""

from __future__ import annotations

import re

_HARMFUL = re.compile(
    r"[\x00-\x1f\x7f-\x9f"  # control characters
    r"\u061c\u200b\u200e\u200f\u2028-\u202e\u2060-\u2069\ufeff"  # invisible, and those that turn the direction
    r"\ud800-\udfff]"  # halves of characters, which no stream takes
)


def printable(text: str) -> str:
    """The text on one line, with every character that a terminal would act upon spelled out."""
    return _HARMFUL.sub(lambda found: ascii(found[0])[1:-1], text)


def counted(number: int, noun: str) -> str:
    """As in 1 volume, 2 volumes."""
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"
