"""What wraps a transport."""

from __future__ import annotations

import asyncio

import pytest

from mooring.kube.errors import NotSent, Unreachable
from mooring.kube.transport import AtMost, ReadOnly, Request, Response


class Slow:
    """Notes how many requests it has at once."""

    def __init__(self) -> None:
        self.under_way = self.most = self.answered = 0

    async def send(self, request: Request) -> Response:
        self.under_way += 1
        self.most = max(self.most, self.under_way)
        await asyncio.sleep(0)
        self.under_way -= 1
        self.answered += 1
        if request.path == "/bad":
            raise ConnectionError
        return Response(200, {}, b"")

    async def close(self) -> None: ...


async def test_no_more_requests_than_allowed_are_under_way_and_failed_ones_count_no_more() -> None:
    inner = Slow()
    transport = AtMost(inner, 3)
    sent = [transport.send(Request("GET", "/bad" if number % 2 else "/good")) for number in range(20)]
    await asyncio.gather(*sent, return_exceptions=True)
    assert (inner.most, inner.answered) == (3, 20)


async def test_a_write_of_a_program_that_only_reads_is_certainly_not_sent() -> None:
    inner = Slow()
    with pytest.raises(NotSent) as raised:
        await ReadOnly(inner).send(Request("DELETE", "/good"))
    assert not isinstance(raised.value, Unreachable)
    assert inner.answered == 0


async def test_a_read_of_a_program_that_only_reads_is_sent() -> None:
    inner = Slow()
    assert (await ReadOnly(inner).send(Request("GET", "/good"))).status == 200
    assert inner.answered == 1
