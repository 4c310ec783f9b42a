"""Reservations of disks: what sg_persist prints, and what a fence makes of it, with a played disk."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from played_reservations import HELD, NO_KEYS, NOT_HELD, PlayedDisk, keys_shown

from mooring.fence.interface import Order, Outcome, State, Target
from mooring.fence.programs import Ended
from mooring.fence.storage import reservations
from mooring.fence.storage.reservations import Reservation, Unreadable
from mooring.fence.storage.scsi_pr import ScsiPr

KEYS = keys_shown(0xA1, 0xB2)


class Fencer:
    """The fence's machine, which reaches the disk."""

    def __init__(self, disk: PlayedDisk) -> None:
        self.disk = disk

    async def __call__(
        self,
        words: Sequence[str],
        *,
        deadline: float,
        given: bytes = b"",
        environ: Mapping[str, str] = {},
        keep: int = 0,
    ) -> Ended:
        return Ended(*self.disk.asked("fence", tuple(words)))


def played(holder: str | None = "a", **given: Any) -> PlayedDisk:
    """Two machines have registered."""
    return PlayedDisk({"a": 0xA1, "b": 0xB2}, holder, attentions=given.pop("attentions", 1), **given)


def fence(disk: PlayedDisk) -> ScsiPr:
    return ScsiPr(Fencer(disk))


def order(**given: str) -> Order:
    return Order(Target("n", "u", "b"), "t", {"devices": "/dev/sda", "keys": "0xa1", **given})


async def test_the_machines_key_is_preempted_and_the_others_stay():
    disk = played()
    answer = await fence(disk).fence(order(registers="never"))
    assert (answer.outcome, answer.before) == (Outcome.FENCED, State.OPEN)
    assert disk.keys == {"b": 0xB2, "fence": reservations.ended_key(reservations.own_key("n", "t"))}
    assert disk.holder == "fence"
    again = await fence(disk).fence(order(registers="never"))
    assert (again.outcome, again.before) == (Outcome.FENCED, State.SHUT)
    assert (await fence(disk).unfence(order())).outcome is Outcome.UNFENCED
    assert disk.keys == {"b": 0xB2}


async def test_a_machine_that_may_register_again_is_not_taken_for_fenced():
    answer = await fence(played()).fence(order())
    assert (answer.outcome, answer.code) == (Outcome.UNKNOWN, "MayRegisterAgain")


async def test_preempted_without_abort_is_unknown():
    disk = played(aborts=False)
    answer = await fence(disk).fence(order(registers="never"))
    assert (answer.outcome, answer.code) == (Outcome.UNKNOWN, "PreemptedOnly")
    assert "a" not in disk.keys


async def test_preempted_without_abort_stays_unknown_when_it_is_ordered_again():
    disk = played(aborts=False)
    await fence(disk).fence(order(registers="never"))
    again = await fence(disk).fence(order(registers="never"))
    assert (again.outcome, again.code) == (Outcome.UNKNOWN, "PreemptedOnly")


async def test_a_key_that_was_not_there_has_had_nothing_aborted():
    answer = await fence(played()).fence(order(registers="never", keys="0xa1,0xc3"))
    assert (answer.outcome, answer.code) == (Outcome.UNKNOWN, "PreemptedOnly")


async def test_without_a_reservation_keys_stop_nobody_so_one_is_made():
    disk = played(holder=None)
    assert (await fence(disk).look(order())).state is State.OPEN
    assert (await fence(disk).fence(order(registers="never"))).outcome is Outcome.FENCED
    assert disk.holder == "fence"
    assert (await fence(PlayedDisk({"b": 0xB2})).look(order())).code == "NotReserved"


async def test_a_disk_that_is_reserved_for_one_machine_alone_is_left_as_it_is():
    disk = played(kind="Write Exclusive")
    answer = await fence(disk).fence(order(registers="never"))
    assert (answer.outcome, answer.code, disk.orders) == (Outcome.UNKNOWN, "ReservedForOne", [])


async def test_a_disk_that_does_not_answer_is_unknown():
    disk = played(attentions=99)
    assert (await fence(disk).fence(order())).outcome is Outcome.UNKNOWN
    assert (await fence(disk).look(order())).state is State.UNKNOWN


@pytest.mark.parametrize(
    ("bad", "wrong"),
    [
        (order(keys="a1"), "is no reservation key"),
        (order(keys="0x0"), "is no reservation key"),
        (order(devices="sda"), "is no path of a device"),
        (order(registers="sometimes"), "registers is `never`"),
        (replace(order(), token=""), "no token"),
        (replace(order(), parameters={"devices": "/dev/sda"}), "keys is missing"),
    ],
)
def test_bad_input_is_said(bad: Order, wrong: str):
    assert any(wrong in each for each in ScsiPr().problems(bad)), ScsiPr().problems(bad)


def test_what_sg_persist_prints_is_understood():
    assert reservations.keys(KEYS) == {0xA1, 0xB2}
    assert reservations.keys(NO_KEYS) == set()
    assert reservations.reservation(HELD) == Reservation(5, 0xA1)
    assert reservations.reservation(NOT_HELD) == Reservation()
    assert reservations.reservation(HELD.replace(", registrants only", "")) == Reservation(-1, 0xA1)


@given(st.text() | st.lists(st.sampled_from([*KEYS.splitlines(), *HELD.splitlines()])).map("\n".join))
def test_any_text_is_understood_or_refused(text: str):
    for read in (reservations.keys, reservations.reservation):
        try:
            read(text)
        except Unreadable:
            continue


@given(st.text(), st.text())
def test_a_fences_own_key_is_never_none(node: str, token: str):
    try:
        assert 0 < reservations.own_key(node, token) < 1 << 64
    except UnicodeEncodeError:
        return
