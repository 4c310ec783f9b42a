"""What a FlexVolume driver answers: one JSON object on its standard output.

Pure. Guarantees: an answer is bounded before it is parsed, every field has its type or the answer is refused,
and nothing else than `BadAnswer` is raised. Upstream's rules are kept: names of fields in any case, `null` is
as good as absent, unknown fields are skipped, capabilities that are not named have upstream's defaults.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, fields
from enum import Enum
from typing import TypeVar

import msgspec

LONGEST_ANSWER = 64 * 1024
"""Bytes. The largest answer that makes sense has a path and a message."""
LONGEST_MESSAGE = 1024
"""Characters of a driver's words that reach an event or a log."""
LONGEST_PATH = 4096
"""Of a device (PATH_MAX)."""
MOST_BYTES = 2**63 - 1

_UNPRINTABLE = re.compile(r"[^\x20-\x7e\u00a0-\ud7ff\ue000-\uffef\U00010000-\U0010ffff]+")
_T = TypeVar("_T")


class BadAnswer(ValueError):
    """The driver's output is no answer. The text says why, and repeats nothing unbounded of it."""


class Status(Enum):
    """The statuses that upstream knows."""

    SUCCESS = "Success"
    FAILURE = "Failure"
    NOT_SUPPORTED = "Not supported"


@dataclass(frozen=True)
class Capabilities:
    """What `init` says that the driver can do; the defaults are upstream's."""

    attach: bool = True
    """Its volumes are attached to nodes; without, only mounted for each pod."""
    selinux_relabel: bool = True
    supports_metrics: bool = False
    fs_group: bool = True
    """The pod's fsGroup gets the content of a volume."""
    requires_fs_resize: bool = True
    """A node grows the file system after the volume has grown."""


@dataclass(frozen=True)
class Answer:
    """One answer. `device` is "" if none is named."""

    status: Status
    message: str = ""
    """As the driver wrote it; what reads it makes it `printable`."""
    device: str = ""
    volume_name: str = ""
    attached: bool = False
    new_size: int = 0
    capabilities: Capabilities = Capabilities()


def parse(output: bytes) -> Answer:
    """Raises BadAnswer."""
    given = _object(_decoded(output), "the answer")
    status = _field(given, "status", str, "")
    try:
        known = Status(status)
    except ValueError:
        raise BadAnswer(
            f"its status is {printable(status)[:40]!r}, not Success, Failure or Not supported"
        ) from None
    return Answer(
        known,
        _field(given, "message", str, ""),
        _device(_field(given, "device", str, "")),
        printable(_field(given, "volumename", str, "")),
        _field(given, "attached", bool, False),
        _size(_field(given, "volumenewsize", int, 0)),
        _capabilities(given.get("capabilities")),
    )


def printable(text: str) -> str:
    """A driver's words as they may stand in one line of an event or a log."""
    return _UNPRINTABLE.sub(" ", text[: 4 * LONGEST_MESSAGE]).strip()[:LONGEST_MESSAGE]


def _decoded(output: bytes) -> object:
    if len(output) > LONGEST_ANSWER:
        raise BadAnswer(f"it is longer than {LONGEST_ANSWER} bytes")
    if not output.strip():
        raise BadAnswer("it is empty")
    try:
        return msgspec.json.decode(output)
    except UnicodeDecodeError:
        raise BadAnswer("it is not UTF-8") from None
    except msgspec.DecodeError as error:
        raise BadAnswer(f"it is not JSON: {printable(str(error))[:200]}") from None
    except RecursionError:
        raise BadAnswer("it is nested too deeply") from None


def _object(value: object, what: str) -> dict[str, object]:
    """With the names of its fields in lower case."""
    if not isinstance(value, dict):
        raise BadAnswer(f"{what} is not a JSON object")
    return {str(name).lower(): each for name, each in value.items()}  # pyright: ignore[reportUnknownVariableType, reportUnknownArgumentType]


def _field(given: dict[str, object], name: str, kind: type[_T], default: _T) -> _T:
    value = given.get(name)
    if value is None:
        return default
    if type(value) is not kind:  # a bool is an int, and is not meant here
        raise BadAnswer(f"its {name} is a {type(value).__name__}, not a {kind.__name__}")
    return value


def _device(path: str) -> str:
    """It becomes an argument of further calls."""
    if len(path) > LONGEST_PATH or path.startswith("-") or not path.isprintable():
        raise BadAnswer("its device is not the path of one")
    return path


def _size(size: int) -> int:
    if not 0 <= size <= MOST_BYTES:
        raise BadAnswer("its volumeNewSize is no number of bytes")
    return size


def _capabilities(value: object) -> Capabilities:
    if value is None:
        return Capabilities()
    given = _object(value, "its capabilities")
    return Capabilities(
        **{
            each.name: _field(given, each.name.replace("_", ""), bool, bool(each.default))
            for each in fields(Capabilities)
        }
    )
