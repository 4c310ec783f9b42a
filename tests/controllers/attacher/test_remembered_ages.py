"""The requests that a lease holder remembers, by themselves."""

from __future__ import annotations

import asyncio
from typing import Any
from unittest.mock import create_autospec

from mooring.controllers.attacher.remembered_detaches import RememberedDetaches
from mooring.kube.client import Client
from mooring.kube.objects import ObjectMeta, VolumeAttachment


def test_with_each_request_those_that_cannot_take_effect_any_more_are_forgotten(run: Any):
    """The storage may refuse to answer for days."""
    record = VolumeAttachment(metadata=ObjectMeta(uid="u"))
    remembered = RememberedDetaches(create_autospec(Client))

    async def story() -> None:
        for _ in range(3):
            remembered.add(record, validity_s=60.0)
            await asyncio.sleep(40)

    run(story())
    assert remembered.since(record) == [40.0, 80.0]
