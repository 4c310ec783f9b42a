"""The words that the script is written in: one step is one request, as data.

`<<name.path>>` in a path, query or body stands for a value of an earlier answer that was kept as `name`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

Query = Mapping[str, str]
NOTHING: Query = {}

TYPES = {
    "json": "application/json",
    "yaml": "application/yaml",
    "json-patch": "application/json-patch+json",
    "merge": "application/merge-patch+json",
    "strategic": "application/strategic-merge-patch+json",
    "apply": "application/apply-patch+yaml",
}


@dataclass(frozen=True, slots=True)
class Step:
    """One request. A body that is not a string is sent as JSON; `keep` names its answer for later steps."""

    method: str
    path: str
    body: Any = None
    query: Query = field(default_factory=dict[str, str])
    headers: Mapping[str, str] = field(default_factory=dict[str, str])
    keep: str = ""

    def __str__(self) -> str:
        shown = "&".join(f"{key}={value}" for key, value in self.query.items())
        return f"{self.method} {self.path}{'?' if shown else ''}{shown}"


def get(path: str, keep: str = "", accept: str = "", **query: str) -> Step:
    return Step("GET", path, None, query, {"accept": accept} if accept else {}, keep)


def watch(path: str, accept: str = "", **query: str) -> Step:
    """A watch that the server ends after a second: its answer is every event until then."""
    return get(path, "", accept, **{"watch": "1", "timeoutSeconds": "1"} | query)


def post(path: str, body: Any, keep: str = "", content: str = "json", **query: str) -> Step:
    return Step("POST", path, body, query, {"content-type": TYPES.get(content, content)}, keep)


def put(path: str, body: Any, keep: str = "", content: str = "json", **query: str) -> Step:
    return Step("PUT", path, body, query, {"content-type": TYPES.get(content, content)}, keep)


def patch(kind: str, path: str, body: Any, keep: str = "", **query: str) -> Step:
    return Step("PATCH", path, body, query, {"content-type": TYPES.get(kind, kind)}, keep)


def apply(path: str, body: Any, manager: str = "one", **query: str) -> Step:
    return patch("apply", path, body, "", **{"fieldManager": manager} | query)


def delete(path: str, body: Any = None, keep: str = "", **query: str) -> Step:
    return Step(
        "DELETE", path, body, query, {"content-type": "application/json"} if body is not None else {}, keep
    )


def named(kind: str, name: str, version: str = "v1", /, **fields: Any) -> dict[str, Any]:
    """An object; `metadata` among the fields is joined with the name."""
    metadata = {"name": name} | fields.pop("metadata", {})
    return {"apiVersion": version, "kind": kind, "metadata": metadata} | fields
