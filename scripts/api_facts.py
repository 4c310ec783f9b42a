"""Writes `src/mooring/apiserver/schema/api.json`: the fields of the Kubernetes API's own types, as facts.

    python scripts/api_facts.py [VERSION]          # needs Go, which fetches the API modules

Of each message that a served kind can reach: its fields by JSON name, each as `number type flags`. Numbers and types
are those of the modules' `generated.proto`; names and flags those of the Go types' tags and markers. No prose is
taken over. Types: `string`, `int32`, `int64`, `double`, `bool`, `bytes`, a message, `[]T`, `{}T` (a map of strings to
T). Flags: `inline` (the message's fields stand in its parent), `pointer` (absent and zero differ), `omit` (a zero is
not written), `merge=KEY` / `merge` (a strategic merge patch merges the list, by KEY), `replace` (it replaces the
object), `map=K1,K2` / `set` / `atomic` (how an apply merges the list).
"""

from __future__ import annotations

import json
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

VERSION = sys.argv[1] if len(sys.argv) > 1 else "v0.36.3"
TARGET = Path(__file__).parents[1] / "src/mooring/apiserver/schema/api.json"

API = ("core", "apps", "batch", "storage", "coordination", "policy", "events", "scheduling", "rbac", "resource",
       "discovery", "autoscaling", "authentication", "authorization", "networking", "certificates",
       "admissionregistration", "node")  # fmt: skip
FOLDERS = {
    **{f"{group}.v1": ("k8s.io/api", f"{group}/v1") for group in API},
    "autoscaling.v2": ("k8s.io/api", "autoscaling/v2"),
    "meta.v1": ("k8s.io/apimachinery", "pkg/apis/meta/v1"),
    "apiextensions.v1": ("k8s.io/apiextensions-apiserver", "pkg/apis/apiextensions/v1"),
}
SHORT = {
    ".k8s.io.apimachinery.pkg.api.resource.Quantity": "Quantity",
    ".k8s.io.apimachinery.pkg.util.intstr.IntOrString": "IntOrString",
    ".k8s.io.apimachinery.pkg.runtime.RawExtension": "RawExtension",
}
OPAQUE = {"Time", "MicroTime", "Duration", "FieldsV1", "JSON", "JSONSchemaPropsOrBool", "JSONSchemaPropsOrArray",
          "JSONSchemaPropsOrStringArray", "ExtraValue", "Verbs"}  # fmt: skip
"""Messages that are not objects in JSON: the codec knows each by name."""

MESSAGE = re.compile(r"^message (\w+) \{\n(.*?)^\}", re.M | re.S)
FIELD = re.compile(r"^\s*(optional|repeated|map<string, ([\w.]+)>) ?([\w.]*?) ?(\w+) = (\d+);", re.M)
STRUCT = re.compile(r"^type (\w+) struct \{\n(.*?)^\}", re.M | re.S)
MEMBER = re.compile(r"^\s*(?:\w+\s+)?([\w.*\[\]]+)\s+`([^`]*)`")
MARKER = re.compile(r"^\s*//\s*\+(listType|listMapKey)=(\w+)")


def module(name: str) -> Path:
    """Where Go keeps a module's source."""
    done = subprocess.run(
        ["go", "mod", "download", "-json", f"{name}@{VERSION}"], check=True, capture_output=True, text=True
    )
    return Path(json.loads(done.stdout)["Dir"])


def type_name(name: str, home: str) -> str:
    """A proto type as the facts name it."""
    if name in SHORT:
        return SHORT[name]
    if name.startswith("."):
        *_, group, version, message = name.split(".")
        return message if message in OPAQUE else f"{group}.{version}.{message}"
    if name[0].islower():
        return name
    return name if name in OPAQUE else f"{home}.{name}"


def members(source: str) -> Iterator[tuple[str, dict[int, tuple[str, str]]]]:
    """Each Go struct: by protobuf number, the JSON name and the flags."""
    for struct, body in STRUCT.findall(source):
        found: dict[int, tuple[str, str]] = {}
        markers: dict[str, list[str]] = {}
        for line in body.splitlines():
            if marker := MARKER.match(line):
                markers.setdefault(marker[1], []).append(marker[2])
            if not (member := MEMBER.match(line)):
                continue
            tags = dict(re.findall(r'(\w+):"([^"]*)"', member[2]))
            number = re.match(r"\w+,(\d+)", tags.get("protobuf", ""))
            if number and tags.get("json", "-") != "-":
                found[int(number[1])] = (tags["json"].split(",")[0], " ".join(flags(member[1], tags, markers)))
            markers = {}
        yield struct, found


def flags(go_type: str, tags: dict[str, str], markers: dict[str, list[str]]) -> Iterator[str]:
    """What a field's Go type, tags and markers say."""
    options = tags["json"].split(",")
    if "inline" in options:
        yield "inline"
        return
    if go_type.startswith("*"):
        yield "pointer"
    elif "omitempty" in options or "omitzero" in options:
        yield "omit"
    if "merge" in tags.get("patchStrategy", ""):
        key = tags.get("patchMergeKey", "")
        yield f"merge={key}" if key else "merge"
    elif tags.get("patchStrategy") == "replace":
        yield "replace"
    kind = markers.get("listType", [""])[0]
    if kind == "map":
        yield "map=" + ",".join(markers["listMapKey"])
    elif kind in ("set", "atomic"):
        yield kind


def messages(home: str, folder: Path) -> dict[str, dict[str, str]]:
    """Every message of one API version."""
    source = "\n".join(path.read_text() for path in sorted(folder.glob("types*.go")))
    tags = dict(members(source))
    found: dict[str, dict[str, str]] = {}
    for name, body in MESSAGE.findall((folder / "generated.proto").read_text()):
        if name in OPAQUE:
            continue
        fields: dict[str, str] = {}
        for label, mapped, plain, proto, number in FIELD.findall(body):
            json_name, said = tags.get(name, {}).get(int(number), (proto, ""))
            kind = "{}" + type_name(mapped, home) if mapped else type_name(plain, home)
            prefix = "[]" if label == "repeated" else ""
            fields[json_name or proto] = f"{number} {prefix}{kind} {said}".strip()
        found[f"{home}.{name}"] = fields
    return found


def reachable(all_messages: dict[str, dict[str, str]], roots: list[str]) -> dict[str, dict[str, str]]:
    """The messages that the roots are made of."""
    kept: dict[str, dict[str, str]] = {}
    waiting = [*roots]
    while waiting:
        name = waiting.pop()
        if name in kept or name not in all_messages:
            continue
        kept[name] = all_messages[name]
        waiting += [fact.split()[1].lstrip("[]{}") for fact in kept[name].values()]
    return {name: kept[name] for name in sorted(kept)}


def main() -> None:
    """Read the modules, write the facts."""
    folders = {name: module(name) for name in {each for each, _ in FOLDERS.values()}}
    found: dict[str, dict[str, str]] = {}
    for home, (name, path) in FOLDERS.items():
        found |= messages(home, folders[name] / path)
    objects = [name for name, fields in found.items() if re.search(r"(Object|List)Meta\b", fields.get("metadata", ""))]
    extra = ("DeleteOptions", "Status", "PartialObjectMetadata", "PartialObjectMetadataList", "WatchEvent")
    kept = reachable(found, objects + [f"meta.v1.{name}" for name in extra])
    lines = [f"{json.dumps(name)}: {json.dumps(fields)}" for name, fields in kept.items()]
    TARGET.write_text("{\n" + ",\n".join(lines) + "\n}\n")
    print(f"{len(kept)} messages, {TARGET.stat().st_size} bytes: {TARGET.name}")


if __name__ == "__main__":
    main()
