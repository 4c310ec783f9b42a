"""Faults that belong together: what often comes with a fault, or just after it, and finds more there than
alone.

A restart, and the cache of the part that lags afterwards; a node that is cut off, and a user who removes its
pods by force. A fault of a plan may bring one of its companions: data, drawn with chance of its own, so that
a plan without companions is the same.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from random import Random

import msgspec

from mooring.simulation.cluster.scenario import PlanStep

LAGS_S = 20.0
"""A companion that lasts does so for about this time after the fault has ended."""


class Companion(msgspec.Struct, frozen=True):
    """What comes with a fault: on the part that it strikes, or on `on`. It begins up to `within_s` after the
    fault has begun, or (`after`) has ended. `lasts`: it goes on for a while beyond the fault."""

    what: str
    on: str = ""
    within_s: float = 1.0
    after: bool = False
    lasts: bool = True


def _soon_after(what: str) -> Companion:
    return Companion(what, after=True, lasts=False)


PAIRS: Mapping[str, tuple[Companion, ...]] = {
    "kill": (
        *(Companion("watch-lag"), Companion("old-lists"), Companion("array-puts-off", "array")),
        *(_soon_after("delete-pod-on"), _soon_after("force-delete-pod-on")),
    ),
    "crash": (Companion("watch-lag"), Companion("old-lists")),
    "freeze": (Companion("watch-lag"), Companion("delete-pod-on", within_s=20, lasts=False)),
    "kill-server": (
        Companion("storm", "attaching"),
        Companion("storm", "placing"),
        Companion("kill", "attaching"),
    ),
    "two-leaders": (Companion("slow-array", "array"), Companion("array-puts-off", "array")),
    "flaps": (
        *(Companion("stall", "fencing", within_s=60), Companion("watch-lag", "fencing", within_s=60)),
        *(Companion("cut", "attaching", within_s=60), Companion("fence-stale", within_s=60)),
    ),
    "cut": (
        *(Companion("fence-lies", within_s=40), Companion("fence-swapped", within_s=40)),
        *(Companion("fence-unanswered", within_s=40), Companion("untaint", within_s=120)),
        Companion("force-delete-pod-on", within_s=30, lasts=False),
        Companion("delete-node", within_s=60),
    ),
    "power-off": (
        Companion("delete-node", within_s=60),
        Companion("force-delete-pod-on", within_s=60, lasts=False),
    ),
    "slow-mount": (
        *(Companion("kill", within_s=10, lasts=False), Companion("delete-pod-on", within_s=10, lasts=False)),
        *(Companion("drain", within_s=10), Companion("kill-service", within_s=10, lasts=False)),
    ),
    "slow-unmount": (Companion("kill", within_s=20, lasts=False), Companion("drain", within_s=1)),
    "watch-lag": (Companion("delete-pod-on", within_s=10, lasts=False), Companion("kill", lasts=False)),
    "late-kind": (
        *(Companion("delete-pod-on", within_s=10, lasts=False), Companion("restart-set", within_s=20)),
        *(Companion("delete-claim", within_s=20), Companion("drain", within_s=20)),
        *(Companion("replace-machine", within_s=20), Companion("kill", within_s=20, lasts=False)),
    ),
    "lose-rare": (
        *(Companion("delete-pod-on", within_s=30, lasts=False), Companion("restart-set", within_s=60)),
        *(
            Companion("delete-claim", within_s=60),
            Companion("conflicts", "api"),
            Companion("kill", lasts=False),
        ),
    ),
    "webhook-fails": (
        *(Companion("delete-pod-on", "placing", within_s=10, lasts=False), Companion("watch-lag", "placing")),
        *(Companion("kill", "placing", lasts=False), Companion("kill", "attaching", lasts=False)),
    ),
    "expire-watch": (
        Companion("delete-pod-on", within_s=10, lasts=False),
        Companion("kill-server", within_s=20),
    ),
    "back-in-attach": (Companion("slow-array", "array"), Companion("array-puts-off", "array")),
    "absent-machine": (Companion("slow-array", "array"), Companion("array-puts-off", "array")),
    "driver-leaves": (Companion("kill", within_s=5, lasts=False), Companion("drain", within_s=5)),
    "slow-array": (
        Companion("kill", "attaching", within_s=20),
        Companion("two-leaders", "attaching", within_s=20),
    ),
    "array-unanswered": (Companion("kill", "attaching", within_s=20, lasts=False),),
    "array-puts-off": (
        Companion("kill", "attaching", within_s=20, lasts=False),
        Companion("watch-lag", "attaching"),
    ),
    "ec2-puts-off": (
        Companion("kill", "ebs", within_s=20, lasts=False),
        Companion("kill", "attaching", within_s=20),
    ),
}
"""What may come with a fault of a kind."""


def companions(
    chance: Random, faults: Iterable[PlanStep], share: float, possible: Mapping[str, Iterable[str]]
) -> Iterator[PlanStep]:
    """For about this share of the faults one companion each. `possible`: by kind, what it may strike here."""
    for fault in faults:
        there = [
            each for each in PAIRS.get(fault.what, ()) if (each.on or fault.on) in possible.get(each.what, ())
        ]
        if not there or chance.random() >= share:
            continue
        with_it = chance.choice(there)
        begins = fault.at + (fault.value if with_it.after else 0.0) + chance.random() * with_it.within_s
        value = (fault.value + LAGS_S if with_it.lasts else 1.0) * chance.random()
        yield PlanStep(
            round(begins, 3),
            with_it.what,
            with_it.on or fault.on,
            round(value + 0.01, 3),
            chance.randrange(12),
        )
