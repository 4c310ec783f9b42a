"""The choice of a device name for a volume on a node. Pure: time (in seconds) and chance are parameters.

EC2 shows the names in use (the node's block devices, and the volumes' attachments). This module remembers
only what EC2 does not show: names given to attachments in flight, names given a moment ago that may still, or
already, be in use, and names that EC2 has refused. A restart may lose all of it: EC2 refuses a name that is
taken, and the attacher tries another one.

Rules (origin design, "device names"; EC2 User Guide, "Device names for volumes"; upstream issues 1674 and
2833):
- /dev/sdb and /dev/xvdb are one name.
- Names of two letters (/dev/xvdba) come before those of one (/dev/xvdf), which images and launch templates
  also use: when an instance is started again, its node service must tell this driver's volumes from others by
  their names (`volume_limits`; upstream #2796).
- Names are given in turn, so that a name which the instance has not really released is not reused at once.
- A refused name (an image may have taken it, which no describe shows) is the last choice for an hour.
- The place where the turn begins (among the names of two letters), and where it goes on after a refusal, is
  random: two controllers that began at one place would give the same names, and EC2 would refuse half of
  them.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field

BAD_FOR_S = 3600.0
HELD_FOR_S = 30.0
"""Seconds after the end of an attach, successful or not, for which EC2 may still show its name wrongly."""


def _names(prefix: str, last: str = "z", first: str = "a") -> tuple[str, ...]:
    return tuple(f"{prefix}{chr(letter)}" for letter in range(ord(first), ord(last) + 1))


OWN_NAMES = (
    *_names("/dev/xvda"),
    *_names("/dev/xvdb"),
    *_names("/dev/xvdc"),
    *_names("/dev/xvdd", last="x"),
)
"""Names that no other program has a reason to use."""
NAMES = (*OWN_NAMES, *_names("/dev/xvd", first="b"))
"""All names that are given, in this order: as many as an instance can have. None of them is another's alias,
and none is the root device's."""
_OWN = frozenset(OWN_NAMES)
_PLACES = {name: place for place, name in enumerate(NAMES)}
_SPELLING = re.compile(r"(?:/dev/)?(?:sd|xvd|hd)(.+)")


def canonical(device: str) -> str:
    """One spelling for all spellings of a name: /dev/sdb, /dev/xvdb and xvdb give b."""
    match = _SPELLING.fullmatch(device)
    return match[1] if match else device


@dataclass
class _Node:
    last: int
    """The place of the name that was given last."""
    asked: float
    """When it was last asked about."""
    given: dict[str, tuple[str, int]] = field(default_factory=dict[str, tuple[str, int]])
    """By volume: canonical name and card."""
    held: dict[str, float] = field(default_factory=dict[str, float])
    """Canonical names, and until when."""
    bad: dict[str, float] = field(default_factory=dict[str, float])


class DeviceNames:
    """The names of all nodes, in one process. `random` gives numbers from [0, 1)."""

    def __init__(self, random: Callable[[], float]) -> None:
        self._random = random
        self._nodes: dict[str, _Node] = {}

    def give(self, node: str, volume: str, in_use: Iterable[str], now: float) -> str | None:
        """Reserves a free name for the volume until `end`; None if all are taken.

        It is the first free name in turn that is neither refused nor held, one of `OWN_NAMES` if possible."""
        names = self._node(node, now)
        names.given.pop(volume, None)
        taken = {*map(canonical, in_use), *(name for name, _ in names.given.values())}
        turn = [*NAMES[names.last + 1 :], *NAMES[: names.last + 1]]
        free = [name for name in turn if canonical(name) not in taken]
        if not free:
            return None
        chosen = min(free, key=lambda name: _doubt(names, name))  # of equal ones the first in turn
        names.last = _PLACES[chosen]
        names.given[volume] = (canonical(chosen), 0)
        return chosen

    def choose_card(self, node: str, volume: str, cards: int, in_use: Iterable[int], now: float) -> int:
        """The EBS card with the fewest volumes, the first of equal ones. To be called after `give`."""
        names = self._node(node, now)
        counts = Counter([*in_use, *(card for other, (_, card) in names.given.items() if other != volume)])
        card = min(range(cards), key=lambda card: counts[card])
        name, _ = names.given[volume]
        names.given[volume] = (name, card)
        return card

    def refused(self, node: str, device: str, now: float) -> None:
        """Notes that EC2 refused the name, or that the attach with it got stuck."""
        names = self._node(node, now)
        names.bad[canonical(device)] = now + BAD_FOR_S
        names.last = self._anywhere()

    def worked(self, node: str, device: str, now: float) -> None:
        """Notes that a volume is attached with the name."""
        self._node(node, now).bad.pop(canonical(device), None)

    def end(self, node: str, volume: str, now: float) -> None:
        """Ends the volume's reservation. EC2 shows from now on whether the name is in use, though with a lag,
        for which the name stays held."""
        names = self._node(node, now)
        if volume in names.given:
            names.held[names.given.pop(volume)[0]] = now + HELD_FOR_S

    def _node(self, node: str, now: float) -> _Node:
        names = self._nodes.get(node)
        if names is None:
            self._forget_idle(now)
            names = self._nodes[node] = _Node(self._anywhere(), now)
        names.asked = now
        _expire(names.held, now)
        _expire(names.bad, now)
        return names

    def _forget_idle(self, now: float) -> None:
        """Instances come and go. What is remembered of one is worth nothing once its refusals are not."""
        for node in [each for each, names in self._nodes.items() if _is_idle(names, now)]:
            del self._nodes[node]

    def _anywhere(self) -> int:
        """The place before a random one of `OWN_NAMES`."""
        return int(self._random() * len(OWN_NAMES)) - 1


def _is_idle(names: _Node, now: float) -> bool:
    return not names.given and names.asked + BAD_FOR_S <= now


def _doubt(names: _Node, name: str) -> tuple[bool, bool, bool]:
    """The sort key of a free name: names that EC2 may refuse come last."""
    return canonical(name) in names.bad, canonical(name) in names.held, name not in _OWN


def _expire(until: dict[str, float], now: float) -> None:
    drop: Callable[[str], object] = until.pop
    for name in [name for name, end in until.items() if end <= now]:
        drop(name)
