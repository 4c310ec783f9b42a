"""Writes dumped tables in a compact form: what is alike in most objects of a kind is said once.

`tests/upstream/tables.py` describes the form and reads it.
"""

from __future__ import annotations

import json
import re
import sys
from collections import Counter, defaultdict
from collections.abc import Iterator
from pathlib import Path
from typing import Any, cast

sys.path.insert(0, str(Path(__file__).parents[2]))
from tests.upstream.tables import is_object, restored

Json = dict[str, Any]
Steps = tuple[str, ...]
MOST = 0.6
LEFT_OUT = {"ctx", "t", "logger"}
"""Variables of Go's tests themselves."""


def compact(package: str, version: str, tests: list[str], entries: list[Json]) -> str:
    """Returns the text of a package's file. Raises AssertionError if it would not be read as it was
    dumped."""
    variables = {name: value for each in entries for name, value in each.get("variables", {}).items()}
    tables = _merged([each for each in entries if "variables" not in each])
    usual = _usual([variables, tables])
    short = cast("list[Json]", _without(tables, usual))
    assert restored(short, usual) == tables, package
    lines = ",\n".join(_table_text(each) for each in short)
    head = {"package": package, "version": version, "tests": tests, "variables": _without(variables, usual)}
    text = "".join(f'"{name}": {_line(each)},\n' for name, each in {**head, "usual": usual}.items())
    return "{\n" + text + f'"tables": [\n{lines}\n]\n}}\n'


def _table_text(table: Json) -> str:
    rows = ",\n".join(_line(row) for row in table["rows"])
    head = {name: table[name] for name in ("test", "label", "with")}
    return _line(head)[:-1] + f', "rows": [\n{rows}\n]}}'


def _line(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False, sort_keys=True)


# --- tables


def _merged(entries: list[Json]) -> list[Json]:
    """Returns the tables with each row once. A loop that runs several times runs over the same cases, or over
    cases for other feature gates."""
    tables: dict[tuple[str, str], Json] = {}
    for each in entries:
        scope = {name: value for name, value in each["with"].items() if name not in LEFT_OUT}
        table = {"test": each["test"], "label": each["label"], "with": scope, "rows": []}
        table = tables.setdefault((each["test"], each["label"]), table)
        for row in map(_row, each["rows"]):
            _add(table["rows"], row)
    return list(tables.values())


def _row(row: Any) -> Any:
    if not isinstance(row, dict):
        return row
    fields = cast("Json", row)
    if "$key" in fields:
        inside = fields["$row"] or {}
        return {"$key": fields["$key"], **inside}
    found = re.fullmatch(r"features\.(\w+)=(true|false) (.*)", str(fields.get("name", "")), re.S)
    if found is None:
        return fields
    return {**fields, "name": found[3], "$gates": {found[1]: found[2] == "true"}}


def _add(rows: list[Any], row: Any) -> None:
    for each in rows:
        if each == row:
            return
        if isinstance(each, dict) and isinstance(row, dict) and "$gates" in each and "$gates" in row:
            one, other = cast("Json", each), cast("Json", row)
            if {**one, "$gates": 0} == {**other, "$gates": 0}:
                del one["$gates"]
                return
            continue
        if isinstance(each, dict) and isinstance(row, dict) and "$gates" in row:
            if {**cast("Json", row), "$gates": 0} == {**cast("Json", each), "$gates": 0}:
                return
    rows.append(row)


# --- usual fields


def _usual(value: Any) -> Json:
    counts: defaultdict[str, Counter[tuple[Steps, str]]] = defaultdict(Counter)
    objects: Counter[str] = Counter()
    for each in _objects(value):
        objects[each["kind"]] += 1
        counts[each["kind"]].update((steps, json.dumps(leaf)) for steps, leaf in _leaves(each))
    result: Json = {}
    for kind in sorted(counts):
        for (steps, leaf), count in sorted(counts[kind].items()):
            if objects[kind] > 3 and count > MOST * objects[kind] and steps != ("kind",):
                _set(result.setdefault(kind, {}), steps, json.loads(leaf))
    return result


def _objects(value: Any) -> Iterator[Json]:
    if isinstance(value, list):
        for each in cast("list[Any]", value):
            yield from _objects(each)
    elif isinstance(value, dict):
        fields = cast("Json", value)
        if is_object(fields) and "metadata" in fields:
            yield fields
        for each in fields.values():
            yield from _objects(each)


def _leaves(value: Json, steps: Steps = ()) -> Iterator[tuple[Steps, Any]]:
    for name, each in value.items():
        if isinstance(each, dict) and each and "kind" not in each:
            yield from _leaves(cast("Json", each), (*steps, name))
        elif not isinstance(each, dict) or not each:
            if not (isinstance(each, list) and any(True for _ in _objects(cast("list[Any]", each)))):
                yield (*steps, name), each


def _set(into: Json, steps: Steps, leaf: Any) -> None:
    for step in steps[:-1]:
        into = into.setdefault(step, {})
    into[steps[-1]] = leaf


def _without(value: Any, usual: Json) -> Any:
    if isinstance(value, list):
        return [_without(each, usual) for each in cast("list[Any]", value)]
    if not isinstance(value, dict):
        return value
    fields = {name: _without(each, usual) for name, each in cast("Json", value).items()}
    kind = fields.get("kind")
    if isinstance(kind, str) and is_object(fields) and kind in usual:
        return _difference(usual[kind], fields)
    return fields


def _difference(usual: Json, fields: Json) -> Json:
    result: Json = {name: None for name in usual if name not in fields}
    for name, each in fields.items():
        common = usual.get(name)
        if isinstance(common, dict) and common and isinstance(each, dict):
            inside = _difference(cast("Json", common), cast("Json", each))
            if inside:
                result[name] = inside
        elif name not in usual or common != each:
            result[name] = each
    return result
