"""What production code might as well have been asked: it differs from what it was asked, is such as the rules
are about, and what production code answers is judged."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from inspect import signature
from random import Random
from types import SimpleNamespace
from typing import Any

import pytest
from claims_and_volumes import claim, volume
from opinions import objections

from mooring.csi.proto import csi_pb2 as csi
from mooring.ebs.controller_service.parameters import VolumeParameters
from mooring.ebs.controller_service.volume_requests import Wanted
from mooring.ebs.ec2.records import Attachment
from mooring.ebs.ec2.records import Volume as Disk
from mooring.ebs.errors import Ec2Unreachable
from mooring.kube.objects import ObjectMeta, Pod, StorageClass
from mooring.simulation.checks.second_opinions import QUESTIONS, Question
from mooring.simulation.checks.second_opinions.near import Near
from mooring.simulation.checks.second_opinions.near_arguments import (
    at,
    given,
    keyed,
    listed,
    near_to,
    of,
    of_one,
    said,
)
from mooring.volumes.free_volumes import FreeVolumes

DISK = StorageClass(metadata=ObjectMeta(name="disk"), provisioner="d.example.com")
POD = Pod(metadata=ObjectMeta(name="p", namespace="ns", creation_timestamp="2026-01-01T00:00:00Z"))
EBS = Disk("vol-1", "in-use", 4, "gp3", "a", (Attachment("i-1", "/dev/xvdaa", "attaching"),))
WANTED = Wanted(
    "pvc-u", 4, csi.CapacityRange(), VolumeParameters(), 0, False, csi.TopologyRequirement(), places=()
)
ASKED: dict[str, tuple[tuple[Any, ...], dict[str, Any]]] = {
    "mooring.controllers.binding.controller.decide_claim": (
        (claim(), None, FreeVolumes([volume()]), DISK, None, set[str]()),
        {},
    ),
    "mooring.controllers.binding.controller.decide_volume": ((volume(to="u"), claim()), {}),
    "mooring.controllers.binding.controller.resizer_of": ((claim(), volume()), {}),
    "mooring.controllers.binding.controller.default_class": (([DISK, DISK],), {}),
    "mooring.controllers.binding.controller._bound_status": ((volume(),), {}),
    "mooring.controllers.provisioning.controller.decide_claim": (
        (claim(), DISK, {"d.example.com"}),
        {"made": False},
    ),
    "mooring.controllers.provisioning.controller.decide_volume": (
        (volume(to="u", persistent_volume_reclaim_policy="Delete"), {"d.example.com"}),
        {"deletable": None},
    ),
    "mooring.controllers.provisioning.reclaim.made_by": ((volume(),), {}),
    "mooring.controllers.provisioning.reclaim.is_held": ((volume(),), {}),
    "mooring.controllers.provisioning.reclaim.to_be_reclaimed": ((volume(),), {}),
    "mooring.controllers.provisioning.reclaim.has_no_claim": ((volume(to="u"), claim()), {}),
    "mooring.controllers.provisioning.reclaim.users_of_claim": (("ns/data-p", [POD]), {}),
    "mooring.controllers.provisioning.reclaim.may_have_mounted": (
        ([POD], volume(to="u"), None),
        {"attached": False},
    ),
    "mooring.ebs.controller_service.attaching.next_step": ((EBS, "i-1", "", True, 10.0, True), {}),
    "mooring.ebs.controller_service.provisioning.conflict": ((EBS, WANTED), {}),
    "mooring.ebs.ec2.paced.bucket_name": (("DescribeVolumes", {}), {}),
    "mooring.ebs.ec2.paced.quota": (("DescribeVolumes",), {}),
    "mooring.ebs.ec2.paced._check_repeatable": (("DescribeVolumes", Ec2Unreachable("away"), 1), {}),
}
ROOMS = ("mooring.controllers.binding", "mooring.controllers.provisioning", "mooring.ebs")
QUESTION = {str(each): each for each in QUESTIONS if each.near and str(each).startswith(ROOMS)}


def near(question: Question, times: int = 4000) -> Iterator[tuple[tuple[Any, ...], dict[str, Any]]]:
    args, kwargs = ASKED[str(question)]
    assert question.near is not None
    chance, asked = Random(7), signature(vars(question.owner)[question.name]).bind(*args, **kwargs)
    asked.apply_defaults()
    for _ in range(times):
        if question.near.number(chance) and (found := question.near.drawn(chance, asked)) is not None:
            yield found.args, found.kwargs


def answer_of(question: Question, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    try:
        return vars(question.owner)[question.name](*args, **kwargs)
    except question.refusals as refusal:
        return refusal


def test_each_question_is_asked_here():
    assert {*QUESTION} == {*ASKED}


@pytest.mark.parametrize("name", [*ASKED])
def test_production_answers_as_the_rules_say_near_to_what_it_is_asked(name: str):
    question = QUESTION[name]
    for args, kwargs in near(question):
        assert [*question.opinion(answer_of(question, args, kwargs), *args, **kwargs)] == [], (args, kwargs)


@pytest.mark.parametrize("name", [*ASKED])
def test_what_was_asked_is_not_changed_and_other_things_are_answered(name: str):
    before, question = repr(ASKED[name]), QUESTION[name]
    answers = {repr(answer_of(question, *asked)) for asked in near(question)}
    assert repr(ASKED[name]) == before
    assert len(answers) > 1


def answers(name: str, of_answer: Callable[[Any], Any]) -> set[Any]:
    question = QUESTION[name]
    return {of_answer(answer_of(question, *asked)) for asked in near(question)}


@pytest.mark.parametrize(
    ("where", "actions"),
    [
        ("binding.controller.decide_claim", {"Bind", "Provision", "AssignClass", "Wait", "Lost"}),
        ("binding.controller.decide_volume", {"Phase", "Claim", "Mismatch", "Unbind"}),
        ("provisioning.controller.decide_claim", {"Settled", "Provision", "Finish", "Ask"}),
        ("provisioning.controller.decide_volume", {"Keep", "Delete", "Recycle", "Fail", "Release"}),
    ],
)
def test_every_decision_is_near(where: str, actions: set[str]):
    assert answers(f"mooring.controllers.{where}", lambda decision: decision.action.value) == actions


@pytest.mark.parametrize(
    ("change", "before", "after"),
    [
        (said("spec.volume_mode", "Block"), claim(), claim(volume_mode="Block")),
        (said("spec.selector.match_labels", {}), claim(), claim()),
        (said("spec.resources.requests.storage", "2Gi"), claim(), claim(size="2Gi")),
        (keyed("metadata.annotations", "k", "v"), claim(), claim(annotations={"k": "v"})),
        (keyed("metadata.annotations", "k", "v"), claim(annotations={"k": "w"}), claim()),
        (listed("spec.access_modes", "ReadWriteOnce"), claim(access_modes=()), claim()),
        (listed("spec.access_modes", "ReadWriteOnce"), claim(), claim(access_modes=())),
        (at("name", lambda chance, text: f"{text}!"), DISK.metadata, ObjectMeta(name="disk!")),
        (said("size", 9), EBS, Disk("vol-1", "in-use", 9, "gp3", "a", EBS.attachments)),
    ],
)
def test_a_change_is_of_what_is_there(change: Callable[[Random, Any], Any], before: Any, after: Any):
    assert change(Random(1), before) == after


def sum_of(numbers: list[int], extra: int | None = None, *, sign: int) -> int:
    return sign * (sum(numbers) + (extra or 0))


def asked_near(drawn: Near, times: int, *args: Any, **kwargs: Any) -> list[str]:
    chance, asked = Random(1), signature(sum_of).bind(*args, **kwargs)
    asked.apply_defaults()
    found = [drawn.drawn(chance, asked) for _ in range(times) if drawn.number(chance)]
    return [f"{each.args} {each.kwargs['sign']}" for each in found if each is not None]


def test_arguments_are_changed_by_their_names():
    facts = (
        *(given("extra", 7), given("sign", -1)),
        *of("extra", lambda chance, number: number + 1),
        *of_one("numbers", lambda chance, number: 10 * number),
    )
    drawn = near_to(facts, 1.0)
    found = {str(asked) for asked in asked_near(drawn, 300, [1, 2], sign=1)}
    assert {"([10, 2], None) -1", "([1, 20], None) 1", "([1, 2], 7) 1", "([1, 2], None) -1"} <= found
    assert {"([1], 7) 1", "([1], 4) 1"} <= {str(asked) for asked in asked_near(drawn, 300, [1], 3, sign=1)}


def test_there_are_as_many_as_the_share_and_none_that_cannot_be():
    half, none = near_to((given("sign", -1),), 0.5), near_to((given("sign", -1),), 1.0, lambda asked: None)
    assert 400 < len(asked_near(half, 1000, [1], sign=1)) < 600
    assert asked_near(none, 10, [1], sign=1) == []


def test_what_is_refused_is_judged_too_and_so_is_what_is_near_to_it():
    def root(number: int, *, twice: bool) -> float:
        if number < 0:
            raise ValueError(number)
        return number**0.5

    def judged(answer: Any, number: int, *, twice: bool) -> Iterator[str]:
        yield f"{answer!r} of {number}, {twice}"

    asker = SimpleNamespace(__name__="asker", root=root)
    facts = (given("number", -4, 4), given("twice", True))
    question = Question(asker, "root", judged, refusals=(ValueError,), near=near_to(facts, 1.0))
    with objections((question,)) as found:
        for _ in range(50):
            with pytest.raises(ValueError):
                asker.root(-1, twice=False)
    assert {"asker.root: 2.0 of 4, False", "asker.root: ValueError(-4) of -4, True"} <= {*found}
