"""Which name a volume gets on a node."""

from __future__ import annotations

import random
import re

from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from mooring.ebs.controller_service.device_names import (
    BAD_FOR_S,
    NAMES,
    OWN_NAMES,
    DeviceNames,
    canonical,
)
from mooring.ebs.node_service.volume_limits import others

EC2_TAKES = re.compile(r"/dev/xvd([b-z]|[a-d][a-z])")


def fresh() -> DeviceNames:
    return DeviceNames(lambda: 0.0)


def give(names: DeviceNames, volume: str, *in_use: str, now: float = 0.0) -> str | None:
    return names.give("i-1", volume, in_use, now)


def test_every_name_is_one_that_ec2_takes_and_none_is_another_ones_alias() -> None:
    assert all(EC2_TAKES.fullmatch(name) for name in NAMES)
    assert len({canonical(name) for name in NAMES}) == len(NAMES) == 127
    assert not {canonical("/dev/xvda"), canonical("/dev/sda1")} & {canonical(name) for name in NAMES}


def test_an_alias_of_a_name_in_use_is_not_given() -> None:
    names = fresh()
    used = [f"/dev/sd{canonical(name)}" for name in NAMES[:-1]]
    assert give(names, "vol-1", *used) == NAMES[-1]
    assert give(fresh(), "vol-1", "xvdaa", "/dev/sdab") == "/dev/xvdac"


def test_names_are_given_in_turn_also_after_they_are_free_again() -> None:
    names = fresh()
    given_names: list[str | None] = []
    for number in range(len(OWN_NAMES) + 1):
        given_names.append(give(names, f"vol-{number}", now=100.0 * number))
        names.end("i-1", f"vol-{number}", 100.0 * number)
    assert given_names == [*OWN_NAMES, OWN_NAMES[0]]


def test_names_that_others_may_use_are_given_only_when_no_name_of_two_letters_is_free() -> None:
    for seed in range(20):
        names = DeviceNames(random.Random(seed).random)
        given_names = [str(give(names, f"vol-{number}")) for number in range(len(NAMES))]
        assert set(given_names[: len(OWN_NAMES)]) == set(OWN_NAMES)
        assert set(given_names) == set(NAMES)


def test_of_nodes_that_have_come_and_gone_nothing_is_kept() -> None:
    names = fresh()
    names.give("i-busy", "vol-1", (), 0.0)
    for number in range(500):
        names.give(f"i-{number}", "vol", (), 60.0 * number)
        names.end(f"i-{number}", "vol", 60.0 * number)
    assert len(vars(names)["_nodes"]) <= 1 + BAD_FOR_S / 60
    assert names.give("i-busy", "vol-2", (), 60.0 * 500) == OWN_NAMES[1]


def test_the_turn_begins_at_any_name_of_two_letters() -> None:
    starts = {give(DeviceNames(lambda at=place / 1020: at), "vol-1") for place in range(1020)}
    assert starts == set(OWN_NAMES)


def test_a_name_that_was_given_a_moment_ago_comes_after_those_that_are_surely_free() -> None:
    names = fresh()
    for number in range(len(OWN_NAMES)):
        give(names, f"vol-{number}")
        names.end("i-1", f"vol-{number}", 0.0)
    assert give(names, "vol-x", now=29.0) not in OWN_NAMES
    assert give(names, "vol-y", now=30.0) in OWN_NAMES


def test_the_node_service_takes_a_name_for_this_drivers_exactly_if_it_has_two_letters() -> None:
    assert others(OWN_NAMES) == 0
    assert others(NAMES) == len(NAMES) - len(OWN_NAMES) == 25


def test_after_a_restart_names_in_use_are_not_given() -> None:
    for seed in range(100):
        names = DeviceNames(random.Random(seed).random)
        assert give(names, "vol-9", *NAMES[:60], *NAMES[61:]) == NAMES[60]


def test_a_refused_name_is_given_last_and_after_an_hour_as_any_other() -> None:
    names = fresh()
    names.refused("i-1", NAMES[0], 0.0)
    assert give(names, "vol-1") == NAMES[1]
    names.end("i-1", "vol-1", 0.0)
    assert give(names, "vol-2", *NAMES[1:]) == NAMES[0]
    names.end("i-1", "vol-2", 0.0)
    assert give(names, "vol-3", *NAMES[2:], now=3599.0) == NAMES[1]
    names.end("i-1", "vol-3", 3599.0)
    assert give(names, "vol-4", *NAMES[2:], now=3600.0) == NAMES[0]


def test_two_controllers_that_refuse_each_other_part() -> None:
    chance = random.Random(0)
    both = [DeviceNames(chance.random), DeviceNames(chance.random)]
    taken: set[str] = set()
    refusals = 0
    for number in range(40):
        names = both[number % 2]
        while (name := names.give("i-1", f"vol-{number}", (), 0.0)) in taken:
            refusals += 1
            names.refused("i-1", str(name), 0.0)
        taken.add(str(name))
    assert refusals < 12


def test_when_all_names_are_in_use_there_is_none() -> None:
    assert give(fresh(), "vol-1", *NAMES) is None


def test_a_volume_goes_to_the_card_with_the_fewest() -> None:
    names = fresh()
    for number, card in enumerate([0, 1, 0, 1]):
        names.give("i-1", f"vol-{number}", (), 0.0)
        assert names.choose_card("i-1", f"vol-{number}", 2, (), 0.0) == card
    names.give("i-1", "vol-4", (), 0.0)
    assert names.choose_card("i-1", "vol-4", 2, [0, 0, 0, 7], 0.0) == 1


class ManyAtOnce(RuleBasedStateMachine):
    """Attaches on one node, each of which EC2 shows some time after it ended."""

    def __init__(self) -> None:
        super().__init__()
        self.names = fresh()
        self.now = 0.0
        self.under_way: dict[str, str] = {}
        self.attached: dict[str, str] = {}
        self.count = 0

    @rule(seconds=st.floats(0, 50))
    def wait(self, seconds: float) -> None:
        self.now += seconds

    @rule()
    def begin(self) -> None:
        volume = f"vol-{self.count}"
        self.count += 1
        name = self.names.give("i-1", volume, list(self.attached.values()), self.now)
        if name is not None:
            self.under_way[volume] = name

    @rule(data=st.data(), works=st.booleans())
    def end(self, data: st.DataObject, works: bool) -> None:
        if self.under_way:
            volume = data.draw(st.sampled_from(sorted(self.under_way)))
            name = self.under_way.pop(volume)
            self.names.end("i-1", volume, self.now)
            if works:
                self.attached[volume] = name

    @rule(data=st.data())
    def detach(self, data: st.DataObject) -> None:
        if self.attached:
            del self.attached[data.draw(st.sampled_from(sorted(self.attached)))]

    @invariant()
    def no_name_is_given_twice(self) -> None:
        used = [canonical(name) for name in (*self.under_way.values(), *self.attached.values())]
        assert len(used) == len(set(used))


TestManyAtOnce = ManyAtOnce.TestCase
