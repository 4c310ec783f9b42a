"""Which device name a volume is given on an instance: EC2 User Guide, "Device names for volumes";
docs/ebs.md, "Names"; the design that Mooring began with; upstream issues 1674 and 2833.

What was given, refused and let go is remembered here as well, in words of its own: until when each name is
in which of these states.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from string import ascii_lowercase

from mooring.ebs.controller_service.device_names import DeviceNames
from mooring.simulation.checks.second_opinions.memories import Memories
from mooring.simulation.checks.second_opinions.question import Question

REFUSED_S = 3600.0
LET_GO_S = 30.0
_TWO = [first + second for first in "abcd" for second in ascii_lowercase]
OWN = _TWO[: _TWO.index("dx") + 1]
"""Names of two letters, aa to dx, as nothing else uses them."""
ALL = [*OWN, *ascii_lowercase[1:]]
"""And b to z. Not a: the root device's."""
PLACES = {name: place for place, name in enumerate(ALL)}


def plain(device: str) -> str:
    """What is left of /dev/sdb, /dev/xvdb and xvdb alike: b."""
    name = device.removeprefix("/dev/")
    return next((name.removeprefix(each) for each in ("xvd", "sd", "hd") if name.startswith(each)), device)


@dataclass
class Given:
    """The names of one instance. `reserved`: by volume; `refused`, `let_go`: until when they are so; `last`:
    which was given last; empty: any may be next; `asked`: when a name was asked for last."""

    reserved: dict[str, str] = field(default_factory=dict[str, str])
    refused: dict[str, float] = field(default_factory=dict[str, float])
    let_go: dict[str, float] = field(default_factory=dict[str, float])
    last: str = ""
    asked: float = 0.0

    def doubt(self, name: str, now: float) -> tuple[bool, bool, bool]:
        """Of two names that are free the one with less of it is given."""
        refused, let_go = now < self.refused.get(name, now), now < self.let_go.get(name, now)
        return refused, let_go, len(name) == 1

    def after_the_last(self, name: str) -> int:
        """So many places after the one that was given last: the next one in turn has the fewest."""
        return (PLACES[name] - PLACES[self.last] - 1) % len(ALL) if self.last else 0


NAMES: Memories[defaultdict[str, Given]] = Memories(lambda: defaultdict(Given))


def of_a_name(
    answer: str | None, names: DeviceNames, node: str, volume: str, in_use: Iterable[str], now: float
) -> Iterator[str]:
    """It is free: neither shown in use, however it is spelt, nor given to another volume on its way. Of those
    that are, it is the one of the least doubt, and of these the next in turn."""
    given = NAMES.of(names)[node]
    if now - given.asked >= REFUSED_S:
        given.last = ""  # of a node that was not asked about for so long nothing need be remembered
    given.asked = now
    given.reserved.pop(volume, None)
    taken = {*map(plain, in_use), *given.reserved.values()}
    free = [name for name in ALL if name not in taken]
    chosen = plain(answer) if answer else ""
    if bool(free) is not bool(answer) or (answer and (chosen not in free or answer != f"/dev/xvd{chosen}")):
        yield f"{volume} gets {answer} on {node}, where {len(free)} names are free"
    elif chosen:
        best = min(free, key=lambda name: (given.doubt(name, now), given.after_the_last(name)))
        if given.doubt(best, now) != given.doubt(chosen, now) or (given.last and best != chosen):
            yield f"{volume} gets {answer} on {node}, and {best} would be next"
        given.last = chosen
        given.reserved[volume] = chosen


def of_a_refusal(answer: None, names: DeviceNames, node: str, device: str, now: float) -> Iterator[str]:
    """It is the last choice for an hour."""
    given = NAMES.of(names)[node]
    given.refused[plain(device)], given.last = now + REFUSED_S, ""
    yield from _of_refused(names, node, now)


def of_success(answer: None, names: DeviceNames, node: str, device: str, now: float) -> Iterator[str]:
    """A name that works is refused no longer."""
    NAMES.of(names)[node].refused.pop(plain(device), None)
    yield from _of_refused(names, node, now)


def _of_refused(names: DeviceNames, node: str, now: float) -> Iterator[str]:
    expected = {name: until for name, until in NAMES.of(names)[node].refused.items() if until > now}
    if expected != (kept := vars(names)["_nodes"][node].bad):
        yield f"the names {kept} of {node} count as refused, and {expected} are"


def of_an_end(answer: None, names: DeviceNames, node: str, volume: str, now: float) -> Iterator[str]:
    """The name is let go: it is given to no other volume for half a minute, if that can be helped."""
    given, kept = NAMES.of(names)[node], vars(names)["_nodes"][node]
    if name := given.reserved.pop(volume, ""):
        given.let_go[name] = now + LET_GO_S
        if kept.held.get(name, now) != now + LET_GO_S:
            yield f"{name} of {node} was let go, and may be given at once"
    if volume in kept.given:
        yield f"a name of {node} is kept for {volume}, which has ended"


QUESTIONS = (
    Question(DeviceNames, "give", of_a_name),
    Question(DeviceNames, "refused", of_a_refusal),
    Question(DeviceNames, "worked", of_success),
    Question(DeviceNames, "end", of_an_end),
)
