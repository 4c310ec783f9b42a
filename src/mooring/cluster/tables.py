"""Tables for people and for programs: cells, and what either is shown of them. Pure; not of Kubernetes."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

from mooring.kube.printable import printable


class Told(NamedTuple):
    """A cell that people and programs are told in different ways: 20Gi, and the number of bytes."""

    text: str
    value: str | int | None


class LastKnown(NamedTuple):
    """A cell of which it is not known whether it still holds."""

    text: str
    value: str | int


Cell = str | int | Told | LastKnown
Row = tuple[Cell, ...]


class Section(NamedTuple):
    """A table. Programs are told of each row whether it is known now, where `heard`."""

    header: tuple[str, ...]
    rows: list[Row]
    heard: bool = False


NO_NUMBER = Told("-", None)
"""In the place of a number that is not known, or that there is none of."""


def ordered(rows: Iterable[Row]) -> list[Row]:
    """By what people read, from the left."""
    return sorted(rows, key=lambda row: [text(cell) for cell in row])


def as_json(tables: Sequence[Section]) -> dict[str, Any]:
    """The same for scripts: numbers are numbers, and `known` says what a question mark says to people."""
    return {each.header[0].lower() + "s": [_as_json(row, each) for row in each.rows] for each in tables}


def _as_json(row: Row, section: Section) -> dict[str, Any]:
    names = (name.lower().replace(" ", "_") for name in section.header)
    found: dict[str, Any] = {name: _value(cell) for name, cell in zip(names, row, strict=True)}
    if section.heard:
        found["known"] = not any(isinstance(cell, LastKnown) for cell in row)
    return found


def _value(cell: Cell) -> str | int | None:
    return cell if isinstance(cell, str | int) else cell.value


def text(cell: Cell) -> str:
    """What people are shown of a cell, made printable."""
    return printable(str(cell) if isinstance(cell, str | int) else cell.text)


def lines(tables: Sequence[Section], note: str = "") -> list[str]:
    """Tables, and below them a note if there is one, with an empty line between any two."""
    shown = [table(each.header, each.rows) for each in tables]
    return "\n\n".join([*shown, *([note] if note else [])]).splitlines()


def shortened(tables: Sequence[Section], room: int) -> list[Section]:
    """Tables that take at most `room` lines together, if that is possible: the longest ones are cut, and say
    how many rows are left out."""
    left = room - sum(2 for _ in tables) + 1  # a header each, and a line between any two
    most: dict[int, int] = {}
    for number, count in sorted(enumerate(len(each.rows) for each in tables), key=lambda pair: pair[1]):
        most[number] = min(count, max(left // (len(tables) - len(most)), 1))
        left -= most[number]
    return [_cut(each, most[number]) for number, each in enumerate(tables)]


def _cut(section: Section, most: int) -> Section:
    missing = len(section.rows) - most + 1
    if missing <= 1:
        return section
    rest: Row = (f"… {missing} more", *[""] * (len(section.header) - 1))
    return section._replace(rows=[*section.rows[: most - 1], rest])


def table(header: Sequence[str], rows: Sequence[Sequence[Cell]]) -> str:
    """Columns as kubectl prints them: as wide as needed, three spaces apart. Cells are made printable."""
    lines = [header, *([text(cell) for cell in row] for row in rows)]
    widths = [max(len(line[column]) for line in lines) for column in range(len(header))]
    return "\n".join(
        "   ".join(c.ljust(w) for c, w in zip(line, widths, strict=True)).rstrip() for line in lines
    )
