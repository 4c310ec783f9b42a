"""Second opinions about waiting for a volume, and about how errors are told."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from opinions import objections

from mooring.csi.errors import Code, CsiError
from mooring.ebs.controller_service import creating, error_codes, provisioning, volume_types
from mooring.ebs.controller_service.parameters import VolumeParameters
from mooring.ebs.controller_service.tags import TagPolicy
from mooring.ebs.ec2 import buckets
from mooring.ebs.ec2.records import Volume
from mooring.ebs.errors import EbsError, Ec2Error, Ec2Unreachable, MalformedAnswer
from mooring.ebs.options import Options
from mooring.simulation.checks.second_opinions import ebs_waiting
from mooring.simulation.checks.second_opinions.ebs_waiting import (
    of_a_code,
    of_a_token,
    of_a_wait,
    of_options,
    of_tags,
)

WANTED: Any = SimpleNamespace(name="pvc-1", parameters=VolumeParameters())
STATES = ("", "creating", "deleting", "error")


def shown(state: str) -> Volume | None:
    return Volume("vol-1", state, 1, "gp3", "us-east-1a") if state else None


def waiting(was_seen: bool = False, missing_since: float | None = None) -> Any:
    return creating._Waiting(WANTED, 5.0, 100.0, was_seen, missing_since)


looks = st.lists(st.tuples(st.sampled_from(STATES), st.sampled_from([0.0, 2.0, 5.0, 30.0])), max_size=6)


@given(st.booleans(), looks)
def test_waiting_is_not_objected_to(was_seen: bool, looks: list[tuple[str, float]]) -> None:
    one, at = waiting(was_seen), 100.0
    with objections(ebs_waiting.QUESTIONS) as found:
        for state, pause in looks:
            at += pause
            try:
                one.check("vol-1", shown(state), at, at + 1)
            except CsiError:
                break
    assert found == []


VANISHED, FAILED, LONG = (
    CsiError(code, "") for code in (Code.FAILED_PRECONDITION, Code.INTERNAL, Code.UNAVAILABLE)
)


@pytest.mark.parametrize(
    ("answer", "state", "before", "after", "requested_at", "right"),
    [
        (None, "creating", (False, None), (True, None), 101.0, True),
        (None, "creating", (False, None), (False, None), 101.0, False),
        (None, "creating", (True, 99.0), (True, 99.0), 101.0, False),
        (None, "", (True, None), (True, 101.0), 101.0, True),
        (None, "", (True, None), (True, None), 101.0, False),
        (None, "", (True, 101.0), (True, 105.0), 105.0, False),
        (None, "", (True, 101.0), (True, 101.0), 106.0, False),
        (VANISHED, "", (True, 101.0), (True, 101.0), 106.0, True),
        (VANISHED, "", (True, 104.0), (True, 104.0), 106.0, False),
        (VANISHED, "", (False, 101.0), (False, 101.0), 150.0, False),
        (VANISHED, "deleting", (False, None), (False, None), 101.0, True),
        (None, "deleting", (False, None), (False, None), 101.0, False),
        (FAILED, "error", (True, None), (True, None), 101.0, True),
        (VANISHED, "error", (True, None), (True, None), 101.0, False),
        (LONG, "creating", (True, None), (True, None), 160.5, True),
        (LONG, "creating", (True, None), (True, None), 160.0, False),
        (None, "creating", (True, None), (True, None), 160.5, False),
    ],
)
def test_a_wait_that_ends_too_soon_or_goes_on_too_long_is_objected_to(
    answer: Any, state: str, before: Any, after: Any, requested_at: float, right: bool
) -> None:
    said = [*of_a_wait(answer, before, waiting(*after), "vol-1", shown(state), requested_at, requested_at)]
    assert (not said) is right


ERRORS: list[EbsError] = [
    Ec2Unreachable(""),
    MalformedAnswer(""),
    *(Ec2Error(code, "") for code in (*sorted(error_codes.CODES), "SomethingNew")),
]


@pytest.mark.parametrize("error", ERRORS, ids=lambda error: getattr(error, "code", type(error).__name__))
def test_codes_are_not_objected_to(error: EbsError) -> None:
    with objections(ebs_waiting.QUESTIONS) as found:
        error_codes.code_of(error)
    assert found == []


@pytest.mark.parametrize(
    ("answer", "error"),
    [
        (Code.FAILED_PRECONDITION, Ec2Unreachable("")),
        (Code.INTERNAL, Ec2Unreachable("")),
        (Code.UNAVAILABLE, MalformedAnswer("")),
        (Code.NOT_FOUND, Ec2Error("VolumeInUse", "")),
        (Code.FAILED_PRECONDITION, Ec2Error("InvalidVolume.NotFound", "")),
        (Code.INVALID_ARGUMENT, Ec2Error("InternalError", "")),
        (Code.INTERNAL, Ec2Error("IncorrectState", "")),
        (Code.FAILED_PRECONDITION, Ec2Error("SomethingNew", "")),
    ],
)
def test_a_code_that_says_more_or_less_than_is_known_is_objected_to(answer: Code, error: EbsError) -> None:
    assert [*of_a_code(answer, error)]


@given(st.text(max_size=20), st.integers(1, 5))
def test_tokens_are_not_objected_to_and_others_are(name: str, number: int) -> None:
    with objections(ebs_waiting.QUESTIONS) as found:
        token = provisioning.client_token(name, number)
    assert found == []
    assert [*of_a_token(token, name, number + 1)]
    assert [*of_a_token(token, f"{name}.", number)]


def test_volumes_of_another_cluster_that_are_listed_are_objected_to() -> None:
    policy = TagPolicy(cluster_id="played")
    assert not [*of_tags(policy.listed(), policy), *of_tags(TagPolicy().listed(), TagPolicy())]
    assert [*of_tags(TagPolicy().listed(), policy)]
    assert [*of_tags(policy.listed(), TagPolicy())]


def test_a_flag_with_another_default_is_objected_to() -> None:
    assert not [*of_options(None, Options(), None)]
    assert [*of_options(None, Options(settle_time=4.0), None)] == [
        "--settle-time is 4.0 where it is not given"
    ]


@pytest.mark.parametrize(
    ("where", "name", "key", "value"),
    [
        (volume_types, "TYPES", "io1", volume_types.VolumeType(4, 16384, 100, 64000, 51)),
        (volume_types, "TYPES", "io1", volume_types.VolumeType(4, 16384, 100, 64000, 50, multi_attach=True)),
        (buckets, "QUOTAS", "CreateTags", buckets.Quota(100, 11)),
    ],
)
def test_another_number_of_ec2s_is_objected_to(
    monkeypatch: Any, where: Any, name: str, key: str, value: Any
) -> None:
    monkeypatch.setitem(getattr(where, name), key, value)
    assert [*of_options(None, Options(), None)]
