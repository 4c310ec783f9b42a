"""Several writes at once, begun carefully."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import pytest

from mooring.kube.batches import in_growing_batches, one_by_one
from mooring.kube.errors import ApiError, Conflict, Forbidden, Unreachable


def test_one_at_first_then_twice_as_many_each_time(run: Callable[[Any], Any]):
    under_way, most = set[int](), list[int]()

    async def act(number: int) -> None:
        under_way.add(number)
        await asyncio.sleep(1)
        most.append(len(under_way))
        await asyncio.sleep(1)
        under_way.remove(number)

    run(in_growing_batches(range(8), act))
    assert most == [1, 2, 2, 4, 4, 4, 4, 1]


def test_after_a_batch_with_an_error_nothing_more_is_tried(run: Callable[[Any], Any]):
    tried: list[int] = []

    async def act(number: int) -> None:
        tried.append(number)
        if number == 1:
            raise ValueError("refused")

    with pytest.raises(ValueError, match="refused"):
        run(in_growing_batches(range(8), act))
    assert tried == [0, 1, 2]


@pytest.mark.parametrize(
    ("error", "tried"),
    [
        (Forbidden("no", status=403), [0, 1, 2, 3]),
        (Conflict("no", status=409), [0, 1, 2, 3]),
        (Unreachable("no"), [0, 1]),
    ],
)
def test_what_is_refused_of_one_keeps_no_other_from_its_turn(
    run: Callable[[Any], Any], error: Exception, tried: list[int]
):
    begun: list[int] = []

    async def act(number: int) -> None:
        begun.append(number)
        if number == 1:
            raise error
        if number == 3:
            raise ApiError("and another", status=400)

    with pytest.raises(type(error), match="no"):
        run(one_by_one(range(4), act))
    assert begun == tried
