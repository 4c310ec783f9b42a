"""Writes down what each side asks the API server, in words that a person reads.

Versions are counted for each object from v1 on, uids for each name from #1 on; times are left out. So a line
changes only when what is asked, on which condition, or what comes of it changes.
"""

from __future__ import annotations

import json
import re
from collections import defaultdict
from collections.abc import Iterator
from typing import Any

from mooring.kube.errors import Unreachable
from mooring.kube.transport import Request, Response, Transport

WIDTH = 110
INDENT = 13
_OBJECT = re.compile(r"/(nodes|volumeattachments|persistentvolumes)(?:/([^/]+))?(?:/(status))?$")
_TIME = re.compile(r"^\d{4}-\d\d-\d\dT[\d:.]+Z")
_UID = re.compile(r"\b[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}\b")
KINDS = {"nodes": "Node", "volumeattachments": "VolumeAttachment", "persistentvolumes": "PersistentVolume"}
SHOWN = {
    "Node": ("volumesAttached", "volumesInUse", "conditions", "bootID", "taints"),
    "VolumeAttachment": ("attached", "finalizers", "message"),
    "PersistentVolume": (),
}
"""Fields of a write that are written down; beside them the annotations of Mooring, but for `NOT_SHOWN`."""
NOT_SHOWN = ("mooring.dev/plugin", "mooring.dev/volume-name", "mooring.dev/status-write")
WHEN_CHANGED = ("reconstructed", "bootID", "conditions")
"""What an agent repeats in each status write is told when it differs from the write before."""
DOMAIN = "mooring.dev/"


class Recorder:
    """Collects lines. `aliases` are short names of what has a long one. `heartbeats`: whether writes of a
    Node are told that change nothing of what is told."""

    def __init__(self, *, heartbeats: bool = True) -> None:
        self.lines: list[str] = []
        self.aliases: dict[str, str] = {}
        self._heartbeats = heartbeats
        self._last_shown: dict[tuple[str, str], str] = {}
        self._versions: defaultdict[str, dict[str, int]] = defaultdict(dict)
        self._uids: dict[str, str] = {}
        self._counted: defaultdict[str, int] = defaultdict(int)
        self._names: dict[str, str] = {}
        self._given_up: list[Request] = []

    def sender(self, transport: Any, who: str, *, reads: bool = True) -> Sender:
        """Records what goes through this faulty transport from now on."""
        sender = Sender(self, who, transport.inner, reads=reads)
        transport.inner = sender
        whole = transport.send

        async def send(request: Request) -> Response:
            try:
                return await whole(request)
            except Unreachable:
                self._given_up.append(request)
                if asked := self._asked(request):
                    self._line(sender.who, f"{asked} ... no answer")
                raise

        transport.send = send
        return sender

    def arrived(self, who: str, request: Request, answer: Response) -> None:
        """A request has been carried out, or refused."""
        found = _OBJECT.search(request.path)
        if found is None or request.stream or any(key == "watch" for key, _ in request.query):
            return
        if any(each is request for each in self._given_up):
            who = f"({who}, late)"
        asked = self._asked(request)  # before the answer gives the object another version
        outcome = self._outcome(found[1], request, answer)
        if asked:
            self._line(who, f"{asked} -> {outcome}")

    def know(self, resource: str, obj: Any) -> None:
        """The object as it is: its version and its uid have their numbers from now on."""
        self._number(resource, obj.name, obj.uid, obj.metadata.resource_version)

    def note(self, sign: str, text: str) -> None:
        """A line that is no request."""
        self._wrapped(f"  {sign} ", text)

    # --- words

    def _line(self, who: str, text: str) -> None:
        self._wrapped(f"  {who:<{INDENT - 3}} ", text)

    def _wrapped(self, lead: str, text: str) -> None:
        words, line = text.split(" "), lead
        for word in words:
            if len(line) + len(word) > WIDTH and line.strip():
                self.lines.append(line.rstrip())
                line = " " * (len(lead) + 2)
            line += f"{word} "
        self.lines.append(line.rstrip())

    def _asked(self, request: Request) -> str:
        """In words; "" if it is not told."""
        found = _OBJECT.search(request.path)
        if found is None or found[1] not in KINDS:
            return ""
        resource, name, _ = found.groups()
        body = json.loads(request.body) if request.body else {}
        if request.method == "GET":
            return f"reads {self._called(resource, name)}" if name else f"lists all {KINDS[resource]}s"
        name = name or body["metadata"]["name"]
        if request.method == "POST":
            self._note_name(name, body)
        verb = {"POST": "creates", "PATCH": "patches", "DELETE": "deletes"}[request.method]
        asked = f"{verb} {self._called(resource, name)}{self._condition(resource, name, body)}"
        changes = "; ".join(self._changes(resource, name, body))
        if not changes and resource == "nodes" and request.method == "PATCH" and not self._heartbeats:
            return ""
        return f"{asked}: {changes}" if changes else asked

    def _note_name(self, name: str, body: dict[str, Any]) -> None:
        spec = body.get("spec", {})
        volume = spec.get("source", {}).get("persistentVolumeName")
        if volume:
            volume = self.aliases.get(volume, volume)
            self._names[name] = f"{volume.removeprefix('pv-')}@{spec['nodeName']}"

    def _called(self, resource: str, name: str) -> str:
        return f"{KINDS[resource]} {self._names.get(name, self.aliases.get(name, name))}"

    def _condition(self, resource: str, name: str, body: dict[str, Any]) -> str:
        preconditions = body.get("preconditions") or body.get("metadata", {})
        version = preconditions.get("resourceVersion")
        if version:
            return f" if still v{self._versions[resource + name].get(version, '?')}"
        return (
            f" if it is {self._uids[preconditions['uid']]}" if preconditions.get("uid") in self._uids else ""
        )

    def _outcome(self, resource: str, request: Request, answer: Response) -> str:
        body = json.loads(answer.body) if answer.body else {}
        if answer.status == 404:
            return "not found"
        if answer.status == 409:
            return "REFUSED (409)"
        if answer.status >= 400:
            return f"refused ({answer.status})"
        if "items" in body:
            return (
                ", ".join(self._names.get(each["metadata"]["name"], "?") for each in body["items"]) or "none"
            )
        metadata = body.get("metadata", {})
        name = metadata.get("name")
        if not name:
            return "done"
        going = metadata.get("deletionTimestamp")
        if (going or request.method == "DELETE") and not metadata.get("finalizers"):
            return "gone"
        version = self._number(resource, name, metadata["uid"], metadata["resourceVersion"])
        return f"v{version}, being deleted" if request.method == "DELETE" else f"v{version}"

    def _number(self, resource: str, name: str, uid: str, version: str) -> int:
        if uid not in self._uids:
            self._counted[resource + name] += 1
            self._uids[uid] = f"{self._names.get(name, name)}#{self._counted[resource + name]}"
        known = self._versions[resource + name]
        return known.setdefault(version, len(known) + 1)

    def _changes(self, resource: str, name: str, body: dict[str, Any]) -> Iterator[str]:
        annotations: dict[str, Any] = body.get("metadata", {}).get("annotations", {})
        kind, fields = KINDS[resource], list[tuple[str, Any]]()
        for key, value in annotations.items():
            shown = key.startswith(DOMAIN) and key not in NOT_SHOWN
            if shown and not (kind == "Node" and value is None):
                fields.append((key.removeprefix(DOMAIN), value))
        fields += [(key, value) for key, value in _flat(body) if key in SHOWN[kind]]
        for key, value in fields:
            text = self._value(value)
            if key not in WHEN_CHANGED or self._last_shown.get((name, key)) != text:
                yield f"{key}{text}"
            self._last_shown[name, key] = text

    def _value(self, value: Any) -> str:
        if value is None:
            return " removed"
        if isinstance(value, str) and _TIME.match(value):
            return ""
        text = value if isinstance(value, str) else json.dumps(value, separators=(",", ":"))
        for long, short in self.aliases.items():
            text = text.replace(long, short)
        text = _UID.sub(lambda uid: self._uids.get(uid[0], "another uid"), text)
        text = re.sub(r'"(\w+)":', r"\1:", text).replace('"', "").replace("example.com/disk/", "")
        return "=" + re.sub(r"\d{4}-\d\d-\d\dT[\d:.]+Z(\.\w+)?", "<time>", text).replace(", ", ",").replace(
            ",", ", "
        )


class Sender(Transport):
    """The transport of one side. `who` may change: several act through the administrator's."""

    def __init__(self, recorder: Recorder, who: str, inner: Transport, *, reads: bool) -> None:
        self._recorder, self.who, self._inner, self._reads = recorder, who, inner, reads

    async def send(self, request: Request) -> Response:
        who = self.who
        answer = await self._inner.send(request)
        if self._reads or request.method != "GET":
            self._recorder.arrived(who, request, answer)
        return answer

    async def close(self) -> None:
        await self._inner.close()


def _flat(value: dict[str, Any]) -> Iterator[tuple[str, Any]]:
    """Every field by its own name."""
    for name, each in value.items():
        if isinstance(each, dict):
            yield from _flat(each)
        elif name == "conditions":
            yield from (
                (name, f"{each['type']} is {each['status']}") for each in each if each["type"] == "Ready"
            )
        elif name == "taints":
            yield (
                name,
                "[" + ", ".join(f"{each['key'].rpartition('/')[2]}:{each['effect']}" for each in each) + "]",
            )
        elif isinstance(each, list):
            yield name, [part["name"] if isinstance(part, dict) and "name" in part else part for part in each]
        else:
            yield name, each
