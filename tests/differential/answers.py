"""The real server's answers as data, and how answers are compared."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple, cast

Obj = dict[str, Any]
RECORDED = Path(__file__).parent / "real-1.36.json"


def write(answers: Obj) -> None:
    """Keep the answers, one a line."""
    lines = [f"{json.dumps(name)}:{json.dumps(answer, sort_keys=True)}" for name, answer in answers.items()]
    RECORDED.write_text("{\n" + ",\n".join(lines) + "\n}\n")


def recorded() -> Obj:
    """The answers that were kept."""
    return json.loads(RECORDED.read_text())


class Difference(NamedTuple):
    """Where two answers differ, and what each has there."""

    path: str
    real: Any
    ours: Any

    def __str__(self) -> str:
        return f"{self.path}: real {json.dumps(self.real)} ours {json.dumps(self.ours)}"


def differences(expected: Any, actual: Any, path: str = "") -> Iterator[Difference]:
    """Where two answers differ. Of answers with different status codes, only that."""
    if not path and expected["status"] != actual["status"]:
        both = [f"{each['status']} {_shown(each['body'])}" for each in (expected, actual)]
        yield Difference("status", *both)
    elif isinstance(expected, dict) and isinstance(actual, dict):
        ours, theirs = cast(Obj, actual), cast(Obj, expected)
        for key in sorted(ours.keys() | theirs.keys()):
            yield from differences(theirs.get(key), ours.get(key), f"{path}.{key}" if path else key)
    elif (
        isinstance(expected, list)
        and isinstance(actual, list)
        and len(cast(Any, expected)) == len(cast(Any, actual))
    ):
        pairs = zip(_ordered(path, cast(Any, expected)), _ordered(path, cast(Any, actual)), strict=True)
        for index, (theirs, ours) in enumerate(pairs):
            yield from differences(theirs, ours, f"{path}[{index}]")
    elif expected != actual:
        yield Difference(path, expected, actual)


def _ordered(path: str, entries: list[Any]) -> list[Any]:
    """Both servers order managers by the second in which they wrote, then by name: by chance, in a fast
    run."""
    if not path.endswith("managedFields"):
        return entries
    return sorted(
        entries, key=lambda each: [each.get(key, "") for key in ("manager", "operation", "subresource")]
    )


def _shown(body: Any) -> str:
    """An answer in short: the message of a failure, else the object."""
    failed = isinstance(body, dict) and "message" in body
    return json.dumps(cast(Obj, body)["message"] if failed else body)
