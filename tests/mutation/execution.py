"""What executes a mutant: which seeds, which tests. Read from coverage's data of the code as it is.

A seed in which none of a mutant's lines is executed comes out with the mutant as it does without: it need not
be played. A constant of a module or a class is executed where its name is.
"""

from __future__ import annotations

import ast
from collections import defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from types import CodeType

from coverage import CoverageData
from tests.mutation.mutants import Mutant, source_of
from tests.mutation.rooms import SOURCE
from tests.mutation.source import Function, Source

Lines = dict[Path, set[int]]


class Executed:
    """In which contexts (seeds, or tests) lines are executed. `folders`: those that were measured, if not
    all; what is felt elsewhere counts as executed everywhere."""

    def __init__(self, files: Iterable[Path], folders: Iterable[Path] = (SOURCE,)) -> None:
        self._folders = [*folders]
        self._data = [CoverageData(str(file)) for file in sorted(files)]
        for each in self._data:
            each.read()
        self._by_line: dict[Path, dict[int, list[str]]] = {}
        self.everywhere = frozenset(
            context for each in self._data for context in each.measured_contexts()
        ) - {""}

    def of(self, mutant: Mutant) -> frozenset[str]:
        """The contexts in which the mutant is executed."""
        lines = felt_at(mutant)
        if lines is None or not all(any(map(path.is_relative_to, self._folders)) for path in lines):
            return self.everywhere
        return frozenset(
            context
            for path, numbers in lines.items()
            for number in numbers
            for context in self._at(path, number)
        ) - {""}

    def _at(self, path: Path, line: int) -> list[str]:
        if path not in self._by_line:
            by_line = self._by_line[path] = {}
            for each in self._data:
                for number, contexts in each.contexts_by_lineno(str(path)).items():
                    by_line.setdefault(number, []).extend(contexts)
        return self._by_line[path].get(line, [])


def felt_at(mutant: Mutant) -> Lines | None:
    """The lines of which one must be executed for the mutant to be felt; None if that is not known."""
    source = source_of(mutant.path)
    function = _function_around(source, mutant.change.start, mutant.change.end)
    first, last = mutant.change.needs
    if function is not None:
        begin = function.body[0].lineno
        if last < begin:  # a parameter's default
            first, last = begin, function.body[-1].end_lineno or begin
        return {mutant.path: _executable(source, first, last)}
    names = _names_given(source, mutant.change.start)
    return _uses().lines(names) if names else None


def _function_around(source: Source, start: int, end: int) -> Function | None:
    """The innermost function that has this range of bytes."""
    found = [
        node
        for node in ast.walk(source.tree)
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef))
        and source.range_of(node)[0] <= start
        and end <= source.range_of(node)[1]
    ]
    return found[-1] if found else None


def _executable(source: Source, first: int, last: int) -> set[int]:
    """Those of these lines that have code; where none has, those of the statement around them."""
    coded = _code_lines(source)
    if found := coded & {*range(first, last + 1)}:
        return found
    around = [
        node
        for node in ast.walk(source.tree)
        if isinstance(node, ast.stmt) and node.lineno <= first and last <= (node.end_lineno or 0)
    ]
    return {*range(around[-1].lineno, (around[-1].end_lineno or 0) + 1)}


@cache
def _code_lines(source: Source) -> set[int]:
    found: set[int] = set()
    left: list[CodeType] = [compile(source.text, str(source.path), "exec")]
    while left:
        code = left.pop()
        found |= {line for _, _, line in code.co_lines() if line is not None and line != code.co_firstlineno}
        left += [each for each in code.co_consts if isinstance(each, CodeType)]
    return found


def _names_given(source: Source, offset: int) -> set[str]:
    """The names that the statement at the level of a module or a class gives values to."""
    for node in ast.walk(source.tree):
        if isinstance(node, (ast.Assign, ast.AnnAssign)):
            start, end = source.range_of(node)
            if start <= offset < end:
                return _targets(node)
    return set()


def _targets(node: ast.stmt) -> set[str]:
    targets = node.targets if isinstance(node, ast.Assign) else [getattr(node, "target", None)]
    return {
        each.id for target in targets if target for each in ast.walk(target) if isinstance(each, ast.Name)
    }


@dataclass
class Uses:
    """Where names are used: within functions, and by statements beside them that give other names values."""

    within: dict[str, Lines] = field(default_factory=lambda: defaultdict(lambda: defaultdict(set)))
    giving: dict[str, set[str]] = field(default_factory=lambda: defaultdict(set))

    def lines(self, names: set[str]) -> Lines:
        """Where these names are used, and what is computed from them."""
        known: set[str] = set()
        while names - known:
            known |= names
            names = names.union(*(self.giving[name] for name in names if name in self.giving))
        found: Lines = defaultdict(set)
        for name in names:
            for path, numbers in self.within.get(name, {}).items():
                found[path] |= numbers
        return found


@cache
def _uses() -> Uses:
    found = Uses()
    for path in sorted(SOURCE.rglob("*.py")):
        if not path.is_relative_to(SOURCE / "simulation"):
            tree = ast.parse(path.read_text())
            _note_uses(found, path, tree, within=False, given=set())
    return found


def _note_uses(found: Uses, path: Path, node: ast.AST, *, within: bool, given: set[str]) -> None:
    """`given`: what the statement around the node gives values to."""
    for child in ast.iter_child_nodes(node):
        inside = within or isinstance(child, (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda))
        targets = _targets(child) if isinstance(child, (ast.Assign, ast.AnnAssign)) else given
        for name in _used(child):
            if inside:
                found.within[name][path].add(getattr(child, "lineno", 0))
            else:
                found.giving[name] |= targets
        _note_uses(found, path, child, within=inside, given=targets)


def _used(node: ast.AST) -> Iterator[str]:
    if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Load):
        yield node.id
    elif isinstance(node, ast.Attribute):
        yield node.attr
