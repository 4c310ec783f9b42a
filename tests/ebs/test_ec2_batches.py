"""Many questions, few calls."""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import Mapping, Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mooring.ebs.ec2.batches import Batches, isolated
from mooring.ebs.errors import Ec2Error, Ec2Unreachable


class Asked:
    """Knows some names; complains about the others as EC2 does, or less helpfully."""

    def __init__(self, known: Sequence[str], words: str = "named", takes_s: float = 0.1) -> None:
        self.known = set(known)
        self.words = words
        self.takes_s = takes_s
        self.calls: list[tuple[float, list[str]]] = []

    async def __call__(self, names: Sequence[str]) -> Mapping[str, str]:
        self.calls.append((asyncio.get_running_loop().time(), list(names)))
        await asyncio.sleep(self.takes_s)
        bad = [name for name in names if name not in self.known]
        if bad:
            names_in_error = {"named": bad, "first": bad[:1], "all": list(names), "none": []}[self.words]
            raise Ec2Error(
                "InvalidVolume.NotFound", f"The volume '{', '.join(names_in_error)}' does not exist."
            )
        return {name: name.upper() for name in names}


def about_names(error: Ec2Error) -> bool:
    return error.code.endswith(".NotFound")


def batches(asked: Asked, largest: int = 100) -> Batches[str]:
    return Batches(asked, largest=largest, concerns_names=about_names)


def test_questions_of_one_moment_are_one_call_and_equal_ones_share_a_place(run) -> None:
    async def story() -> None:
        asked = Asked("ab")
        kind = batches(asked)
        assert await asyncio.gather(*(kind.get(name) for name in "abba")) == ["A", "B", "B", "A"]
        assert [names for _, names in asked.calls] == [["a", "b"]]

    run(story())


def test_the_first_question_after_a_quiet_time_goes_out_at_once_and_later_ones_once_a_second(run) -> None:
    async def story() -> None:
        asked = Asked("a")
        kind = batches(asked)
        for _ in range(3):
            await kind.get("a")
        await asyncio.sleep(10)
        await kind.get("a")
        times = [time for time, _ in asked.calls]
        assert times[0] == pytest.approx(0.02)
        assert [later - earlier for earlier, later in itertools.pairwise(times)][:2] == pytest.approx(
            [1.0, 1.0]
        )
        assert times[3] == pytest.approx(times[2] + 10.12)

    run(story())


def test_a_question_is_never_answered_by_a_call_that_began_before_it(run) -> None:
    async def story() -> None:
        asked = Asked("a", takes_s=5)
        kind = batches(asked)
        first = asyncio.ensure_future(kind.get("a"))
        await asyncio.sleep(1)
        await kind.get("a")
        assert first.done()
        assert len(asked.calls) == 2

    run(story())


def test_no_call_is_larger_than_ec2_takes_and_there_is_still_one_a_second(run) -> None:
    async def story() -> None:
        names = [f"n{number}" for number in range(25)]
        asked = Asked(names)
        kind = batches(asked, largest=10)
        await asyncio.gather(*(kind.get(name) for name in names))
        assert [len(names) for _, names in asked.calls] == [10, 10, 5]
        assert asked.calls[-1][0] == pytest.approx(2.02)

    run(story())


def test_who_stops_waiting_stops_at_once_and_the_others_get_their_answers(run) -> None:
    async def story() -> None:
        kind = batches(Asked("ab", takes_s=30))
        other = asyncio.ensure_future(kind.get("b"))
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(2):
                await kind.get("a")
        assert asyncio.get_running_loop().time() == 2
        assert await other == "B"

    run(story())


def test_when_the_questions_are_cancelled_none_waits_for_an_answer_and_new_ones_are_put(run) -> None:
    """As at the end of a process, which cancels every task in whatever order."""

    async def story() -> None:
        kind = batches(Asked("ab", takes_s=30))
        before = asyncio.all_tasks()
        asking = asyncio.ensure_future(kind.get("a"))
        await asyncio.sleep(1)
        waiting = asyncio.ensure_future(kind.get("b"))
        await asyncio.sleep(1)
        for task in asyncio.all_tasks() - before - {asking, waiting}:
            task.cancel()
        await asyncio.wait([asking, waiting], timeout=99)
        assert asking.cancelled()
        assert waiting.cancelled()
        assert await kind.get("a") == "A"

    run(story())


def test_an_error_that_is_about_the_call_is_everybodys(run) -> None:
    async def story() -> None:
        async def fails(names: Sequence[str]) -> Mapping[str, str]:
            raise Ec2Unreachable("no answer")

        kind = Batches(fails, largest=5, concerns_names=about_names)
        results = await asyncio.gather(kind.get("a"), kind.get("b"), return_exceptions=True)
        assert [type(one) for one in results] == [Ec2Unreachable, Ec2Unreachable]
        assert isinstance((await asyncio.gather(kind.get("a"), return_exceptions=True))[0], Ec2Unreachable)

    run(story())


@given(
    st.sets(st.integers(0, 30), max_size=20), st.sets(st.integers(0, 30), max_size=6),
    st.sampled_from(["named", "first", "all", "none"]),
)  # fmt: skip
def test_a_bad_name_costs_nobody_but_who_asked_for_it(good, bad, words) -> None:
    names = [f"vol-{number}" for number in sorted(good | bad)]
    known = [f"vol-{number}" for number in good - bad]
    asked = Asked(known, words, takes_s=0)
    found = asyncio.run(isolated(names, asked, about_names))
    assert found == {name: name.upper() for name in known}
    if words == "named" and len(bad) < len(names):
        assert len(asked.calls) <= 2


def test_bad_names_are_taken_out_and_the_rest_is_asked_again_at_once(run) -> None:
    async def story() -> None:
        asked = Asked(["vol-1", "vol-12"])
        kind = batches(asked)
        assert await asyncio.gather(kind.get("vol-1"), kind.get("vol-12"), kind.get("vol-2")) == [
            "VOL-1",
            "VOL-12",
            None,
        ]
        assert [names for _, names in asked.calls] == [["vol-1", "vol-12", "vol-2"], ["vol-1", "vol-12"]]
        assert asked.calls[1][0] < 1

    run(story())
