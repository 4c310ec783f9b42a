"""Reservations of disks: what sg_persist prints, and what a fence makes of it, with a played disk."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mooring.fence.interface import Order, Outcome, State, Target
from mooring.fence.programs import Ended
from mooring.fence.storage import reservations
from mooring.fence.storage.reservations import Reservation, Unreadable
from mooring.fence.storage.scsi_pr import UNIT_ATTENTION, ScsiPr

HEAD = "  LIO-ORG   data   4.0\n  Peripheral device type: disk\n"
KEYS = HEAD + "  PR generation=0x2, 2 registered reservation keys follow:\n    0xa1\n    0xb2\n"
NO_KEYS = HEAD + "  PR generation=0x0, there are NO registered reservation keys\n"
HELD = HEAD + (
    "  PR generation=0x3, Reservation follows:\n    Key=0xa1\n"
    "    scope: LU_SCOPE,  type: Write Exclusive, registrants only\n"
)
NOT_HELD = HEAD + "  PR generation=0x2, there is NO reservation held\n"


@dataclass
class Disk:
    """As sg_persist shows it."""

    keys: list[int] = field(default_factory=lambda: [0xA1, 0xB2])
    kind: str = "Write Exclusive, registrants only"
    holder: int = 0xA1
    aborts: bool = True
    attentions: int = 1
    orders: list[str] = field(default_factory=list[str])

    async def __call__(
        self,
        words: Sequence[str],
        *,
        deadline: float,
        given: bytes = b"",
        environ: Mapping[str, str] = {},
        keep: int = 0,
    ) -> Ended:
        if self.attentions:
            self.attentions -= 1
            return Ended(UNIT_ATTENTION, errors="unit attention")
        match words[2]:
            case "--read-keys":
                rows = "".join(f"    {hex(key)}\n" for key in self.keys)
                return Ended(0, KEYS.split("    0xa1")[0] + rows if self.keys else NO_KEYS)
            case "--read-reservation" if not self.holder:
                return Ended(0, NOT_HELD)
            case "--read-reservation":
                text = HELD.replace("0xa1", hex(self.holder))
                return Ended(0, text.replace("Write Exclusive, registrants only", self.kind))
            case order:
                return self._ordered(
                    order, {name: value for name, _, value in (each.partition("=") for each in words)}
                )

    def _ordered(self, order: str, given: dict[str, str]) -> Ended:
        self.orders.append(order)
        target = int(given.get("--param-sark", "0"), 16)
        if order == "--register-ignore":
            self.keys.append(target)
        elif order == "--reserve":
            self.holder = int(given["--param-rk"], 16)
        elif order == "--register":
            self.keys.remove(int(given["--param-rk"], 16))
        elif order == "--preempt" or (order == "--preempt-abort" and self.aborts):
            self.keys.remove(target)
            self.holder = int(given["--param-rk"], 16) if self.holder == target else self.holder
        else:
            return Ended(9, errors="invalid opcode")
        return Ended(0)


def order(**given: str) -> Order:
    return Order(Target("n", "u", "b"), "t", {"devices": "/dev/sda", "keys": "0xa1", **given})


async def test_the_machines_key_is_preempted_and_the_others_stay():
    disk = Disk()
    answer = await ScsiPr(disk).fence(order(registers="never"))
    assert (answer.outcome, answer.before) == (Outcome.FENCED, State.OPEN)
    own = reservations.own_key("n", "t")
    assert (disk.keys, disk.holder) == ([0xB2, own], own)
    again = await ScsiPr(disk).fence(order(registers="never"))
    assert (again.outcome, again.before) == (Outcome.FENCED, State.SHUT)
    assert (await ScsiPr(disk).unfence(order())).outcome is Outcome.UNFENCED
    assert disk.keys == [0xB2]


async def test_a_machine_that_may_register_again_is_not_taken_for_fenced():
    answer = await ScsiPr(Disk()).fence(order())
    assert (answer.outcome, answer.code) == (Outcome.UNKNOWN, "MayRegisterAgain")


async def test_preempted_without_abort_is_unknown():
    disk = Disk(aborts=False)
    answer = await ScsiPr(disk).fence(order(registers="never"))
    assert (answer.outcome, answer.code) == (Outcome.UNKNOWN, "PreemptedOnly")
    assert 0xA1 not in disk.keys


async def test_without_a_reservation_keys_stop_nobody_so_one_is_made():
    disk = Disk(holder=0)
    assert (await ScsiPr(disk).look(order())).state is State.OPEN
    assert (await ScsiPr(disk).fence(order(registers="never"))).outcome is Outcome.FENCED
    assert disk.holder == reservations.own_key("n", "t")
    assert (await ScsiPr(Disk(keys=[0xB2], holder=0)).look(order())).code == "NotReserved"


async def test_a_disk_that_is_reserved_for_one_machine_alone_is_left_as_it_is():
    disk = Disk(kind="Write Exclusive")
    answer = await ScsiPr(disk).fence(order(registers="never"))
    assert (answer.outcome, answer.code, disk.orders) == (Outcome.UNKNOWN, "ReservedForOne", [])


async def test_a_disk_that_does_not_answer_is_unknown():
    disk = Disk(attentions=99)
    assert (await ScsiPr(disk).fence(order())).outcome is Outcome.UNKNOWN
    assert (await ScsiPr(disk).look(order())).state is State.UNKNOWN


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
