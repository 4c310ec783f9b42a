"""What ceph prints, and what a fence makes of clusters that answer otherwise than they should."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mooring.fence.interface import Order, Outcome, State, Target
from mooring.fence.programs import Ended
from mooring.fence.storage import ceph_answers
from mooring.fence.storage.ceph_answers import Unreadable
from mooring.fence.storage.ceph_blocklist import CephBlocklist

UNTIL = "2029-11-27T13:11:57.993048+0000"


def test_an_entry_of_a_whole_address_is_found_and_one_of_a_single_client_is_not():
    listed = [
        {"addr": "10.0.0.1:0/0", "until": UNTIL},
        {"addr": "10.0.0.2:0/4711", "until": UNTIL},
        {"addr": "10.0.0.3:6800/0", "until": UNTIL},
        {"addr": "[fd00::1]:0/0", "until": UNTIL},
        {"addr": "v2:10.0.0.4:0/0", "until": UNTIL},
    ]
    assert [*ceph_answers.blocklist(json.dumps(listed))] == ["10.0.0.1", "fd00::1", "10.0.0.4"]


def test_what_ceph_16_prints_after_its_list_does_no_harm():
    assert [*ceph_answers.blocklist(json.dumps([{"addr": "10.0.0.1:0/0", "until": UNTIL}]) + "[]")] == [
        "10.0.0.1"
    ]


@pytest.mark.parametrize(
    "output",
    ["", "{}", "[{}]", '[{"addr": "10.0.0.1:0/0", "until": "soon"}]', '[{"addr": "10.0.0.1:0/0", "until": '
     '"2029-01-01T00:00:00"}]', "[" * 100_000],
)  # fmt: skip
def test_what_cannot_be_read_is_no_list(output: str):
    with pytest.raises(Unreadable):
        ceph_answers.blocklist(output)


JSON = st.recursive(
    st.none() | st.text() | st.integers(), lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner)
)


@given(st.text() | JSON.map(json.dumps))
def test_whatever_is_printed_is_read_or_refused(output: str):
    for read in (ceph_answers.blocklist, ceph_answers.osd_map, ceph_answers.newest_map):
        try:
            read(output)
        except Unreadable:
            continue
    ceph_answers.is_endpoint(output)


@pytest.mark.parametrize(
    ("text", "good"),
    [("10.0.0.1:6789", True), ("[fd00::1]:3300", True), ("mon.example:6789", True), ("10.0.0.1", False),
     ("10.0.0.1:0", False), ("10.0.0.1:65536", False), ("-x:1", False), ("a b:1", False), ("", False)],
)  # fmt: skip
def test_what_is_an_endpoint(text: str, good: bool):
    assert ceph_answers.is_endpoint(text) is good


class PlayedCluster:
    """Answers as `ceph` does. `behind`: daemons that go by an older map; `refuses`: an order that fails."""

    def __init__(self, *, behind: Sequence[int] = (), refuses: str = "") -> None:
        self.entries: dict[str, datetime] = {}
        self.behind, self.refuses, self.asked = behind, refuses, list[str]()

    async def __call__(
        self,
        words: Sequence[str],
        *,
        deadline: float,
        given: bytes = b"",
        environ: Mapping[str, str] = {},
        keep: int = 0,
    ) -> Ended:
        order = " ".join(words[words.index("json") + 1 :])
        self.asked.append(order)
        if self.refuses and order.startswith(self.refuses):
            return Ended(13, "", "Error EACCES: access denied")
        return Ended(0, json.dumps(self._done(order.split())))

    def _done(self, words: list[str]) -> Any:
        match words:
            case ["osd", "blocklist", "ls"]:
                return [{"addr": each, "until": until.isoformat()} for each, until in self.entries.items()]
            case ["osd", "blocklist", "add", address, seconds]:
                until = datetime.now(UTC) + timedelta(seconds=int(seconds))
                self.entries.setdefault(address, until)
            case ["osd", "blocklist", "rm", address]:
                del self.entries[address]
            case ["osd", "dump"]:
                osds = [{"osd": 0, "up": 1}, {"osd": 1, "up": 1}, {"osd": 2, "up": 0}]
                return {"epoch": 9, "osds": osds}
            case ["tell", daemon, "status"]:
                return {"newest_map": 8 if int(daemon.removeprefix("osd.")) in self.behind else 9}
            case _:
                raise AssertionError(words)
        return {}


def order(*addresses: str, deadline: float = 30, **given: str) -> Order:
    target = Target("n", "u", "b", addresses=addresses or ("10.0.0.1", "fd00::1"))
    parameters = {"monitors": "10.0.0.9:6789", "user": "fence", **given}
    return Order(target, "t", parameters, {"key": "hunter2=="}, deadline)


async def test_all_addresses_are_listed_and_taken_off_again_and_others_entries_stay():
    cluster = PlayedCluster()
    cluster.entries["10.0.0.7:0/0"] = datetime.now(UTC) + timedelta(days=1)
    fence = CephBlocklist(cluster)
    answer = await fence.fence(order())
    assert (answer.outcome, answer.before) == (Outcome.FENCED, State.OPEN)
    assert set(cluster.entries) == {"10.0.0.1:0/0", "[fd00::1]:0/0", "10.0.0.7:0/0"}
    assert (await fence.unfence(order())).outcome is Outcome.UNFENCED
    assert set(cluster.entries) == {"10.0.0.7:0/0"}


async def test_a_daemon_that_goes_by_an_older_map_may_still_take_writes():
    answer = await CephBlocklist(PlayedCluster(behind=[1])).fence(order(deadline=1))
    assert (answer.outcome, answer.code) == (Outcome.UNKNOWN, "MapNotEverywhere")
    assert "osd.1" in answer.message


async def test_a_daemon_that_is_down_is_not_waited_for():
    cluster = PlayedCluster(behind=[2])
    assert (await CephBlocklist(cluster).fence(order())).outcome is Outcome.FENCED
    assert "tell osd.2 status" not in cluster.asked


@pytest.mark.parametrize("refuses", ["osd blocklist ls", "osd blocklist add", "osd dump"])
async def test_a_cluster_that_refuses_leaves_the_outcome_unknown_and_the_key_untold(refuses: str):
    answer = await CephBlocklist(PlayedCluster(refuses=refuses)).fence(order())
    assert answer.outcome is Outcome.UNKNOWN
    assert "access denied" in answer.message
    assert "hunter2" not in answer.message


@pytest.mark.parametrize(
    ("given", "wrong"),
    [
        (order("10.0.0.0/24"), "not one address"),
        (order(networks="10.1.0.0/30"), "not one address"),
        (order(monitors="10.0.0.9"), "no address with a port"),
        (order(user="a b"), "no name of a Ceph user"),
    ],
)
async def test_bad_parameters_are_refused_and_nothing_is_asked(given: Order, wrong: str):
    cluster = PlayedCluster()
    answer = await CephBlocklist(cluster).fence(given)
    assert answer.outcome is Outcome.NOT_FENCED
    assert wrong in answer.message
    assert cluster.asked == []
