"""What is known after a call that failed."""

from __future__ import annotations

import pytest

from mooring.csi.errors import Code, CsiError, NotConnected, Outcome


@pytest.mark.parametrize(
    "code",
    [
        Code.INVALID_ARGUMENT,
        Code.NOT_FOUND,
        Code.ALREADY_EXISTS,
        Code.FAILED_PRECONDITION,
        Code.UNIMPLEMENTED,
    ],
)
def test_codes_by_which_a_driver_says_no_are_final(code: Code) -> None:
    assert CsiError(code, "", "NodeStageVolume").outcome is Outcome.FINAL


@pytest.mark.parametrize(
    "code",
    [
        Code.CANCELLED,
        Code.UNKNOWN,
        Code.DEADLINE_EXCEEDED,
        Code.ABORTED,
        Code.UNAVAILABLE,
        Code.INTERNAL,
        Code.DATA_LOSS,
        Code.RESOURCE_EXHAUSTED,
    ],
)
def test_after_all_others_it_may_have_happened(code: Code) -> None:
    assert CsiError(code, "", "NodeStageVolume").outcome is Outcome.UNKNOWN


@pytest.mark.parametrize("method", ["CreateVolume", "ControllerPublishVolume"])
def test_no_room_is_final_where_the_specification_gives_it_a_meaning(method: str) -> None:
    assert CsiError(Code.RESOURCE_EXHAUSTED, "", method).outcome is Outcome.FINAL


def test_what_was_never_sent_did_not_happen() -> None:
    assert NotConnected("unix:///x", "refused").outcome is Outcome.FINAL


def test_codes_are_written_as_go_writes_them() -> None:
    spelled = [str(code) for code in (Code.OK, Code.CANCELLED, Code.DEADLINE_EXCEEDED, Code.NOT_FOUND)]
    assert spelled == ["OK", "Canceled", "DeadlineExceeded", "NotFound"]
