"""Golden traces: what happens, step by step, as text that a person reads and a test compares byte for byte.

`python -m tests.golden` makes all files anew.
"""

from __future__ import annotations

import asyncio
from itertools import takewhile
from pathlib import Path

import pytest
from tests.conftest import run_in_virtual_time
from tests.golden.schedules import SCHEDULES, Schedule
from tests.golden.simulated import STORIES

DIRECTORY = Path(__file__).parent / "traces"


def path(name: str) -> Path:
    return DIRECTORY / f"{name}.txt"


def texts() -> dict[str, str]:
    """Each file's name, and what has to be in it."""
    texts = {story.name: story.text() for story in STORIES}
    return {schedule.name: text(schedule) for schedule in SCHEDULES} | texts


def text(schedule: Schedule) -> str:
    """The schedule with its rule, and from where they differ without it."""
    safe, harmful = played(schedule), played_without(schedule)
    head = [f"{schedule.name}  {schedule.title}", "", f"Rule: {schedule.rule}"]
    off = ["", "", f"WITHOUT THE RULE: {schedule.without}. As above, up to:"]
    return "\n".join([*head, *safe, *off, *_from_the_difference(safe, harmful)]) + "\n"


def played(schedule: Schedule) -> list[str]:
    """The lines of a run."""

    async def story() -> list[str]:
        scene = schedule.scene()
        await scene.begin()
        scene.recorder.lines.clear()
        await schedule.play(scene)
        await asyncio.sleep(0.1)
        await scene.say_what_is_true()
        scene.end()
        return scene.recorder.lines

    return run_in_virtual_time(story())


def played_without(schedule: Schedule) -> list[str]:
    """The same with the rule switched off."""
    with pytest.MonkeyPatch.context() as patch:
        schedule.switch_off(patch)
        return played(schedule)


def _from_the_difference(one: list[str], other: list[str]) -> list[str]:
    """The lines of the other, from the step on in which they begin to differ."""
    same = sum(1 for _ in takewhile(lambda pair: pair[0] == pair[1], zip(one, other, strict=False)))
    start = max((at for at in range(min(same + 1, len(other))) if other[at] == ""), default=0)
    return other[start:]
