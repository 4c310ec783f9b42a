"""What can be ordered of a machine is checked whole before anything is done."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mooring.cluster.layout import ClusterError
from mooring.cluster.machines.interface import Cut, Direction, Far, Quality
from mooring.cluster.machines.links import NoLinks
from mooring.cluster.orders import ORDERS, obey


class PlayedLinks:
    """Remembers what was ordered."""

    def __init__(self) -> None:
        self.cuts: list[Cut] = []
        self.quality = Quality()

    async def cut(self, cut: Cut) -> None:
        self.cuts.append(cut)

    async def heal(self) -> None:
        self.cuts, self.quality = [], Quality()

    async def worsen(self, quality: Quality) -> None:
        self.quality = quality

    async def renew(self) -> None: ...

    async def state(self) -> list[str]:
        return [f"{cut.far} {cut.direction}" for cut in self.cuts]


class PlayedMachine:
    """A machine of which only power and links are played."""

    def __init__(self) -> None:
        self.name = "node-1"
        self.on = True
        self.clean = True
        self.links: Any = PlayedLinks()
        self.done: list[str] = []

    async def start(self) -> None:
        self.on = True

    async def stop(self) -> bool:
        self.on = False
        return self.clean

    async def lose_power(self) -> None:
        self.on = False

    async def reset(self) -> None:
        self.done.append("reset")

    async def panic(self) -> None:
        self.on = False

    async def heal(self) -> None:
        self.done = []
        await self.links.heal()

    async def troubles(self) -> list[str]:
        return [*self.done, *await self.links.state()]

    # --- the machine itself

    @property
    def machine(self) -> PlayedMachine:
        return self

    async def freeze(self) -> None:
        self.done.append("frozen")

    async def thaw(self) -> None:
        self.done = [each for each in self.done if each != "frozen"]

    async def hang(self) -> None:
        self.done.append("I/O hangs")

    async def skew(self, seconds: float) -> None:
        self.done.append(f"clock {seconds:+g} s")

    async def run(self, script: str) -> tuple[int, str]:
        return 3, f"ran {script}"


@pytest.fixture
def machine() -> PlayedMachine:
    return PlayedMachine()


async def order(machine: PlayedMachine, command: str, **options: Any) -> str:
    return await obey({"node-1": machine}, command, "node-1", options)


async def test_power_is_switched_and_the_answer_says_how_it_went(machine: PlayedMachine) -> None:
    assert await order(machine, "kill") == "node-1 has lost power"
    assert not machine.on
    assert await order(machine, "start") == "node-1 boots"
    assert await order(machine, "stop") == "node-1 has shut down"
    machine.on, machine.clean = True, False
    assert await order(machine, "stop") == "node-1 did not shut down in time; its power was cut"


@pytest.mark.parametrize(
    ("on", "command", "message"),
    [(True, "start", "is on"), (False, "stop", "is off"), (False, "kill", "is off")],
)
async def test_what_the_power_does_not_allow_is_refused(
    machine: PlayedMachine, on: bool, command: str, message: str
) -> None:
    machine.on = on
    with pytest.raises(ClusterError, match=f"node-1 {message}"):
        await order(machine, command)
    assert machine.on == on


async def test_an_unknown_node_or_order_is_refused_and_the_known_ones_are_named(
    machine: PlayedMachine,
) -> None:
    with pytest.raises(ClusterError, match="no node 'node-9' here: there are node-1"):
        await obey({"node-1": machine}, "kill", "node-9")
    with pytest.raises(ClusterError, match="unknown command 'explode': there are start, stop"):
        await order(machine, "explode")


async def test_a_cut_is_of_everything_unless_it_is_said_otherwise(machine: PlayedMachine) -> None:
    assert await order(machine, "cut") == "node-1: all both"
    await order(machine, "cut", far="api", direction="out")
    assert machine.links.cuts == [Cut(Far.ALL, Direction.BOTH), Cut(Far.API, Direction.OUT)]
    assert await order(machine, "heal") == "node-1: nothing is wrong with it"
    assert machine.links.cuts == []


async def test_links_of_a_machine_that_is_off_can_be_cut(machine: PlayedMachine) -> None:
    machine.on = False
    await order(machine, "cut", far="storage")
    assert machine.links.cuts == [Cut(Far.STORAGE)]


async def test_a_links_quality_is_taken_as_a_whole(machine: PlayedMachine) -> None:
    await order(machine, "worsen", delay=0.2, loss=0.1)
    assert machine.links.quality == Quality(0.2, 0.1)
    await order(machine, "worsen", loss=1)
    assert machine.links.quality == Quality(0, 1)


@pytest.mark.parametrize(
    ("command", "options", "message"),
    [
        ("cut", {"far": "moon"}, "far 'moon': it is one of all, api, peers, storage"),
        ("cut", {"far": 1}, "far 1: it is one of"),
        ("cut", {"direction": "up"}, "direction 'up': it is one of both, in, out"),
        ("cut", {"near": "api"}, "unknown option 'near': there are far, direction"),
        ("kill", {"far": "api"}, "unknown option 'far': there are none"),
        ("worsen", {"delay": -1}, "delay -1: it is a number from 0 to 60"),
        ("worsen", {"loss": 2}, "loss 2: it is a number from 0 to 1"),
        ("worsen", {"loss": float("nan")}, "loss nan: it is a number"),
        ("worsen", {"loss": True}, "loss True: it is a number"),
        ("worsen", {"loss": "0.1"}, "loss '0.1': it is a number"),
        ("worsen", {"loss": 0.5, "delay": None}, "delay None: it is a number"),
    ],
)
async def test_a_wrong_option_is_named_and_nothing_is_done(
    machine: PlayedMachine, command: str, options: dict[str, Any], message: str
) -> None:
    with pytest.raises(ClusterError) as error:
        await obey({"node-1": machine}, command, "node-1", options)
    assert message in str(error.value)
    assert (machine.links.cuts, machine.links.quality, machine.on) == ([], Quality(), True)


async def test_where_links_cannot_be_cut_the_reason_is_said(machine: PlayedMachine) -> None:
    machine.links = NoLinks("node-1: no cgroups here")
    for command in ("cut", "worsen"):
        with pytest.raises(ClusterError, match="node-1: no cgroups here"):
            await order(machine, command)
    assert await order(machine, "heal") == "node-1: nothing is wrong with it"


scalars = st.one_of(st.none(), st.booleans(), st.integers(), st.floats(), st.text(max_size=20))
names = st.sampled_from(["far", "direction", "delay", "loss", "x"])


@given(st.sampled_from([*ORDERS, "x"]), st.dictionaries(names, scalars, max_size=4))
def test_whatever_is_said_it_is_carried_out_or_refused_in_a_sentence(
    command: str, options: dict[str, Any]
) -> None:
    machine = PlayedMachine()
    try:
        assert asyncio.run(obey({"node-1": machine}, command, "node-1", options))
    except ClusterError as error:
        assert str(error)
    for cut in machine.links.cuts:
        assert (cut.far in Far, cut.direction in Direction) == (True, True)
    assert 0 <= machine.links.quality.loss <= 1


async def test_what_was_done_to_a_machine_on_purpose_is_undone_by_one_word(machine: PlayedMachine) -> None:
    for command, options in (("freeze", {}), ("hang", {}), ("skew", {"seconds": -30}), ("cut", {})):
        await order(machine, command, **options)
    assert machine.done == ["frozen", "I/O hangs", "clock -30 s"]
    assert await order(machine, "heal") == "node-1: nothing is wrong with it"
    assert not machine.done
    assert not machine.links.cuts


async def test_a_script_s_status_and_output_are_handed_back(machine: PlayedMachine) -> None:
    assert json.loads(await order(machine, "run", script="x")) == {"status": 3, "output": "ran x"}
    with pytest.raises(ClusterError, match="a text of at most"):
        await order(machine, "run", script="x" * 9000)


@pytest.mark.parametrize("command", ["freeze", "thaw", "hang", "skew", "run", "reset", "panic"])
async def test_a_machine_without_power_is_left_alone(machine: PlayedMachine, command: str) -> None:
    machine.on = False
    options: dict[str, Any] = {"skew": {"seconds": 1}, "run": {"script": "x"}}.get(command, {})
    with pytest.raises(ClusterError, match="node-1 is off"):
        await order(machine, command, **options)
