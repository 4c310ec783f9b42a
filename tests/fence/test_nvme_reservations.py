"""Reservations of NVMe namespaces: what nvme-cli prints, and what a fence makes of it, with a played
namespace."""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any
from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st
from played_namespace import FENCE, A, B, PlayedNamespace
from tests.fence.contract import offspring

from mooring.fence.interface import Answer, Order, Outcome, State, Target
from mooring.fence.programs import Ended, ProgramMissing
from mooring.fence.storage import nvme_report, reservations
from mooring.fence.storage.nvme_pr import NvmePr
from mooring.fence.storage.reservations import Reservation, Unreadable

OWN = reservations.own_key("n", "t")
REPORT = PlayedNamespace({A: 0xA1, B: 0xB2}, A).report()


class Fencer:
    """The fence's machine, which reaches the namespace. `loses`: of orders whose word is this one the answer
    is lost, once; `refuses`: they are not carried out; `forgets`: they are answered, and not carried out."""

    def __init__(
        self,
        namespace: PlayedNamespace,
        host: str = FENCE,
        *,
        loses: str = "",
        refuses: str = "",
        forgets: str = "",
    ) -> None:
        self.namespace, self.host = namespace, host
        self.loses, self.refuses, self.forgets = loses, refuses, forgets

    async def __call__(
        self,
        words: Sequence[str],
        *,
        deadline: float,
        given: bytes = b"",
        environ: Mapping[str, str] = {},
        keep: int = 0,
    ) -> Ended:
        order = f"{words[1]} {words[3].partition('=')[2]}"
        if order == self.refuses:
            return Ended(1, "", "refused")
        if order == self.forgets:
            return Ended(0)
        answer = Ended(*self.namespace.asked(self.host, tuple(words)))
        if order == self.loses:
            self.loses = ""
            return Ended(None)
        return answer


@pytest.fixture(autouse=True)
def _installed(monkeypatch: pytest.MonkeyPatch) -> None:  # pyright: ignore[reportUnusedFunction]
    monkeypatch.setattr(NvmePr, "needs", {"sh": "dash"})


def played(holder: str | None = A, **given: Any) -> PlayedNamespace:
    """Two machines have registered."""
    return PlayedNamespace({A: 0xA1, B: 0xB2}, holder, **given)


def order(**given: str) -> Order:
    parameters = {
        "devices": "/dev/nvme0n1",
        "keys": "0xa1",
        "hosts": str(UUID(A)),
        "registers": "never",
        "aborts": "complete",
    }
    return Order(Target("n", "u", "b"), "t", {**parameters, **given})


async def fenced(namespace: PlayedNamespace, asked: Order | None = None, **given: str) -> Answer:
    return await NvmePr(Fencer(namespace, **given)).fence(asked or order())


@pytest.mark.parametrize("kind", [3, 4, 5, 6])
@pytest.mark.parametrize("holder", [A, B, None])
async def test_the_machines_key_is_preempted_and_aborted_and_the_others_stay(kind: int, holder: str | None):
    namespace = played(holder, kind=kind, controllers=2)
    answer = await fenced(namespace)
    assert (answer.outcome, answer.before) == (Outcome.FENCED, State.OPEN), answer
    assert (namespace.may_write(A), namespace.may_write(B), namespace.ended) == (False, True, {A})


async def test_the_same_order_again_changes_nothing_and_finds_that_it_was_aborted():
    namespace = played()
    await fenced(namespace)
    many = len(namespace.orders)
    again = await fenced(namespace)
    assert (again.outcome, again.before, len(namespace.orders)) == (Outcome.FENCED, State.SHUT, many)


async def test_an_unfence_takes_the_fences_own_keys_back():
    namespace = played()
    await fenced(namespace)
    assert (await NvmePr(Fencer(namespace)).unfence(order())).outcome is Outcome.UNFENCED
    assert namespace.keys == {B: 0xB2}


async def test_an_abort_whose_answer_was_lost_is_not_known_the_next_time_either():
    namespace = played()
    first = await fenced(namespace, loses="resv-acquire 2")
    assert (first.outcome, first.code) == (Outcome.UNKNOWN, "Failed")
    again = await fenced(namespace)
    assert (again.outcome, again.code, again.before) == (Outcome.UNKNOWN, "AbortNotSeen", State.SHUT)


async def test_a_machine_that_was_not_registered_has_had_nothing_aborted():
    namespace = PlayedNamespace({B: 0xB2}, B)
    assert (await fenced(namespace)).code == "AbortNotSeen"


@pytest.mark.parametrize("forgets", ["resv-acquire 2", "resv-acquire 0", "resv-register 0"])
async def test_an_order_that_is_answered_and_not_carried_out_is_found_by_the_look(forgets: str):
    answer = await fenced(played(None), forgets=forgets)
    assert answer.outcome is Outcome.UNKNOWN, answer


async def test_a_holder_that_preempts_nothing_is_no_fence():
    answer = await fenced(played(None, holder_preempts=False))
    assert (answer.outcome, answer.code) == (Outcome.UNKNOWN, "Registered")


async def test_an_abort_that_was_answered_and_did_nothing_is_not_remembered():
    namespace = played(None)
    await fenced(namespace, forgets="resv-acquire 2")
    del namespace.keys[A]
    answer = await fenced(namespace)
    assert (answer.outcome, answer.code) == (Outcome.UNKNOWN, "AbortNotSeen")


@pytest.mark.parametrize("refuses", ["resv-report ", "resv-acquire 2", "resv-acquire 0"])
async def test_a_failure_is_unknown(refuses: str):
    answer = await fenced(played(None), refuses=refuses)
    assert answer.outcome is Outcome.UNKNOWN, answer


@pytest.mark.parametrize(("word", "code"), [("registers", "MayRegisterAgain"), ("aborts", "MayNotAbort")])
async def test_without_the_operators_word_it_is_unknown(word: str, code: str):
    asked = order()
    asked = replace(asked, parameters={name: each for name, each in asked.parameters.items() if name != word})
    answer = await fenced(played(), asked)
    assert (answer.outcome, answer.code) == (Outcome.UNKNOWN, code)


@pytest.mark.parametrize("kind", [1, 2])
async def test_a_namespace_that_is_reserved_for_one_host_alone_is_left_as_it_is(kind: int):
    namespace = played(kind=kind)
    answer = await fenced(namespace)
    assert (answer.outcome, answer.code, namespace.orders) == (Outcome.UNKNOWN, "ReservedForOne", [])


async def test_a_key_that_another_host_has_too_is_left_alone():
    namespace = PlayedNamespace({A: 0xA1, B: 0xA1}, B)
    answer = await fenced(namespace)
    assert (answer.outcome, answer.code, namespace.orders) == (Outcome.NOT_FENCED, "WrongTarget", [])


async def test_a_machine_that_is_registered_under_another_key_is_shut_out_and_not_taken_for_fenced():
    namespace = PlayedNamespace({A: 0xC3, B: 0xB2}, B)
    assert (await NvmePr(Fencer(namespace)).look(order())).code == "Registered"
    assert (await fenced(namespace)).code == "AbortNotSeen"
    assert not namespace.may_write(A)


async def test_a_fencing_machine_with_the_targets_host_identifier_is_never_fenced():
    namespace = played()
    for _ in range(3):
        answer = await NvmePr(Fencer(namespace, A)).fence(order())
        assert answer.outcome is not Outcome.FENCED, answer
        assert namespace.may_write(A)


async def test_a_fencing_machine_with_the_targets_host_identifier_is_left_alone_once_that_is_seen():
    namespace = played()
    await NvmePr(Fencer(namespace, A)).fence(order())
    many = len(namespace.orders)
    assert (await NvmePr(Fencer(namespace, A)).fence(order())).code == "WrongTarget"
    assert len(namespace.orders) == many


async def test_the_fences_machine_may_be_registered_already_for_another_fence():
    namespace = PlayedNamespace({A: 0xA1, FENCE: 0xF}, FENCE)
    assert (await fenced(namespace)).outcome is Outcome.FENCED


async def test_more_registrants_than_are_printed_is_unknown():
    namespace = played(controllers=40)
    answer = await fenced(namespace)
    assert (answer.outcome, namespace.orders) == (Outcome.UNKNOWN, [])
    assert "63 of 80" in answer.message


async def test_a_look_says_what_keeps_it_out():
    look = await NvmePr(Fencer(PlayedNamespace({B: 0xB2}))).look(order())
    assert (look.state, look.code) == (State.OPEN, "NotReserved")
    assert (await NvmePr(Fencer(PlayedNamespace({B: 0xB2}, B))).look(order())).state is State.SHUT


async def test_a_program_that_goes_missing_after_the_order_leaves_it_unknown():
    class Vanishing(Fencer):
        async def __call__(self, words: Sequence[str], **given: Any) -> Ended:
            if words[1] == "resv-acquire":
                raise ProgramMissing("nvme is not installed")
            return await super().__call__(words, **given)

    answer = await NvmePr(Vanishing(played())).fence(order())
    assert (answer.outcome, answer.code) == (Outcome.UNKNOWN, "NotInstalled")


@pytest.mark.parametrize("prints", ['{"gen":1,"rtype":3,"regctl":1,"regctl', "", "[]"])
async def test_a_program_that_is_ended_half_way_leaves_nothing_and_is_unknown(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, prints: str
):
    program = tmp_path / "nvme"
    program.write_text(f"#!/bin/sh\nprintf '%s' '{prints}'\nsleep 60 &\nsleep 60\n")
    program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:{Path(sys.executable).parent}:/usr/bin:/bin")
    answer = await NvmePr().fence(replace(order(), deadline=1.0))
    assert answer.outcome is Outcome.UNKNOWN and "did not end" in answer.message, answer
    assert offspring() == []


@pytest.mark.parametrize(
    ("bad", "wrong"),
    [
        (order(hosts="a1"), "is no host identifier"),
        (order(hosts="0" * 32), "is no host identifier"),
        (order(aborts="mostly"), "aborts is `complete`"),
        (order(registers="sometimes"), "registers is `never`"),
        (order(keys="0x0"), "is no reservation key"),
        (replace(order(), parameters={"devices": "/dev/nvme0n1", "keys": "0xa1"}), "hosts is missing"),
    ],
)
def test_bad_input_is_said(bad: Order, wrong: str):
    assert any(wrong in each for each in NvmePr().problems(bad)), NvmePr().problems(bad)


@pytest.mark.parametrize("form", [("regctl", "regctlext"), ("regstrnt", "registrantext")])
def test_a_report_of_either_form_is_understood(form: tuple[str, str]):
    report = nvme_report.parse(json.dumps(played(form=form).report()))
    assert [(each.key, each.host, each.holds) for each in report.registrants] == [
        (0xA1, A, True),
        (0xB2, B, False),
    ]
    assert report.reservation == Reservation(3, 0xA1)


def changed(**given: Any) -> str:
    return json.dumps({**REPORT, **given})


def row(**given: Any) -> str:
    return json.dumps({**REPORT, "regctl": 1, "regctlext": [{**REPORT["regctlext"][0], **given}]})


@pytest.mark.parametrize(
    "output",
    [
        "",
        json.dumps(REPORT)[:-9],
        "[" * 100_000,
        changed(regctl=3),
        changed(regctl=True),
        changed(rtype=0),
        changed(rtype=7),
        changed(regctlext={}),
        json.dumps({**REPORT, "regctls": REPORT["regctlext"], "regctlext": None}),
        row(hostid="0" * 32),
        row(hostid=12),
        row(rkey=-1),
        row(rkey=0),
        row(rkey=1 << 64),
        row(rkey="0xa1"),
        row(rcsts=0),
    ],
)
def test_what_is_not_a_whole_report_is_refused(output: str):
    with pytest.raises(Unreadable):
        nvme_report.parse(output)


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(),
    lambda inner: (
        st.lists(inner) | st.dictionaries(st.sampled_from([*REPORT, *REPORT["regctlext"][0]]), inner)
    ),
)


@given(
    st.text()
    | JSON.map(json.dumps)
    | st.dictionaries(st.sampled_from([*REPORT]), JSON).map(lambda more: json.dumps({**REPORT, **more}))
)
def test_any_text_is_understood_or_refused(text: str):
    try:
        found = nvme_report.parse(text)
    except Unreadable:
        return
    assert (found.reservation.type == 0) == (not any(each.holds for each in found.registrants))
    assert all(0 < each.key < 1 << 64 for each in found.registrants)


@given(
    st.dictionaries(st.uuids().map(lambda each: each.hex), st.integers(1, (1 << 64) - 1), max_size=8),
    st.data(),
)
def test_what_a_namespace_prints_is_read_back(keys: dict[str, int], data: st.DataObject):
    keys = {host: key for host, key in keys.items() if int(host, 16) not in (0, (1 << 128) - 1)}
    holder = data.draw(st.sampled_from([None, *keys]))
    report = nvme_report.parse(json.dumps(PlayedNamespace(keys, holder).report()))
    assert {each.host: each.key for each in report.registrants} == keys
    assert report.reservation == (Reservation(3, keys[holder]) if holder else Reservation())
