"""Modifications before an EC2 that shows and answers what a story says; and what a volume is to become."""

from __future__ import annotations

import asyncio
import gc
import weakref
from collections.abc import Awaitable, Callable, Coroutine
from typing import Any

import pytest
from played_ec2 import Answer, PlayedEc2

from mooring.csi.driver.capacity import GIB
from mooring.csi.errors import Code, CsiError
from mooring.csi.proto import csi_pb2 as csi
from mooring.ebs.controller_service.modifying import (
    Modifier,
    Target,
    differences,
    grown_size,
    makes,
    target_of,
)
from mooring.ebs.controller_service.parameters import change
from mooring.ebs.controller_service.tags import AUTO_IOPS_TAG, IOPS_PER_GB_TAG, TagPolicy
from mooring.ebs.ec2.records import Modification, Volume
from mooring.ebs.ec2.settling import Settling
from mooring.ebs.errors import EbsError, Ec2Error, Ec2Unreachable

ID = "vol-0123456789abcdef0"
Run = Callable[[Coroutine[Any, Any, Any]], Any]
WINDOW_S = 0.5


def volume(size: int = 10, **more: Any) -> Volume:
    return Volume(ID, "in-use", size, **{"type": "gp3", "zone": "us-east-1a", "iops": 3000} | more)


def modification(state: str, **more: Any) -> Modification:
    return Modification(ID, state, **{"size": 20, "iops": 3000, "throughput": 125, "type": "gp3"} | more)


def modifier(ec2: PlayedEc2) -> Modifier:
    played: Any = ec2
    return Modifier(played, played, Settling(), WINDOW_S)


async def refusal(call: Awaitable[object]) -> CsiError:
    with pytest.raises(CsiError) as caught:
        await call
    return caught.value


@pytest.mark.parametrize(
    ("one", "other", "words"),
    [
        ({"size": 20}, {"size": 30}, "size 20 and 30"),
        ({"type": "io2"}, {"type": "gp3"}, "type io2 and gp3"),
        ({"iops": 4000}, {"iops": 5000}, "iops 4000 and 5000"),
        ({"iops_per_gb": 4}, {"iops_per_gb": 5}, "iops_per_gb 4 and 5"),
        ({"throughput": 200}, {"throughput": 300}, "throughput 200 and 300"),
        ({"tags": {"a": "b"}}, {"tags": {"a": "c"}}, "two values of tag a"),
        (
            {"tags": {"b": "", "a": ""}},
            {"deleted_tags": frozenset("ab")},
            "tag a is to be written and to be del",
        ),
        (
            {"deleted_tags": frozenset("ab")},
            {"tags": {"b": "", "a": ""}},
            "tag a is to be written and to be del",
        ),
    ],
)
def test_targets_that_contradict_each_other_are_not_one(
    one: dict[str, Any], other: dict[str, Any], words: str
) -> None:
    with pytest.raises(CsiError) as caught:
        Target(**one).merged(Target(**other))
    assert caught.value.code is Code.ABORTED
    assert words in caught.value.message


def test_targets_that_agree_are_one() -> None:
    target = Target(20, "io2", 4000, 5, 200, {"a": "b"}, frozenset("c"))
    assert target.merged(target) == target


@pytest.mark.parametrize(
    ("required", "limit", "size"),
    [
        (0, 0, 10),
        (9 * GIB, 0, 10),
        (10 * GIB + 1, 0, 11),
        (20 * GIB, 20 * GIB, 20),
        (65536 * GIB, 0, 65536),
        (0, 10 * GIB, 10),
    ],
)
def test_a_volume_grows_to_whole_gib_and_never_shrinks(required: int, limit: int, size: int) -> None:
    assert grown_size(volume(), csi.CapacityRange(required_bytes=required, limit_bytes=limit)) == size


@pytest.mark.parametrize(
    ("required", "limit", "words"),
    [
        (20 * GIB, 20 * GIB - 1, f"{ID} has 20 GiB at least, and the limit is {20 * GIB - 1} bytes"),
        (0, 10 * GIB - 1, f"{ID} has 10 GiB at least"),
        (65536 * GIB + 1, 0, "65537 GiB: a gp3 volume has at most 65536 GiB"),
    ],
)
def test_a_size_that_cannot_be_is_out_of_range(required: int, limit: int, words: str) -> None:
    with pytest.raises(CsiError) as caught:
        grown_size(volume(), csi.CapacityRange(required_bytes=required, limit_bytes=limit))
    assert caught.value.code is Code.OUT_OF_RANGE
    assert words in caught.value.message


@pytest.mark.parametrize(
    ("parameters", "target"),
    [
        ({}, Target()),
        (
            {"type": "io2", "iops": "4000", "throughput": "200"},
            Target(type="io2", iops=4000, throughput=200),
        ),
        (
            {"tagSpecification_1": "a=b", "tagDeletion_1": "c"},
            Target(tags={"a": "b"}, deleted_tags=frozenset("c")),
        ),
        ({"iopspergb": "50"}, Target(iops_per_gb=50, tags={IOPS_PER_GB_TAG: "50"})),
        ({"allowautoiopsincreaseonmodify": "true"}, Target(tags={AUTO_IOPS_TAG: "true"})),
        ({"allowautoiopsincreaseonmodify": "false"}, Target(tags={AUTO_IOPS_TAG: "false"})),
    ],
)
def test_what_a_class_says_of_later_growth_is_noted_on_the_volume(
    parameters: dict[str, str], target: Target
) -> None:
    assert target_of(change(parameters), TagPolicy()) == target


IN_PROPORTION = {IOPS_PER_GB_TAG: "500", AUTO_IOPS_TAG: "true"}


@pytest.mark.parametrize(
    ("there", "target", "changes"),
    [
        (volume(), Target(), {}),
        (volume(), Target(size=10, type="gp3", iops=3000, throughput=0), {}),
        (volume(), Target(size=9), {}),
        (
            volume(),
            Target(20, "io2", 4000, 0, 200),
            {"Size": 20, "VolumeType": "io2", "Iops": 4000, "Throughput": 200},
        ),
        (volume(), Target(iops_per_gb=400), {"Iops": 4000}),
        (volume(), Target(iops=3500, iops_per_gb=400), {"Iops": 3500}),
        (volume(type="io2", iops=200), Target(iops_per_gb=5), {"Iops": 100}),
        (volume(tags=IN_PROPORTION), Target(size=20), {"Size": 20, "Iops": 10000}),
        (volume(tags=IN_PROPORTION), Target(size=10), {}),
        (volume(tags=IN_PROPORTION), Target(size=20, iops_per_gb=400), {"Size": 20, "Iops": 8000}),
        (volume(tags=IN_PROPORTION | {AUTO_IOPS_TAG: "false"}), Target(size=20), {"Size": 20}),
        (volume(tags=IN_PROPORTION | {IOPS_PER_GB_TAG: "many"}), Target(size=20), {"Size": 20}),
        (volume(tags={AUTO_IOPS_TAG: "true"}), Target(size=20), {"Size": 20}),
    ],
)
def test_only_what_differs_is_changed_and_iops_stay_in_proportion_where_that_is_noted(
    there: Volume, target: Target, changes: dict[str, Any]
) -> None:
    assert differences(there, target) == changes


@pytest.mark.parametrize("name", ["Size", "VolumeType", "Iops", "Throughput"])
def test_a_modification_makes_changes_if_it_leads_to_each_of_them(name: str) -> None:
    changes: dict[str, Any] = {"Size": 20, "VolumeType": "gp3", "Iops": 3000, "Throughput": 125}
    made = modification("modifying")
    assert makes(made, {name: changes[name]})
    assert makes(made, changes)
    assert not makes(made, changes | {name: changes[name] * 2})


def test_a_volume_has_changed_when_ec2_shows_the_modification_as_past_its_first_phase(run: Run) -> None:
    async def story() -> None:
        ec2 = PlayedEc2(lambda at: volume(throughput=125))
        ec2.modifications = lambda at: (
            None if at < 10 else modification("modifying") if at < 100 else modification("optimizing")
        )
        changed = await modifier(ec2).change(ID, Target(size=20, tags={"a": "b"}))
        assert changed == volume(20, throughput=125)
        assert [(action, request) for _, action, request in ec2.calls] == [
            ("ModifyVolume", {"VolumeId": ID, "Size": 20}),
            ("CreateTags", {"Resources": [ID], "Tags": [{"Key": "a", "Value": "b"}]}),
        ]
        assert ec2.calls[0][0] == WINDOW_S
        assert 100 <= ec2.calls[1][0] <= 115

    run(story())


@pytest.mark.parametrize(
    ("shown", "words", "after_s"),
    [
        (None, "not shown", 60),
        (modification("completed", size=15), "not shown", 60),
        (modification("modifying"), "modifying", 900),
    ],
    ids=["none", "another", "modifying"],
)
def test_a_modification_that_takes_too_long_is_told_with_its_state(
    run: Run, shown: Modification | None, words: str, after_s: float
) -> None:
    async def story() -> None:
        ec2 = PlayedEc2(lambda at: volume())
        ec2.modifications = lambda at: shown if ec2.calls else None
        await asyncio.sleep(2000)
        error = await refusal(modifier(ec2).change(ID, Target(size=20)))
        waited = asyncio.get_running_loop().time() - WINDOW_S - 2000
        assert after_s < waited < after_s + 16
        assert error.code is Code.UNAVAILABLE
        assert error.message == f"the modification of volume {ID} is {words} after {waited:.0f} s"

    run(story())


@pytest.mark.parametrize(("message", "words"), [("no capacity", "no capacity"), ("", "no reason given")])
def test_a_modification_that_fails_says_why(run: Run, message: str, words: str) -> None:
    async def story() -> None:
        ec2 = PlayedEc2(lambda at: volume())
        ec2.modifications = lambda at: modification("failed", message=message) if ec2.calls else None
        error = await refusal(modifier(ec2).change(ID, Target(size=20, tags={"a": "b"})))
        assert (error.code, error.message) == (
            Code.INTERNAL, f"EC2 could not modify volume {ID}: {words}"
        )  # fmt: skip
        assert [action for _, action, _ in ec2.calls] == ["ModifyVolume"]

    run(story())


def test_a_former_modification_that_failed_keeps_no_other_one_waiting(run: Run) -> None:
    async def story() -> None:
        ec2 = PlayedEc2(lambda at: volume())
        ec2.modifications = lambda at: (
            modification("completed") if ec2.calls else modification("failed", message="of before")
        )
        assert (await modifier(ec2).change(ID, Target(size=20))).size == 20

    run(story())


def test_a_modification_that_ec2_did_not_show_yet_is_waited_for_and_may_be_the_very_one(run: Run) -> None:
    async def story() -> None:
        refused = Ec2Error("IncorrectModificationState", "volume is currently modifying")
        ec2 = PlayedEc2(lambda at: volume(), ModifyVolume=[refused])
        ec2.modifications = lambda at: modification("optimizing") if at > 5 else None
        assert (await modifier(ec2).change(ID, Target(size=20))).size == 20
        assert len(ec2.calls) == 1
        assert ec2.at[-1] >= 5 + WINDOW_S

    run(story())


def test_a_volume_that_is_modified_again_and_again_is_refused_with_ec2s_words(run: Run) -> None:
    async def story() -> None:
        refused = Ec2Error("IncorrectModificationState", "volume is currently modifying")
        ec2 = PlayedEc2(lambda at: volume(), ModifyVolume=[refused])
        with pytest.raises(Ec2Error, match="currently modifying"):
            await modifier(ec2).change(ID, Target(size=20))
        assert len(ec2.calls) == 2

    run(story())


def test_a_size_that_the_volume_had_once_is_asked_for_again(run: Run) -> None:
    async def story() -> None:
        ec2 = PlayedEc2(lambda at: volume())
        ec2.modifications = lambda at: modification("completed", size=20)
        await modifier(ec2).change(ID, Target(size=20))
        assert [action for _, action, _ in ec2.calls] == ["ModifyVolume"]

    run(story())


@pytest.mark.parametrize("action", ["CreateTags", "DeleteTags"])
def test_tags_that_cannot_be_written_or_deleted_are_an_error(run: Run, action: str) -> None:
    async def story() -> None:
        refused: list[Answer] = [Ec2Error("TagPolicyViolation", "not these tags")]
        ec2 = PlayedEc2(lambda at: volume(tags={"gone": ""}), **{action: refused})
        with pytest.raises(Ec2Error, match="not these tags"):
            await modifier(ec2).change(ID, Target(tags={"a": "b"}, deleted_tags=frozenset({"gone"})))

    run(story())


def test_a_failure_that_no_caller_waits_for_is_not_reported_as_forgotten(run: Run) -> None:
    async def story() -> None:
        reported: list[dict[str, Any]] = []
        asyncio.get_running_loop().set_exception_handler(lambda _, context: reported.append(context))
        ec2 = PlayedEc2(lambda at: volume(), ModifyVolume=[Ec2Error("VolumeModificationRateExceeded", "no")])
        waiting = asyncio.ensure_future(modifier(ec2).change(ID, Target(size=20)))
        await asyncio.sleep(WINDOW_S / 2)
        waiting.cancel()
        await asyncio.sleep(WINDOW_S)
        gc.collect()
        assert len(ec2.calls) == 1
        assert reported == []

    run(story())


def test_what_another_modification_has_done_meanwhile_is_not_asked_for_again(run: Run) -> None:
    async def story() -> None:
        refused = Ec2Error("IncorrectModificationState", "volume is currently modifying")
        ec2 = PlayedEc2(lambda at: volume(20) if ec2.calls else volume(), ModifyVolume=[refused, None])
        ec2.modifications = lambda at: modification("completed", iops=4000) if len(ec2.calls) == 2 else None
        changed = await modifier(ec2).change(ID, Target(size=20, iops=4000))
        assert (changed.size, changed.iops) == (20, 4000)
        assert [request for _, _, request in ec2.calls] == [
            {"VolumeId": ID, "Size": 20, "Iops": 4000},
            {"VolumeId": ID, "Iops": 4000},
        ]

    run(story())


def test_other_refusals_end_a_modification_at_once(run: Run) -> None:
    async def story() -> None:
        refused = Ec2Error("VolumeModificationRateExceeded", "6 hours")
        ec2 = PlayedEc2(lambda at: volume(), ModifyVolume=[refused])
        with pytest.raises(Ec2Error, match="6 hours"):
            await modifier(ec2).change(ID, Target(size=20, tags={"a": "b"}))
        assert len(ec2.calls) == 1

    run(story())


def test_a_modification_without_an_answer_has_been_made_if_ec2_shows_it(run: Run) -> None:
    async def story() -> None:
        ec2 = PlayedEc2(lambda at: volume(), ModifyVolume=[Ec2Unreachable("no answer")])
        ec2.modifications = lambda at: modification("completed") if at > 20 else None
        assert (await modifier(ec2).change(ID, Target(size=20))).size == 20
        assert len(ec2.calls) == 1

    run(story())


def test_a_volume_that_ec2_still_optimizes_is_refused_unless_that_is_the_very_change(run: Run) -> None:
    async def story() -> None:
        ec2 = PlayedEc2(lambda at: volume())
        ec2.modifications = lambda at: modification("optimizing")
        error = await refusal(modifier(ec2).change(ID, Target(size=30)))
        assert error.code is Code.FAILED_PRECONDITION
        assert error.message.startswith(f"volume {ID} cannot be modified: EC2 is still optimizing it")
        assert (await modifier(ec2).change(ID, Target(size=20))).size == 20
        assert ec2.calls == []

    run(story())


def test_a_modification_of_before_is_waited_for_before_the_next_one(run: Run) -> None:
    async def story() -> None:
        ec2 = PlayedEc2(lambda at: volume(15) if at > 50 else volume())
        ec2.modifications = lambda at: (
            modification("completed")
            if ec2.calls
            else modification("completed" if at > 50 else "modifying", size=15)
        )
        assert (await modifier(ec2).change(ID, Target(size=20))).size == 20
        assert [request for at, _, request in ec2.calls if at > 50] == [{"VolumeId": ID, "Size": 20}]

    run(story())


def test_a_volume_that_has_its_size_has_grown_only_when_nothing_modifies_it_any_more(run: Run) -> None:
    async def story() -> None:
        ec2 = PlayedEc2(lambda at: volume(20))
        ec2.modifications = lambda at: modification("completed" if at > 50 else "modifying")
        assert await modifier(ec2).change(ID, Target(size=20)) == volume(20)
        assert asyncio.get_running_loop().time() > 50
        assert ec2.at.count(ec2.at[-1]) == 2  # the modification, and the volume once
        assert ec2.calls == []

    run(story())


def test_for_tags_alone_no_modification_is_waited_for(run: Run) -> None:
    async def story() -> None:
        there = volume(tags={"same": "1", "other": "1", "gone": "1", "late": "1"})
        ec2 = PlayedEc2(lambda at: there)
        ec2.modifications = lambda at: modification("modifying")
        target = Target(tags={"same": "1", "other": "2"}, deleted_tags=frozenset({"late", "gone", "never"}))
        await modifier(ec2).change(ID, target)
        assert [(action, request["Tags"]) for _, action, request in ec2.calls] == [
            ("CreateTags", [{"Key": "other", "Value": "2"}]),
            ("DeleteTags", [{"Key": "gone"}, {"Key": "late"}]),
        ]
        assert {request["Resources"][0] for _, _, request in ec2.calls} == {ID}

    run(story())


def test_what_comes_after_the_window_is_a_modification_of_its_own(run: Run) -> None:
    async def story() -> None:
        ec2 = PlayedEc2(lambda at: volume())
        ec2.modifications = lambda at: (
            modification("completed", size=ec2.calls[-1][2].get("Size", 20)) if ec2.calls else None
        )
        at_work = modifier(ec2)
        first = asyncio.ensure_future(at_work.change(ID, Target(size=20)))
        await asyncio.sleep(WINDOW_S + 0.1)
        await asyncio.gather(first, at_work.change(ID, Target(size=30)))
        assert [request["Size"] for _, _, request in ec2.calls] == [20, 30]

    run(story())


def test_a_modification_whose_caller_is_gone_goes_on(run: Run) -> None:
    async def story() -> None:
        ec2 = PlayedEc2(lambda at: volume())
        ec2.modifications = lambda at: modification("completed") if ec2.calls else None
        waiting = asyncio.ensure_future(modifier(ec2).change(ID, Target(size=20)))
        await asyncio.sleep(WINDOW_S / 2)
        waiting.cancel()
        await asyncio.sleep(WINDOW_S)
        assert [action for _, action, _ in ec2.calls] == ["ModifyVolume"]

    run(story())


def test_a_modification_that_nothing_else_refers_to_any_more_goes_on(run: Run) -> None:
    """The event loop alone keeps no task alive (asyncio's documentation, create_task)."""

    class Wire(PlayedEc2):
        """Waits for what another part of the process is to resolve, which does not hold it either."""

        waits_for: Callable[[], asyncio.Future[None] | None] = staticmethod(lambda: None)
        has_waited = False

        async def volume(self, id: str) -> Volume | None:
            if not self.has_waited:
                waiting = asyncio.get_running_loop().create_future()
                self.waits_for = weakref.ref(waiting)
                self.has_waited = True
                await waiting
            return await super().volume(id)

    async def story() -> None:
        ec2 = Wire(lambda at: volume())
        ec2.modifications = lambda at: modification("completed") if ec2.calls else None
        at_work = modifier(ec2)
        waiting = asyncio.ensure_future(at_work.change(ID, Target(size=20)))
        await asyncio.sleep(WINDOW_S / 2)
        waiting.cancel()
        del waiting
        await asyncio.sleep(WINDOW_S)
        gc.collect()
        answer = ec2.waits_for()
        assert answer is not None
        answer.set_result(None)
        await asyncio.sleep(WINDOW_S)
        assert [action for _, action, _ in ec2.calls] == ["ModifyVolume"]

    run(story())


def test_a_modification_that_has_ended_is_forgotten(run: Run) -> None:
    async def story() -> None:
        ec2 = PlayedEc2(lambda at: volume())
        ec2.modifications = lambda at: modification("completed") if ec2.calls else None
        at_work = modifier(ec2)
        changed = weakref.ref(await at_work.change(ID, Target(size=20)))
        await asyncio.sleep(1)
        gc.collect()
        assert changed() is None

    run(story())


def test_an_expansion_asks_for_whole_gib(run: Run) -> None:
    async def story() -> None:
        ec2 = PlayedEc2(lambda at: volume())
        ec2.modifications = lambda at: modification("completed") if ec2.calls else None
        grown = await modifier(ec2).expand(ID, csi.CapacityRange(required_bytes=20 * GIB - 1))
        assert grown.size == ec2.calls[0][2]["Size"] == 20

    run(story())


def test_a_failure_reaches_every_caller_and_none_of_it_is_left(run: Run) -> None:
    async def story() -> None:
        ec2 = PlayedEc2(
            lambda at: volume(), ModifyVolume=[Ec2Error("VolumeModificationRateExceeded", "no"), None]
        )
        ec2.modifications = lambda at: modification("completed") if len(ec2.calls) > 1 else None
        at_work = modifier(ec2)
        both = [at_work.change(ID, Target(size=20)), at_work.change(ID, Target(size=20))]
        errors = await asyncio.gather(*both, return_exceptions=True)
        assert [isinstance(error, EbsError) for error in errors] == [True, True]
        assert (await at_work.change(ID, Target(size=20))).size == 20

    run(story())
