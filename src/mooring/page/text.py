"""Text from outside, bounded and printable, and the commands in an advice. Pure.

Names and messages of objects may hold anything. The page inserts them as text only; here what would hide or
turn other text is spelled out, and what is too long is cut.
"""

from __future__ import annotations

import re

from mooring.kube.printable import printable

LONGEST_NAME = 320
"""Characters of a namespace, a slash and a name at most: 63 + 1 + 253, and some."""
LONGEST_MESSAGE = 1200

_COMMAND = re.compile(r"(?:^|: |; |\(|`)((?:kubectl|mooring) (?:'[^']*'|[^;()'`]|(?<=\S)\()+)")
_SAFE = re.compile(r"[\w ./:=@,+<>-]*")
_QUOTED = re.compile(r"'[\w \[\]{}\":/,.-]*'")


def name(text: str) -> str:
    """A name on one line, cut at LONGEST_NAME."""
    return _cut(printable(text), LONGEST_NAME)


def message(text: str) -> str:
    """A message on one line, cut at LONGEST_MESSAGE."""
    return _cut(printable(" ".join(text.split())), LONGEST_MESSAGE)


def _cut(text: str, longest: int) -> str:
    return text if len(text) <= longest else f"{text[: longest - 1]}…"


def commands(advice: str) -> list[str]:
    """The commands that an advice of `mooring why` names, for a person to copy into a shell. One in which a
    name could mean more than itself to a shell is left out."""
    found = (each[1].strip().rstrip(",.") for each in _COMMAND.finditer(advice))
    return [command for command in dict.fromkeys(found) if _is_safe(command)]


def _is_safe(command: str) -> bool:
    return "<" not in command and _SAFE.fullmatch(_QUOTED.sub("", command)) is not None
