"""What the colours of a picture mean; only of what it has. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from mooring.pictures.looks import LEGEND, LOOKS, SILENT, Look
from mooring.pictures.model import Band, Group, Panel
from mooring.pictures.shapes import Box, Place, Shape, Stroke, Text

SIZE, LINE, BOX, GAP = 12, 22.0, 14.0, 22.0
COULD, DID, LOST = "two nodes could have written", "two nodes can write", "lost"
RUNS, AWAY, NO_ANSWER = "pod runs", "pod is away", "node does not answer"


def legend(panels: Sequence[Panel], left: float, right: float, top: float) -> tuple[list[Shape], float]:
    """Its shapes, in as many lines as it takes, and where it ends."""
    shapes: list[Shape] = []
    x, y = left, top
    for words in _words([group for panel in panels for group in panel.groups]):
        text = Text(x + BOX + 6, y + BOX - 2, words, SIZE)
        if text.place.right > right and x > left:
            x, y = left, y + LINE
            text = Text(x + BOX + 6, y + BOX - 2, words, SIZE)
        shapes += [*_sample(words, x, y), text]
        x = text.place.right + GAP
    return shapes, y + LINE if shapes else top


def _words(groups: Sequence[Group]) -> Iterator[str]:
    lanes = [lane for group in groups for row in group.rows for lane in row.lanes]
    bands: list[Band] = [band for lane in lanes for band in lane.bands]
    yield from (LEGEND[look] for look in Look if any(band.look is look for band in bands))
    shades = [shade for group in groups for shade in group.shades]
    stretches = [each for group in groups for line in group.lines for each in line.stretches]
    facts = {
        NO_ANSWER: any(band.silent for band in bands),
        RUNS: any(not each.away for each in stretches),
        AWAY: any(each.away for each in stretches),
        COULD: any(not shade.wrong for shade in shades),
        DID: any(shade.wrong for shade in shades),
        LOST: any(lane.losses for lane in lanes),
    }
    yield from (words for words, there in facts.items() if there)


def _sample(words: str, x: float, y: float) -> Iterator[Shape]:
    middle = y + BOX / 2
    if words == RUNS:
        yield Stroke(x, middle, x + BOX, middle, "runs", 4)
    elif words == AWAY:
        yield Stroke(x, middle, x + BOX, middle, "alarm", 2, "3 3")
    elif words == LOST:
        yield from cross(x + BOX / 2, middle, LOST)
    elif words in (COULD, DID):
        place = Place(x, y, x + BOX, y + BOX)
        yield ground(place, wrong=words == DID, hint="")
        yield from frame(place, wrong=words == DID, hint="")
    elif words == NO_ANSWER:
        yield Box(x, y, BOX, BOX, "empty")
        yield Box(x, y, BOX, BOX, SILENT)
    else:
        yield Box(x, y, BOX, BOX, next(LOOKS[look] for look in Look if LEGEND[look] == words))


def cross(x: float, y: float, hint: str, reach: float = 5.0) -> Iterator[Stroke]:
    """Something is lost here."""
    for slope in (1, -1):
        for paint, wide in (("paper", 5.0), ("alarm", 2.5)):
            yield Stroke(x - reach, y - slope * reach, x + reach, y + slope * reach, paint, wide, hint=hint)


def ground(place: Place, *, wrong: bool, hint: str) -> Box:
    """What lies beneath the bands of a stretch that matters."""
    left, top, right, bottom = place
    return Box(left, top, right - left, bottom - top, _paint(wrong), 0.35, hint)


def frame(place: Place, *, wrong: bool, hint: str) -> Iterator[Shape]:
    """What lies around it: bands keep their colours."""
    left, top, right, bottom = place
    for x1, y1, x2, y2 in (
        (left, top, left, bottom),
        (right, top, right, bottom),
        (left, top, right, top),
        (left, bottom, right, bottom),
    ):
        yield Stroke(x1, y1, x2, y2, _paint(wrong), 2.5, hint=hint)


def _paint(wrong: bool) -> str:
    return "alarm" if wrong else "wait"
