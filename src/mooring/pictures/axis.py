"""From seconds to places on a sheet, and the times that are written beneath. Pure."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from math import ceil

from mooring.pictures.lettering import width

SIZE = 11
_STEPS = (
    *(
        0.001,
        0.002,
        0.005,
        0.01,
        0.02,
        0.05,
        0.1,
        0.2,
        0.5,
        1.0,
        2.0,
        5.0,
        10.0,
        20.0,
        30.0,
        60.0,
        120.0,
        300.0,
    ),
    *(600.0, 1200.0, 1800.0, 3600.0, 7200.0, 21600.0, 43200.0),
)
DAY_S = 86400.0
_LONG_S = 600.0
"""What takes longer is counted in minutes or hours where the steps are whole ones."""


@dataclass(frozen=True)
class Axis:
    """The seconds from `start` to `end` between `left` and `right`."""

    start: float
    end: float
    left: float
    right: float

    def x(self, at: float) -> float:
        """Where a moment is."""
        return self.left + (at - self.start) * self._scale

    @property
    def _scale(self) -> float:
        return (self.right - self.left) / max(self.end - self.start, 1e-9)

    def ticks(self) -> Iterator[tuple[float, str]]:
        """Places and their times, so many as have room."""
        step = self._step()
        for number in range(ceil(self.start / step - 1e-9), int(self.end / step + 1e-9) + 1):
            yield self.x(number * step), self._words(number * step, step)

    def _step(self) -> float:
        for step in _STEPS:
            if self._has_room(step):
                return step
        step = DAY_S
        while not self._has_room(step):
            step *= 2
        return step

    def _has_room(self, step: float) -> bool:
        widest = max(width(self._words(at // step * step, step), SIZE) for at in (self.start, self.end))
        return widest + 14 <= step * self._scale

    def _words(self, at: float, step: float) -> str:
        if self.end - self.start > _LONG_S and step % 3600 == 0:
            return f"{at / 3600:g} h"
        if self.end - self.start > _LONG_S and step % 60 == 0:
            return f"{at / 60:g} min"
        return f"{round(at, 3):.10g} s"
