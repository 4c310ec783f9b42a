"""One module as it may be mutated: its tree, its bytes, and the places of its nodes.

A mutant is a replacement of a range of bytes, so that all the rest of the module stays as it is written.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TypeVar

from tests.mutation import left_out

N = TypeVar("N", bound=ast.AST)
Function = ast.FunctionDef | ast.AsyncFunctionDef


@dataclass(frozen=True)
class Change:
    """The bytes from `start` to `end` become `text`. `needs`: the first and the last line of what must be
    executed for the change to be felt."""

    operator: str
    start: int
    end: int
    text: str
    needs: tuple[int, int]


class Source:
    """A module's text and tree."""

    def __init__(self, path: Path, text: str) -> None:
        self.path = path
        self.text = text
        self.bytes = text.encode()
        self.tree = ast.parse(text)
        self._line_starts = [0]
        for line in self.bytes.splitlines(keepends=True):
            self._line_starts.append(self._line_starts[-1] + len(line))
        self.parents: dict[ast.AST, ast.AST] = {
            child: node for node in ast.walk(self.tree) for child in ast.iter_child_nodes(node)
        }

    @cached_property
    def _mutable(self) -> list[ast.AST]:
        found: list[ast.AST] = []
        if self.path.name in left_out.MODULES:
            return found
        left: list[ast.AST] = [self.tree]
        while left:
            node = left.pop()
            found.append(node)
            left += reversed(left_out.children(node))
        return found

    def nodes(self, *kinds: type[N]) -> Iterator[N]:
        """The nodes of these kinds that may be mutated, in the order of the text."""
        yield from (node for node in self._mutable if isinstance(node, kinds))

    def bodies(self) -> Iterator[list[ast.stmt]]:
        """Each block of statements."""
        for node in self._mutable:
            for name in ("body", "orelse", "finalbody"):
                block = getattr(node, name, None)
                if isinstance(block, list):
                    yield block

    def range_of(self, node: ast.AST) -> tuple[int, int]:
        """Where its bytes begin and end."""
        first, last = getattr(node, "lineno"), getattr(node, "end_lineno")  # noqa: B009
        start, end = getattr(node, "col_offset"), getattr(node, "end_col_offset")  # noqa: B009
        return self._line_starts[first - 1] + start, self._line_starts[last - 1] + end

    def text_of(self, node: ast.AST) -> str:
        """As it is written."""
        start, end = self.range_of(node)
        return self.bytes[start:end].decode()

    def line_at(self, offset: int) -> int:
        """The number of the line, from 1, that has this byte."""
        return self.bytes.count(b"\n", 0, offset) + 1

    def changed(self, change: Change) -> str:
        """The whole module with the change in it."""
        return (self.bytes[: change.start] + change.text.encode() + self.bytes[change.end :]).decode()

    def replaced(self, operator: str, node: ast.AST, text: str, felt: ast.AST | None = None) -> Change:
        """The node's text becomes another one. It is felt where `felt`, or else the node, is executed."""
        start, end = self.range_of(node)
        return Change(operator, start, end, text, lines_of(felt or node))

    def block_replaced(self, operator: str, block: list[ast.stmt], text: str) -> Change:
        """All statements of a block become another text."""
        start, end = self.range_of(block[0])[0], self.range_of(block[-1])[1]
        return Change(operator, start, end, text, (lines_of(block[0])[0], lines_of(block[-1])[1]))

    def enclosing(self, node: ast.AST, *kinds: type[N]) -> N | None:
        """The innermost of these kinds around a node."""
        above = self.parents.get(node)
        while above is not None and not isinstance(above, kinds):
            above = self.parents.get(above)
        return above

    def function_at(self, start: int, end: int) -> str:
        """The qualified name of the function, or class, around a range of bytes; "" at the module's level."""
        names: list[str] = []
        for node in ast.walk(self.tree):
            if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
                first, last = self.range_of(node)
                if first <= start and end <= last:
                    names.append(node.name)
        return ".".join(names)


def lines_of(node: ast.AST) -> tuple[int, int]:
    """Its first and its last line."""
    return getattr(node, "lineno"), getattr(node, "end_lineno")  # noqa: B009
