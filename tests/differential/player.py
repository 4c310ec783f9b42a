"""Plays steps to a server, whichever it is, and writes down the answers in a form that two servers can share.

What differs from run to run (uids, versions, times, generated names, addresses) is replaced; what can be
compared of it stays: an object's versions are numbered in the order in which the script sees them, so that a
write that changes nothing must show the same number. managedFields count where server-side apply has touched
the object: the embedded server keeps them from then on (a known difference).
"""

from __future__ import annotations

import json
import re
from collections.abc import Awaitable, Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, cast
from urllib.parse import urlencode

from tests.differential.steps import Step

Obj = dict[str, Any]
Send = Callable[[str, str, Mapping[str, str], bytes], Awaitable[tuple[int, bytes]]]
"""Method, path with query, headers, body → status code and whole answer."""

_UUID = re.compile(r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}")
_TIME = re.compile(r"\d{4}-\d\d-\d\d[T ]\d\d:\d\d:\d\d(\.\d+)?Z?( \+0000 UTC)?")
_AGE = re.compile(r"(\d+[ydhms])+")
_PLACE = re.compile(r"<<([a-z0-9]+)\.([^>]+)>>")
_VERSION = re.compile(r"""(in record \(|in the precondition \(|current: |resourceVersion\\?":\\?")\d+""")
_SHOWN = 160
_LONGEST_BASE, _SUFFIX = 58, 5


async def play(steps: Iterable[tuple[str, Step]], send: Send) -> dict[str, Obj]:
    """Send each named step in turn; its answer as data, by the step's name."""
    kept: dict[str, Any] = {}
    seen = Normaliser()
    answers: dict[str, Obj] = {}
    for name, step in steps:
        step_now = _filled(step, kept)
        target = step_now.path + ("?" + urlencode(step_now.query) if step_now.query else "")
        status, body = await send(step_now.method, target, step_now.headers, _encoded(step_now.body))
        decoded = _decoded(body)
        if step.keep:
            kept[step.keep] = decoded
        answers[name] = {"request": str(step)[:_SHOWN], "status": status, "body": seen.normalised(decoded)}
    return answers


def _encoded(body: Any) -> bytes:
    if body is None:
        return b""
    if isinstance(body, bytes):
        return body
    return body.encode() if isinstance(body, str) else json.dumps(body, separators=(",", ":")).encode()


def _decoded(body: bytes) -> Any:
    """One JSON value; the list of values, if there are several (a watch); the text, if it is no JSON."""
    text = body.decode(errors="replace")
    try:
        return json.loads(text)
    except ValueError:
        pass
    try:
        return [json.loads(line) for line in text.splitlines()]
    except ValueError:
        return text


def _filled(step: Step, kept: Mapping[str, Any]) -> Step:
    def fill(value: Any) -> Any:
        if isinstance(value, str):
            whole = _PLACE.fullmatch(value)
            return _at(kept, whole) if whole else _PLACE.sub(lambda place: str(_at(kept, place)), value)
        if isinstance(value, dict):
            return {key: fill(each) for key, each in cast(Obj, value).items()}
        if isinstance(value, list):
            return [fill(each) for each in cast(list[Any], value)]
        return value

    return Step(
        step.method, fill(step.path), fill(step.body), fill(dict(step.query)), step.headers, step.keep
    )


def _at(kept: Mapping[str, Any], place: re.Match[str]) -> Any:
    """The value that a place names, or a text that no server knows if the answer has none."""
    value: Any = kept.get(place[1])
    for part in place[2].split("."):
        if isinstance(value, list):
            value = cast(list[Any], value)[int(part)]
        elif isinstance(value, dict):
            value = cast(Obj, value).get(part)
    return "missing" if value is None else value


@dataclass
class Normaliser:
    """Replaces what differs from run to run; remembers what it has seen."""

    _uids: dict[str, str] = field(default_factory=dict[str, str])
    _versions: dict[str, list[str]] = field(default_factory=dict[str, list[str]])
    _names: dict[str, str] = field(default_factory=dict[str, str])

    def normalised(self, value: Any) -> Any:
        """A value of an answer, comparable."""
        if isinstance(value, dict):
            return self._object(cast(Obj, value))
        if isinstance(value, list):
            return [self.normalised(each) for each in cast(list[Any], value) if not _is_progress(each)]
        return self._text(value) if isinstance(value, str) else value

    def _object(self, obj: Obj) -> Obj:
        metadata = obj.get("metadata")
        if isinstance(metadata, dict):
            obj = obj | {"metadata": self._metadata(cast(Obj, metadata))}
        return {self._text(key): self._field(key, value) for key, value in obj.items()}

    def _field(self, key: str, value: Any) -> Any:
        if key in ("clusterIP", "clusterIPs") and value not in ("None", ["None"], ""):
            return "an address" if key == "clusterIP" else ["an address"]
        if key == "cells":
            return ["an age" if isinstance(cell, str) and _AGE.fullmatch(cell) else cell for cell in value]
        return self.normalised(value)

    def _metadata(self, metadata: Obj) -> Obj:
        metadata = dict(metadata)
        uid, version = metadata.get("uid"), metadata.get("resourceVersion")
        if uid and version:
            versions = self._versions.setdefault(uid, [])
            if version not in versions:
                versions.append(version)
            metadata["resourceVersion"] = f"version {versions.index(version) + 1}"
        elif version:
            metadata["resourceVersion"] = "a version"
        managers = metadata.get("managedFields", ())
        if not any(each.get("operation") == "Apply" for each in managers):
            metadata.pop("managedFields", None)
        if metadata.get("continue"):
            metadata["continue"] = "a token"
        base, name = metadata.get("generateName"), metadata.get("name", "")
        base = (base or "")[:_LONGEST_BASE]
        if base and len(name) == len(base) + _SUFFIX and name.startswith(base):
            self._names.setdefault(name, f"{base}<{len(self._names) + 1}>")
        if uid and uid not in self._uids:
            self._uids[uid] = f"uid of {self._text(name)}"
        return metadata

    def _text(self, text: str) -> str:
        for name, shown in self._names.items():
            text = text.replace(name, shown)
        text = _UUID.sub(lambda found: self._uids.get(found[0], "a uid"), text)
        text = _VERSION.sub(r"\1a version", text)
        return _TIME.sub("a time", text)


def _is_progress(event: Any) -> bool:
    """A bookmark that only tells how far the server is: when it sends those is its own affair."""
    if not isinstance(event, dict) or cast(Obj, event).get("type") != "BOOKMARK":
        return False
    return not cast(Obj, event)["object"].get("metadata", {}).get("annotations")
