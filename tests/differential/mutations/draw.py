"""Draws mutations: where in a sample, and what is done there. Pure; a seed always draws the same.

A site is a field of a sample's type, whether the sample has it or not (absent fields one level below what is
there). What is done depends on the type of the field alone: the values are those that rules are about.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from copy import deepcopy
from functools import cache
from random import Random
from typing import Any, NamedTuple, cast

from tests.differential.mutations.samples import Obj, Sample, samples

from mooring.apiserver.schema.facts import Field, message, one

Step = str | int
_LONG, _HUGE, _SHOWN = 254, 1024 * 1024 + 1, 60
_UPDATES = 0.3
_NEVER = {
    ("kind",),
    ("apiVersion",),
    ("metadata", "resourceVersion"),
    ("metadata", "managedFields"),
    ("metadata", "uid"),
}

STRINGS: Sequence[Any] = (
    "", "a", "0", "UPPER", "with space", "-a", "a-", "a_b", "a.b", "a/b", "a/b/c", "../x", "/a/../b", "..", "..a",
    "/abs", "a\nb", "a\u00e9", "x" * 16, "x" * 64, "x" * _LONG, "a=b", "a*b", "a%b", "a:b", "10.0.0.1", "010.0.0.1",
    "fe80::1", "127.0.0.1", "True", "None", "Always", "Never", "Exists", "In", "Localhost", "example.com/a", "a@b", ".",
    "-1", " a", 5,
)  # fmt: skip
INTEGERS: Sequence[Any] = (
    -1, 0, 1, 2, 3, 9, 256, 511, 512, 600, 1801, 3601, 65535, 65536, 100_001, 2**31 - 1, 2**31, -(2**31), 2**33, "1",
    1.5,
)  # fmt: skip
QUANTITIES: Sequence[Any] = (
    "-1",
    "0",
    "1",
    "3",
    "1.5",
    "1500m",
    "1Gi",
    "100Gi",
    "abc",
    "",
    "1e3",
    5,
    "1 Gi",
    [],
)
PORTS_OR_SHARES: Sequence[Any] = (
    -1, 0, 1, 80, 65536, "http", "", "150%", "100%", "0%", "-1%", "5", "a--b", "-a", "UPPER", "x" * 16, "123", True,
)  # fmt: skip
KEYS: Sequence[str] = (
    "", "bad key", "a/b/c", "-a", "/a", "a/", "UPPER/a", "x" * 64, "x" * _LONG, "..", "..a", "a\nb", "kubernetes.io/a",
    "ok", "example.com/" + "x" * 64, "cpu", "storage",
)  # fmt: skip
_TIMES = ("2026-01-01T00:00:00Z", "2026-01-01T00:00:00.000000Z", "yesterday", "", 5, "2026-13-01T00:00:00Z")
_VALUES: dict[str, Sequence[Any]] = {
    "string": STRINGS,
    "int32": INTEGERS,
    "int64": INTEGERS,
    "double": INTEGERS,
    "bool": (True, False, "true", 1),
    "bytes": ("aGVsbG8=", "", "!!!", "a", 5),
    "Quantity": QUANTITIES,
    "IntOrString": PORTS_OR_SHARES,
    "Time": _TIMES,
    "MicroTime": _TIMES,
}


class Mutation(NamedTuple):
    """One change of one sample: `set` a value, `drop` a field or entry, `twin` an entry of a list."""

    sample: str
    verb: str
    path: tuple[Step, ...]
    action: str
    value: Any = None

    def __str__(self) -> str:
        shown = json.dumps(self.value, ensure_ascii=True)
        shown = shown if len(shown) <= _SHOWN else f"{shown[:_SHOWN]}...({len(shown)})"
        return f"{self.verb} {self.sample}: {self.action} {place(self.path)}" + (
            f" {shown}" if self.action == "set" else ""
        )


def place(path: Sequence[Step]) -> str:
    """A path as people write it."""
    return "".join(f"[{each}]" if isinstance(each, int) else f".{each}" for each in path).lstrip(".")


class Site(NamedTuple):
    """A field or an entry, its type, and what the sample has there."""

    path: tuple[Step, ...]
    field: Field
    value: Any


def draw(seed: int, count: int) -> list[Mutation]:
    """So many mutations, always the same ones for a seed."""
    random = Random(seed)
    names = list(samples())
    weights = [_weight(name, names) for name in names]
    return [_drawn(random, name) for name in random.choices(names, weights, k=count)]


def applied(obj: Obj, mutation: Mutation) -> Obj:
    """A mutated copy. Parents that are missing are made."""
    changed: Any = deepcopy(obj)
    holder = changed
    *parents, last = mutation.path
    for step in parents:
        if isinstance(step, str) and holder.get(step) is None:
            holder[step] = {}
        holder = holder[step]
    if mutation.action == "set":
        holder[last] = deepcopy(mutation.value)
    elif mutation.action == "twin":
        holder.insert(cast(int, last), deepcopy(holder[last]))
    elif isinstance(holder, list):
        del holder[last]
    else:
        holder.pop(last, None)
    return changed


def _weight(name: str, names: list[str]) -> float:
    """How often a sample is drawn: more if it is wide, less if its kind has many."""
    kind = name.partition("/")[0]
    return (len(_sites(name)) / sum(each.partition("/")[0] == kind for each in names)) ** 0.5


def _drawn(random: Random, name: str) -> Mutation:
    site = random.choice(_sites(name))
    action, path, value = random.choice(_options(site, random))
    verb = "update" if random.random() < _UPDATES and path != ("metadata", "name") else "create"
    return Mutation(name, verb, path, action, value)


@cache
def _sites(name: str) -> list[Site]:
    sample = samples()[name]
    if sample.message is None:
        return [site for site in _untyped(sample.obj, ()) if site.path[0] not in ("kind", "apiVersion")]
    return [site for site in _below(sample.obj, sample, ()) if site.path not in _NEVER]


def _below(obj: Obj, sample: Sample, path: tuple[Step, ...]) -> Iterator[Site]:
    assert sample.message
    for field in message(sample.message).fields.values():
        if field.name != "status" or "status" in obj:
            yield from _at(field, obj.get(field.name), (*path, field.name))


def _at(field: Field, value: Any, path: tuple[Step, ...]) -> Iterator[Site]:
    yield Site(path, field, value)
    if value is None:
        return
    inner = one(field.type)
    if field.shape == "list":
        for index, each in enumerate(value):
            yield from _at(inner, each, (*path, index))
    elif field.shape == "map":
        for key, each in value.items():
            yield from _at(inner, each, (*path, key))
    elif "." in field.type and isinstance(value, dict):
        for each in message(field.type).fields.values():
            yield from _at(each, cast(Obj, value).get(each.name), (*path, each.name))


_UNTYPED = {str: "string", bool: "bool", int: "int64"}


def _untyped(value: Any, path: tuple[Step, ...]) -> Iterator[Site]:
    if isinstance(value, dict):
        for key, each in cast(Obj, value).items():
            yield from _untyped(each, (*path, key))
    elif isinstance(value, list):
        for index, each in enumerate(cast(list[Any], value)):
            yield from _untyped(each, (*path, index))
    else:
        yield Site(path, one(_UNTYPED[type(value)]), value)


Option = tuple[str, tuple[Step, ...], Any]


def _options(site: Site, random: Random) -> list[Option]:
    """What can be done at a site. Each option is as likely as another, so few are offered where many are
    alike."""
    field, path, value = site.field, site.path, site.value
    found: list[Option] = [("drop", path, None)] if value is not None else []
    if isinstance(path[-1], int):
        found.append(("twin", path, None))
    if field.shape == "list":
        entry = _made(one(field.type), random)
        found += [
            ("set", path, []),
            ("set", path, [entry]),
            ("set", path, [*(value or ()), entry]),
            ("set", path, "text"),
        ]
        return found
    if field.shape == "map":
        key, made = random.choice(KEYS), _made(one(field.type), random)
        found += [("set", path, {}), ("set", path, {key: made}), ("set", (*path, key), made)] * 2 + [
            ("set", path, "text")
        ]
        if path in (("data",), ("metadata", "annotations")):
            found.append(("set", (*path, "huge"), "x" * _HUGE))
        return found
    if field.type in _VALUES:
        values = random.sample(_VALUES[field.type], 4)
        return [*found, *(("set", path, each) for each in values)]
    return [
        *found,
        ("set", path, {}),
        ("set", path, _made(field, random)),
        ("set", path, _made(field, random)),
        ("set", path, "text"),
    ]


def _made(field: Field, random: Random, depth: int = 0) -> Any:
    """A value of a type, with one or two of its fields."""
    if field.shape == "list":
        return [_made(one(field.type), random, depth)]
    if field.shape == "map":
        return {random.choice(KEYS): _made(one(field.type), random, depth)}
    if field.type in _VALUES:
        return random.choice(_VALUES[field.type])
    if "." not in field.type or depth > 3:
        return {}
    fields = list(message(field.type).fields.values())
    chosen = random.sample(fields, min(len(fields), random.choice((1, 1, 2))))
    return {each.name: _made(each, random, depth + 1) for each in chosen}
