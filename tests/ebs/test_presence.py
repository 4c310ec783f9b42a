"""Whether a volume or snapshot exists, before an EC2 that shows what a story says."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from datetime import UTC, datetime
from typing import Any

import pytest
from played_ec2 import PlayedEc2

from mooring.csi.errors import Code, CsiError
from mooring.ebs.controller_service.presence import making, snapshot_there, volume_there
from mooring.ebs.ec2.records import Snapshot, Volume
from mooring.ebs.ec2.settling import Settling

VOLUME, SNAPSHOT = "vol-0123456789abcdef0", "snap-0123456789abcdef0"
Run = Callable[[Coroutine[Any, Any, Any]], Any]


def ec2_from(at: float) -> PlayedEc2:
    """It shows a volume and a snapshot from that time on."""
    volume = Volume(VOLUME, "available", 10, "gp3", "zone-a")
    snapshot = Snapshot(SNAPSHOT, VOLUME, "completed", 10, datetime(2030, 1, 1, tzinfo=UTC))
    ec2 = PlayedEc2(lambda now: volume if now >= at else None)
    ec2.snapshots = lambda now: [snapshot] if now >= at else []
    return ec2


KINDS = pytest.mark.parametrize(
    ("there", "kind", "id"), [(volume_there, "volume", VOLUME), (snapshot_there, "snapshot", SNAPSHOT)]
)


@KINDS
def test_what_was_just_made_is_waited_for_and_what_is_not_there_is_not_found_only_then(
    run: Run, there: Callable[..., Coroutine[Any, Any, Any]], kind: str, id: str
) -> None:
    async def story() -> None:
        played: Any = ec2_from(104)
        settling = Settling()
        await asyncio.sleep(100)
        with pytest.raises(CsiError) as caught:
            await there(played, settling, id)
        assert (caught.value.code, caught.value.message) == (Code.NOT_FOUND, f"there is no {kind} {id}")
        assert played.at == [100]
        settling.note(making(id))
        assert (await there(played, settling, id)).id == id

    run(story())


@KINDS
def test_what_ec2_cannot_have_is_not_there_at_the_first_look(
    run: Run, there: Callable[..., Coroutine[Any, Any, Any]], kind: str, id: str
) -> None:
    async def story() -> None:
        played: Any = ec2_from(100)
        with pytest.raises(CsiError, match=f"there is no {kind} a-disk"):
            await there(played, Settling(), "a-disk")
        assert played.at == [0]

    run(story())
