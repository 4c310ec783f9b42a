"""The questions that the driver asks EC2."""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Mapping
from datetime import UTC, datetime
from typing import Any

import pytest

from mooring.ebs.ec2.api import Ec2Api
from mooring.ebs.ec2.describe import Describe, could_be, poll_pause_s
from mooring.ebs.errors import Ec2Error, MalformedAnswer

Run = Callable[[Coroutine[Any, Any, Any]], Any]
VOLUME = "vol-0123456789abcdef0"


class Answers(Ec2Api):
    """Gives one answer after the other, the last one again and again."""

    def __init__(self, *answers: Mapping[str, Any] | Exception) -> None:
        self.answers = [*answers]
        self.requests: list[Mapping[str, Any]] = []

    async def call(self, action: str, request: Mapping[str, Any]) -> Mapping[str, Any]:
        self.requests.append(request)
        answer = self.answers.pop(0) if len(self.answers) > 1 else self.answers[0]
        if isinstance(answer, Exception):
            raise answer
        return answer


def page(id: str, following: str | None = None, name: str = "", created: int = 0) -> dict[str, Any]:
    """A page with one volume."""
    shown = {
        "VolumeId": id, "State": "available", "Size": 1, "VolumeType": "gp3", "AvailabilityZone": "a",
        "Attachments": [], "Tags": [{"Key": "CSIVolumeName", "Value": name}],
        "CreateTime": datetime.fromtimestamp(created, UTC),
    }  # fmt: skip
    return {"Volumes": [shown], "NextToken": following}


def test_a_list_is_read_from_page_to_page(run: Run) -> None:
    async def story() -> None:
        api = Answers(page("vol-1", "second"), page("vol-2", "third"), page("vol-3", ""))
        assert [*await Describe(api).all_volumes({"a": "b"})] == ["vol-1", "vol-2", "vol-3"]
        asked = {"Filters": [{"Name": "tag:a", "Values": ["b"]}], "MaxResults": 500}
        assert api.requests == [asked, asked | {"NextToken": "second"}, asked | {"NextToken": "third"}]

    run(story())


def test_a_page_that_leads_to_itself_is_none_of_ec2s(run: Run) -> None:
    async def story() -> None:
        again: list[dict[str, Any] | Exception] = [page("vol-1", "again")] * 9
        with pytest.raises(MalformedAnswer, match="NextToken leads from a page to the same one"):
            await Describe(Answers(*again, Ec2Error("Enough", ""))).all_volumes({})

    run(story())


@pytest.mark.parametrize("batching", [True, False])
def test_of_volumes_of_one_name_the_oldest_is_first(run: Run, batching: bool) -> None:
    async def story() -> None:
        pages = (page("vol-1", "1", "n*", 3), page("vol-2", "2", "n*", 1), page("vol-3", None, "n*", 2))
        api = Answers(*pages)
        found = await Describe(api, batching).volumes_named("n*")
        assert [each.id for each in found] == ["vol-2", "vol-3", "vol-1"]
        assert api.requests[0]["Filters"] == [{"Name": "tag:CSIVolumeName", "Values": ["n\\*"]}]

    run(story())


@pytest.mark.parametrize("batching", [True, False])
def test_what_ec2_does_not_have_is_none_and_every_other_error_one(run: Run, batching: bool) -> None:
    async def story() -> None:
        api = Answers(page(VOLUME), Ec2Error("InvalidVolume.NotFound", ""), Ec2Error("AuthFailure", ""))
        describe = Describe(api, batching)
        found = await describe.volume(VOLUME)
        assert found is not None
        assert found.id == VOLUME
        assert await describe.volume(VOLUME) is None
        with pytest.raises(Ec2Error, match="AuthFailure"):
            await describe.volume(VOLUME)
        assert await describe.volume("a-disk") is None
        assert api.requests == [{"VolumeIds": [VOLUME]}] * 3

    run(story())


@pytest.mark.parametrize(
    ("told", "cards"),
    [({}, 0), ({"EbsInfo": {}}, 0), ({"EbsInfo": {"MaximumEbsCards": 2}}, 2), (None, 0)],
)
def test_the_cards_of_a_type_are_as_many_as_ec2_tells(
    run: Run, told: dict[str, Any] | None, cards: int
) -> None:
    async def story() -> None:
        types = [] if told is None else [{"InstanceType": "m5.large"} | told]
        assert await Describe(Answers({"InstanceTypes": types})).cards("m5.large") == cards

    run(story())


def status(of: str) -> dict[str, Any]:
    return {
        "VolumeStatus": {"Details": [{"Name": "io-enabled"}, {"Name": "initialization-state", "Status": of}]}
    }


@pytest.mark.parametrize(
    ("told", "is_there"),
    [
        ({"InitializationStatusDetails": {"Progress": 99}}, False),
        ({"InitializationStatusDetails": {"Progress": 100}}, True),
        ({"InitializationStatusDetails": {}}, True),
        (status("initializing"), False),
        (status("completed"), True),
        ({"VolumeStatus": {"Details": [{}]}}, True),
        ({"VolumeStatus": {}}, True),
        ({}, True),
        (None, False),
    ],
)
def test_all_data_of_a_volume_is_there_unless_ec2_says_that_it_still_comes(
    run: Run, told: dict[str, Any] | None, is_there: bool
) -> None:
    """What EC2 does not show yet has no data."""

    async def story() -> None:
        statuses = [] if told is None else [{"VolumeId": VOLUME} | told]
        assert await Describe(Answers({"VolumeStatuses": statuses})).initialized(VOLUME) is is_there

    run(story())


@pytest.mark.parametrize("batching", [True, False])
def test_pauses_between_questions_grow_to_a_quarter_of_a_minute_and_stay_there(batching: bool) -> None:
    pauses = [poll_pause_s(batching, asked) for asked in range(5000)]
    assert pauses == sorted(pauses)
    assert set(pauses[100:]) == {15.0}


def test_in_a_batch_what_is_soon_over_is_asked_about_at_each_occasion_and_alone_never_at_once() -> None:
    assert poll_pause_s(True, 0) == 0
    assert poll_pause_s(False, 0) == 1


def test_an_id_is_one_that_ec2_can_have_given() -> None:
    assert could_be("vol", "vol-0123abcd")
    assert could_be("vol", "vol-0123456789abcdef0")
    for id in ("vol-0123", "vol-0123456789abcdef", "i-0123abcd", "vol-0123abcd\n", "vol-0123ABCD"):
        assert not could_be("vol", id)
