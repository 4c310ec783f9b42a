"""What the played storage counts is what a node moves through its sessions."""

from __future__ import annotations

from mooring.simulation.engine.trace import Trace
from mooring.simulation.parts.storage_counts import STRETCH_S, Counts
from mooring.simulation.parts.storage_targets import TARGETS, Targets, target_of

DISK = "v"


def _nothing(target: str, node: str) -> None:
    """The node's kernel has nothing to write."""


class _Played:
    """A storage whose node `n1` has a disk mounted."""

    def __init__(self) -> None:
        self.now = 0.0
        self.trace = Trace(lambda: self.now)
        self.targets = Targets(self.trace, _nothing)
        self.counts = Counts(self.targets, self.trace, seed=0)
        self.trace("n1", "truth.mounted", volume=DISK, node="n1")

    def writes(self, *, committed: bool = True) -> None:
        self.trace("n1", "truth.written", volume=DISK, node="n1", committed=committed)

    def moved(self, node: str = "n1", *targets: str) -> dict[str, int]:
        return dict(self.counts.moved(node, targets or TARGETS, self.now))


def test_what_is_written_counts_if_it_takes_effect():
    played = _Played()
    before = sum(played.moved().values())
    played.writes(committed=False)
    assert sum(played.moved().values()) == before
    played.writes()
    assert sum(played.moved().values()) == before + 1


def test_a_disk_is_worked_on_in_some_minutes_and_rests_in_the_others():
    played, grown = _Played(), list[int]()
    for minute in range(60):
        played.now = minute * STRETCH_S
        before = sum(played.moved().values())
        played.now += STRETCH_S
        grown.append(sum(played.moved().values()) - before)
    assert set(grown) == {0, int(STRETCH_S)}


def test_each_counts_the_disks_of_its_targets_and_of_its_node():
    played = _Played()
    other = next(each for each in TARGETS if each != target_of(DISK))
    assert played.moved("n1", target_of(DISK))
    assert not played.moved("n1", other)
    assert not played.moved("n2")


async def test_a_node_that_is_shut_out_has_no_session_and_another_one_when_it_is_let_in():
    played = _Played()
    first = played.moved().keys()
    played.targets.shut("n1", TARGETS)
    assert not played.moved()
    played.targets.let_in("n1", TARGETS)
    assert played.moved().keys() and played.moved().keys() != first


async def test_what_is_not_mounted_any_more_has_no_session():
    played = _Played()
    played.trace("n1", "truth.unmounted", volume=DISK, node="n1")
    assert not played.moved()
    played.targets.shut("n1", TARGETS)
    played.targets.let_in("n1", TARGETS)
    assert not played.moved()


def test_a_storage_that_has_lost_count_begins_anew_in_the_same_session():
    played = _Played()
    played.writes()
    played.now = 10 * STRETCH_S
    before = played.moved()
    played.counts.forget("n1", played.now)
    assert played.moved().keys() == before.keys()
    assert sum(before.values()) > 0 == sum(played.moved().values())
