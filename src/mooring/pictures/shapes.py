"""What a drawing is made of: boxes, strokes and texts, each at its place. Values; nothing is decided here."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

from mooring.pictures.lettering import width

ASCENT, DESCENT = 0.95, 0.28
"""Of a font of size 1: how far letters reach above and below their line."""


class Place(NamedTuple):
    """A rectangle: its left, top, right and bottom."""

    left: float
    top: float
    right: float
    bottom: float

    def overlaps(self, other: Place) -> bool:
        return (
            self.left < other.right
            and other.left < self.right
            and self.top < other.bottom
            and other.top < self.bottom
        )


@dataclass(frozen=True)
class Box:
    """A filled rectangle. `edge`: the paint of its left and right edges. `hint` is shown on pointing."""

    x: float
    y: float
    width: float
    height: float
    paint: str
    opacity: float = 1.0
    hint: str = ""

    @property
    def place(self) -> Place:
        return Place(self.x, self.y, self.x + self.width, self.y + self.height)


@dataclass(frozen=True)
class Stroke:
    x1: float
    y1: float
    x2: float
    y2: float
    paint: str
    width: float = 1.0
    dashes: str = ""
    hint: str = ""

    @property
    def place(self) -> Place:
        return Place(
            min(self.x1, self.x2), min(self.y1, self.y2), max(self.x1, self.x2), max(self.y1, self.y2)
        )


@dataclass(frozen=True)
class Text:
    """One line of text whose line of writing is at `y`. `to_left`: it ends at `x`; `middle`: it is centred
    there. `backed`: paper lies beneath it."""

    x: float
    y: float
    text: str
    size: float
    paint: str = "ink"
    bold: bool = False
    mono: bool = False
    to_left: bool = False
    middle: bool = False
    backed: bool = False
    hint: str = ""

    @property
    def width(self) -> float:
        return width(self.text, self.size, bold=self.bold, mono=self.mono)

    @property
    def place(self) -> Place:
        left = self.x - self.width * (1.0 if self.to_left else 0.5 if self.middle else 0.0)
        return Place(left, self.y - ASCENT * self.size, left + self.width, self.y + DESCENT * self.size)


Shape = Box | Stroke | Text


@dataclass(frozen=True)
class Drawing:
    """All shapes, the lowest first, on a sheet of that size."""

    title: str
    width: float
    height: float
    shapes: tuple[Shape, ...]
