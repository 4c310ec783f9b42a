"""A mutant: one change at one place, with the name under which it is shown and played."""

from __future__ import annotations

import difflib
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from tests.mutation.operators import changes
from tests.mutation.rooms import ROOT, SOURCE, module_name, modules_of
from tests.mutation.source import Change, Source


@dataclass(frozen=True)
class Mutant:
    """`name`: room:file:line:operator, with a number where the operator has several places, or changes, on a
    line. `function`: the qualified name of what is changed. `before`, `after`: the changed lines,
    stripped."""

    name: str
    room: str
    path: Path
    line: int
    change: Change
    function: str
    before: tuple[str, ...]
    after: tuple[str, ...]

    @property
    def operator(self) -> str:
        return self.change.operator

    @property
    def module(self) -> str:
        """The name under which the changed module is imported."""
        return module_name(self.path)

    @property
    def file(self) -> str:
        """Its path from the repository's root."""
        return str(self.path.relative_to(ROOT))

    def source(self) -> str:
        """The whole module with the change in it."""
        return source_of(self.path).changed(self.change)

    def diff(self) -> str:
        """What is changed, as a unified diff."""
        old, new = source_of(self.path).text.splitlines(), self.source().splitlines()
        return "\n".join(difflib.unified_diff(old, new, self.file, self.file, lineterm="", n=2))


@cache
def source_of(path: Path) -> Source:
    """The module as it is in the working tree."""
    return Source(path, path.read_text())


@cache
def mutants_of(room: str) -> tuple[Mutant, ...]:
    """Every mutant of a room. Raises NoSuchRoom."""
    return tuple(mutant for path in modules_of(room) for mutant in mutants_in(room, source_of(path)))


def mutants_in(room: str, source: Source) -> Iterator[Mutant]:
    """Every mutant of a module."""
    relative = source.path.relative_to(SOURCE / room)
    seen = Counter[str]()
    for change in changes(source):
        line = source.line_at(change.start)
        name = f"{room}:{relative}:{line}:{change.operator}"
        seen[name] += 1
        if seen[name] > 1:
            name += f"#{seen[name]}"
        before, after = changed_lines(source, change)
        function = source.function_at(change.start, change.end)
        yield Mutant(name, room, source.path, line, change, function, before, after)


def changed_lines(source: Source, change: Change) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """The lines that the change touches, before and after it, without their indentation."""
    start = source.bytes.rfind(b"\n", 0, change.start) + 1
    end = source.bytes.find(b"\n", max(change.end, change.start))
    end = len(source.bytes) if end < 0 else end
    after = source.bytes[start : change.start] + change.text.encode() + source.bytes[change.end : end]
    return _stripped(source.bytes[start:end]), _stripped(after)


def _stripped(lines: bytes) -> tuple[str, ...]:
    return tuple(line.strip() for line in lines.decode().splitlines())


def named(name: str) -> Mutant:
    """The mutant of that name. Raises KeyError."""
    room, _, rest = name.partition(":")
    path = SOURCE / room / rest.partition(":")[0]
    mutants = mutants_in(room, source_of(path)) if path.is_file() else ()
    found = next((mutant for mutant in mutants if mutant.name == name), None)
    if found is None:
        raise KeyError(name)
    return found
