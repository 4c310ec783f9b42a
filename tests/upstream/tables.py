"""Reads `tests/upstream/tables/*.json`: the cases of upstream's table tests, as facts.

`python scripts/upstream_tables` writes the files, one for each package of upstream. The form of a file:

- `package`, `version`: where the facts come from.
- `tests`: the names of all test functions of the package, those without a table included.
- `variables`: package-level variables of the tests that have a value in JSON; under `f()`, what the function
  f of the tests returns.
- `usual`: for each kind, the fields that most objects have alike. In the file, an object leaves such a field
  out; `null` says that it lacks the field. `tables_of` restores it.
- `tables`: one for each loop over cases: `test` (the test function), `label` (the variable that it loops
  over), `with` (other variables in the loop's scope), `rows` (the cases).

A row has the fields of upstream's struct under upstream's names; empty ones (nil, "", 0, false) are left out,
except behind a pointer. The key of a map of cases is the row's `$key`. Objects of the API have their `kind`
and the fields' JSON names. Other values:

- an error: `{"error": text}`; a scheduler's Status: `{"code": ..., "reasons": [...]}`;
- a function: `{"function": name}`, where `TestX.func3` is a literal inside TestX; or, made by another
  function, `{"call": name, "arguments": [...]}`;
- a time of the run: `now+5s`; other times, durations and quantities: as text;
- a set: a sorted list; a NodeInfo: `node`, `pods`; a fake client: the list of its objects;
- `$gates`: the feature gates under which the case runs, if not under both values.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any, cast

FOLDER = Path(__file__).parent / "tables"
Json = dict[str, Any]


@dataclass(frozen=True)
class Table:
    """The cases that one loop of upstream's tests runs over."""

    test: str
    label: str
    scope: Json
    rows: list[Json]


@dataclass(frozen=True)
class Package:
    """The tests of one package of upstream."""

    package: str
    version: str
    tests: list[str]
    variables: Json
    tables: list[Table]

    def table(self, test: str, label: str | None = None) -> Table:
        """Returns the table of a test function; `label` tells several apart."""
        (found,) = (each for each in self.tables if each.test == test and label in (None, each.label))
        return found


@cache
def read(name: str) -> Package:
    """Returns the facts of one package, by the name of its file. Callers must not change them."""
    found = json.loads((FOLDER / f"{name}.json").read_text())
    usual = found["usual"]
    tables = [
        Table(each["test"], each["label"], restored(each["with"], usual), restored(each["rows"], usual))
        for each in found["tables"]
    ]
    variables = restored(found["variables"], usual)
    return Package(found["package"], found["version"], found["tests"], variables, tables)


def name_of(row: Json) -> str:
    """Returns the name of a case, whatever its field is called; "" for one without."""
    names = ("$key", "name", "Name", "desc", "description", "test")
    return next((str(row[each]) for each in names if each in row), "")


def restored(value: Any, usual: Json) -> Any:
    """Returns a value with the usual fields of its objects."""
    if isinstance(value, list):
        return [restored(each, usual) for each in cast("list[Any]", value)]
    if not isinstance(value, dict):
        return value
    fields = {name: restored(each, usual) for name, each in cast("Json", value).items()}
    kind = fields.get("kind")
    return (
        _merged(usual[kind], fields)
        if isinstance(kind, str) and is_object(fields) and kind in usual
        else fields
    )


def is_object(fields: Json) -> bool:
    """Whether these are an object's fields: a reference to one has its `apiVersion` beside the `kind`."""
    return isinstance(fields.get("kind"), str) and "apiVersion" not in fields


def _merged(usual: Json, fields: Json) -> Json:
    result = {name: each for name, each in usual.items() if name not in fields}
    for name, each in fields.items():
        if isinstance(each, dict) and isinstance(usual.get(name), dict):
            result[name] = _merged(usual[name], cast("Json", each))
        elif each is not None:
            result[name] = each
    return result
