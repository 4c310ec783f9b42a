"""`waiting.until` says what was seen last; no test brings a loop of its own for the same."""

from __future__ import annotations

import asyncio
import re
from typing import Any

import pytest
from waiting import until, until_in_thread

from .references import ROOT

OWN = re.compile(r"never came true|never happened|still not so")


def test_it_returns_what_was_waited_for(run: Any) -> None:
    looks = iter([0, 0, "there"])
    assert run(until(lambda: next(looks))) == "there"


def test_in_vain_it_says_what_was_waited_for_what_was_seen_and_the_scene(run: Any) -> None:
    async def scene() -> str:
        return "two nodes"

    with pytest.raises(AssertionError, match=r"not so after 9 s: \d\s*seen last: \[\]\s*two nodes") as raised:
        run(until(list, "9", seconds=9, state=scene))
    assert "9" in str(raised.value)
    there = False
    with pytest.raises(AssertionError, match="lambda: there"):
        until_in_thread(lambda: there, seconds=0)


def test_what_the_check_raises_ends_the_waiting(run: Any) -> None:
    def check() -> None:
        raise RuntimeError("the part has ended")

    with pytest.raises(RuntimeError, match="the part has ended"):
        run(until(lambda: False, check=check))


def test_a_timeout_of_what_was_called_is_not_taken_for_its_own(run: Any) -> None:
    async def holds() -> bool:
        async with asyncio.timeout(1):
            await asyncio.sleep(2)
        return True

    with pytest.raises(TimeoutError):
        run(until(holds, seconds=60))


def test_no_test_has_a_loop_of_its_own_for_it() -> None:
    found = [str(path) for path in (ROOT / "tests").rglob("*.py") if OWN.search(path.read_text())]
    assert [each for each in found if not each.endswith("test_waiting.py")] == []
