"""Detaches that take long."""

from __future__ import annotations

import asyncio

from structlog.testing import capture_logs

from mooring.ebs.controller_service.detaches import SLOW_S, PendingDetaches


def test_a_detach_that_is_cancelled_is_not_shown_any_more(run) -> None:
    async def story() -> None:
        detaches = PendingDetaches()

        async def wait() -> None:
            with detaches.waiting("vol-1", "i-1") as one:
                one.saw("busy", "/dev/xvdba", 0.0)
                await asyncio.sleep(1000)

        working = asyncio.ensure_future(wait())
        await asyncio.sleep(SLOW_S)
        assert detaches.slow() == {}
        await asyncio.sleep(1)
        assert detaches.slow() == {("vol-1", "i-1"): ("busy", SLOW_S + 1)}
        working.cancel()
        await asyncio.wait([working])
        assert detaches.slow() == {}

    run(story())


def test_of_two_detaches_of_one_pair_the_first_is_shown(run) -> None:
    async def story() -> None:
        detaches = PendingDetaches()
        with detaches.waiting("vol-1", "i-1"):
            await asyncio.sleep(10)
            with detaches.waiting("vol-1", "i-1"), detaches.waiting("vol-1", "i-2"):
                await asyncio.sleep(90)
                assert detaches.slow() == {("vol-1", "i-1"): ("", 100), ("vol-1", "i-2"): ("", 90)}

    run(story())


def test_of_a_detach_that_takes_long_the_log_has_one_line(run) -> None:
    async def story() -> None:
        with capture_logs() as lines, PendingDetaches().waiting("vol-1", "i-1") as one:
            for now in (0.0, SLOW_S, SLOW_S + 1, SLOW_S + 100):
                one.saw("busy", "/dev/xvdba", now)
        [line] = lines
        assert (line["volume"], line["node"], line["state"]) == ("vol-1", "i-1", "busy")

    run(story())
