"""How often a driver is asked whether what is attached still is: docs/invariants.md, S35.

A driver that lists its volumes is asked for all of them at once, once in a period, whether it answers or not:
no answer means that all is still attached, and asking a driver that is ill for one node after the other does
not make it well."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from mooring.simulation.checks.second_opinions.memories import Memories, now
from mooring.simulation.checks.second_opinions.question import Question
from mooring.simulation.cluster.controllers import VERIFY_S
from mooring.volumes.plugins.csi.attaching import CSIAttacher

NEARLY = 0.9
"""Of a period, which begins anew when all that is to be written about an answer was written."""


class Asked:
    """When a driver was asked last, by one process."""

    at: float | None = None


_ASKED: Memories[Asked] = Memories(Asked)


def seconds_since(asked: CSIAttacher, volumes_by_node: Mapping[str, Any]) -> float | None:
    """Since the driver was asked last; None if it never was."""
    last, moment = _ASKED.of(vars(asked)["_driver"]), now()
    since = moment - last.at if last.at is not None else None
    last.at = moment
    return since


def once(
    answer: object, since: float | None, asked: CSIAttacher, volumes_by_node: Mapping[str, Any]
) -> Iterator[str]:
    """No more than once in a period."""
    if since is not None and since < NEARLY * VERIFY_S:
        yield f"a driver is asked what is attached again after {since:.0f} s, of {VERIFY_S:.0f}"


QUESTIONS = (Question(CSIAttacher, "bulk_verify_volumes", once, before=seconds_since, refusals=(Exception,)),)
