"""YAML bodies to JSON values, as upstream reads them (sigs.k8s.io/yaml on YAML 1.1), within limits.

Guarantees:
- Events are taken one by one from libyaml, whose parser does not recurse; its composer does, and a body of
  brackets made it overflow the stack. Nothing is built past the limits on depth, and on what aliases repeat.
- Only the first document counts. Times stay texts; `yes`, `on` and `y` are true; a leading zero is octal; a
  number that no 64 bits hold is a float; keys become texts as JSON wants them. No tag ever makes anything but
  a scalar.

It knows nothing of Kubernetes objects.
"""

from __future__ import annotations

import base64
import binascii
import math
import re
from collections.abc import Iterator
from typing import Any, NamedTuple, cast

import yaml

from mooring.apiserver.work_limit import spend

MAX_REPEATED_BYTES = 3 * 1024 * 1024
"""What aliases may add to a document, counted as JSON: as much as a body may have without them."""

_SCALARS = {
    **dict.fromkeys(["y", "Y", "yes", "Yes", "YES", "true", "True", "TRUE", "on", "On", "ON"], True),
    **dict.fromkeys(["n", "N", "no", "No", "NO", "false", "False", "FALSE", "off", "Off", "OFF"], False),
    **dict.fromkeys(["", "~", "null", "Null", "NULL"], None),
    **dict.fromkeys([".nan", ".NaN", ".NAN"], math.nan),
    **dict.fromkeys([".inf", ".Inf", ".INF", "+.inf", "+.Inf", "+.INF"], math.inf),
    **dict.fromkeys(["-.inf", "-.Inf", "-.INF"], -math.inf),
}
_INTEGER = re.compile(r"[-+]?(0[xX][0-9a-fA-F]+|0[bB][01]+|0[oO][0-7]+|0[0-7]*|[1-9][0-9]*)")
_FLOAT = re.compile(r"[-+]?(\.[0-9]+|[0-9]+(\.[0-9]*)?)([eE][-+]?[0-9]+)?")
_LONGEST_NUMBER = 400
_TAG = "tag:yaml.org,2002:"
_MERGE = "<<"


class BadYaml(ValueError):
    """What is wrong with a document."""


class _Alias(NamedTuple):
    value: Any
    size: int


class _Open:
    """A list or an object that is being read. Its `size` is about what it is as JSON."""

    __slots__ = ("anchor", "is_map", "key", "keyed", "merged", "merges", "size", "value")

    def __init__(self, value: Any, anchor: str | None) -> None:
        self.value, self.anchor, self.size = value, anchor, 2
        self.is_map = isinstance(value, dict)
        self.keyed, self.merges, self.key = False, False, ""
        self.merged: list[Any] = []


def load(body: bytes, deepest: int) -> Any:
    """The value of the first document; None if there is none. Raises `BadYaml`."""
    try:
        return _Composer(deepest).value(_events(body))
    except (yaml.YAMLError, UnicodeError) as error:
        raise BadYaml(str(error)) from error


def _events(body: bytes) -> Iterator[Any]:
    parser = cast(Any, yaml).CSafeLoader(body)
    try:
        while (event := parser.get_event()) is not None:
            yield event
    finally:
        parser.dispose()


class _Composer:
    """Builds a value from events with a stack of its own."""

    def __init__(self, deepest: int) -> None:
        self._deepest = deepest
        self._open: list[_Open] = []
        self._anchors: dict[str, _Alias] = {}
        self._repeated = 0
        self._root: Any = None

    def value(self, events: Iterator[Any]) -> Any:
        for event in events:
            spend(5)
            if isinstance(event, yaml.ScalarEvent):
                self._scalar(event)
            elif isinstance(event, yaml.MappingStartEvent):
                self._begin({}, event.anchor)
            elif isinstance(event, yaml.SequenceStartEvent):
                self._begin([], event.anchor)
            elif isinstance(event, yaml.MappingEndEvent | yaml.SequenceEndEvent):
                self._end()
            elif isinstance(event, yaml.AliasEvent):
                self._alias(str(cast(Any, event).anchor))
            elif isinstance(event, yaml.DocumentEndEvent):
                break
        return self._root

    def _begin(self, value: Any, anchor: str | None) -> None:
        if self._open and self._open[-1].is_map and not self._open[-1].keyed:
            raise BadYaml("a list or an object cannot be a key of a JSON object")
        if len(self._open) >= self._deepest:
            raise BadYaml(f"exceeded max depth of {self._deepest}")
        self._open.append(_Open(value, anchor))

    def _end(self) -> None:
        done = self._open.pop()
        if done.is_map:
            for each in reversed(done.merged):
                for key, value in each.items():
                    done.value.setdefault(key, value)
        if done.anchor:
            self._anchors[done.anchor] = _Alias(done.value, done.size)
        self._add(done.value, done.size)

    def _scalar(self, event: Any) -> None:
        plain = not event.style and event.tag is None
        if (
            plain
            and event.value == _MERGE
            and self._open
            and self._open[-1].is_map
            and not self._open[-1].keyed
        ):
            self._open[-1].keyed = self._open[-1].merges = True
            return
        value = _plain(event.value) if plain else _tagged(event)
        size = len(event.value) + 4
        if event.anchor:
            self._anchors[event.anchor] = _Alias(value, size)
        self._add(value, size)

    def _alias(self, anchor: str) -> None:
        if anchor not in self._anchors:
            raise BadYaml(f"unknown anchor '{anchor}' referenced")
        value, size = self._anchors[anchor]
        self._repeated += size
        if self._repeated > MAX_REPEATED_BYTES:
            raise BadYaml("document contains excessive aliasing")
        spend(size >> 2)
        self._add(_copied(value), size)

    def _add(self, value: Any, size: int) -> None:
        """Puts a value where it stands."""
        if not self._open:
            self._root = value
            return
        here = self._open[-1]
        here.size += size
        if not here.is_map:
            here.value.append(value)
        elif not here.keyed:
            here.keyed, here.key = True, _key(value)
        else:
            if here.merges:
                here.merged += _mergeable(value)
            else:
                here.value[here.key] = value
            here.keyed = here.merges = False


def _mergeable(value: Any) -> list[dict[str, Any]]:
    found: list[Any] = cast(list[Any], value) if isinstance(value, list) else [value]
    if not all(isinstance(each, dict) for each in found):
        raise BadYaml("map merge requires map or sequence of maps as the value")
    return found[::-1]


def _copied(value: Any) -> Any:
    """A copy, so that what is changed in one place later is not changed in the other."""
    if isinstance(value, dict):
        return {key: _copied(each) for key, each in cast(dict[str, Any], value).items()}
    if isinstance(value, list):
        return [_copied(each) for each in cast(list[Any], value)]
    return value


def _key(value: Any) -> str:
    """A key as text; raises `BadYaml` for what upstream takes for none."""
    if isinstance(value, str):
        return value
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, int | float):
        return str(value)
    raise BadYaml("null cannot be a key of a JSON object")


def _tagged(event: Any) -> Any:
    """A scalar in quotes, or one with a tag."""
    tag, text = (event.tag or "").removeprefix(_TAG), str(event.value)
    if tag == "binary":
        try:
            return base64.b64decode(text, validate=False).decode(errors="replace")
        except (binascii.Error, ValueError) as error:
            raise BadYaml("!!binary value contains invalid base64 data") from error
    if tag not in ("bool", "int", "float", "null"):
        return text
    value = _plain(text)
    if tag == "float" and isinstance(value, int) and not isinstance(value, bool):
        return value
    if not isinstance(value, {"bool": bool, "int": int, "float": int | float, "null": type(None)}[tag]):
        raise BadYaml(f"cannot decode !!str `{text[:100]}` as a !!{tag}")
    return value


def _plain(text: str) -> Any:
    """What a scalar without quotes and tag means. Raises `BadYaml` for what JSON has no word for."""
    if text in _SCALARS:
        value = _SCALARS[text]
        if isinstance(value, float):
            raise BadYaml(f"json: unsupported value: {text}")
        return value
    if text[0] not in "+-.0123456789" or len(text) > _LONGEST_NUMBER:
        return text
    digits = text.replace("_", "") if text[0] != "." else text
    if _INTEGER.fullmatch(digits) and -(2**63) <= (whole := _whole(digits)) < 2**64:
        return whole
    if _FLOAT.fullmatch(digits) and math.isfinite(number := float(digits)):
        return int(number) if number.is_integer() and abs(number) < 1e21 else number
    return text


def _whole(digits: str) -> int:
    unsigned = digits.lstrip("+-")
    base = {"x": 16, "b": 2, "o": 8}.get(unsigned[1:2].lower(), 8 if unsigned[0] == "0" else 10)
    number = int(unsigned, base) if len(unsigned) > 1 else int(unsigned)
    return -number if digits[0] == "-" else number
