"""For how long a request is remembered, and as what."""

from __future__ import annotations

import asyncio
from typing import Any
from unittest.mock import create_autospec

from mooring.controllers.attacher.remembered_detaches import RememberedDetaches
from mooring.controllers.attacher.request_ages import RequestAges
from mooring.kube.client import Client, Listing
from mooring.kube.objects import ObjectMeta, VolumeAttachment


def test_with_each_request_those_that_cannot_take_effect_any_more_are_forgotten(run: Any):
    """The storage may refuse to answer for days."""
    record = VolumeAttachment(metadata=ObjectMeta(uid="u"))
    remembered = RememberedDetaches(create_autospec(Client))

    async def story() -> None:
        for _ in range(3):
            remembered.add(record, validity_s=60.0)
            await asyncio.sleep(30)

    run(story())
    assert remembered.since(record) == [30.0, 60.0]


async def test_a_deletion_that_was_under_way_at_the_start_is_none_of_this_lease_when_it_is_written_later():
    """Else a request for it might be sent that its successor would not know of."""
    client = create_autospec(Client)
    client.leads = lambda: True
    deleting, other = (
        VolumeAttachment(metadata=ObjectMeta(uid=uid, resource_version="5", deletion_timestamp=when))
        for uid, when in (("u", "2030-01-01T00:00:00Z"), ("v", None))
    )
    client.list.return_value = Listing([deleting, other], "7")
    remembered = RememberedDetaches(client)
    await remembered.begin()
    later = {uid: VolumeAttachment(metadata=ObjectMeta(uid=uid, resource_version="9")) for uid in "uv"}
    assert {uid: remembered.is_fresh(record) for uid, record in later.items()} == {"u": False, "v": True}


def test_a_request_can_take_effect_until_its_validity_is_over_and_not_then(run: Any):
    record = VolumeAttachment(
        metadata=ObjectMeta(uid="u", annotations={"mooring.dev/attach-requested-at": "a"})
    )

    async def story() -> list[list[str]]:
        ages = RequestAges()
        ages.note(record)
        await asyncio.sleep(59)
        before = ages.still_valid(record, ["a"], 60.0)
        await asyncio.sleep(1)
        return [before, ages.still_valid(record, ["a"], 60.0)]

    assert run(story()) == [["a"], []]


def test_what_is_stored_on_the_record_is_not_remembered_beside(run: Any):
    """It would count, and be stored, twice."""
    record = VolumeAttachment(metadata=ObjectMeta(uid="u"))
    remembered = RememberedDetaches(create_autospec(Client))

    async def story() -> None:
        remembered.add(record, validity_s=60.0)

    run(story())
    assert remembered.since(record) == [0.0]
    remembered.stored(record)
    assert remembered.since(record) == []
