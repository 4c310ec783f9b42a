"""What tgtadm prints is understood, and who is let in by it."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mooring.fence import programs
from mooring.fence.interface import Order, Outcome, State, Target, Volume
from mooring.fence.programs import Ended, ProgramMissing
from mooring.fence.storage.clients import BadClient, client_of, uncovered
from mooring.fence.storage.iscsi_tgt import IscsiTgt
from mooring.fence.storage.tgt_targets import Nexus, Served, entries_of, lets_in, parse, sessions_of, traffic

SHOWN = """Target 1: iqn.x:a
    System information:
        Driver: iscsi
        State: ready
    I_T nexus information:
        I_T nexus: 4
            Initiator: iqn.x:n1 alias: node-1
            Connection: 0
                IP Address: 10.88.1.1
        I_T nexus: 7
            Initiator: iqn.x:n2 alias: node-2
        I_T nexus: 9
    LUN information:
        LUN: 0
            Type: controller
    Account information:
    ACL information:
        10.88.1.0/24
        iqn.x:n1
Target 2: iqn.x:b
    ACL information:
        ALL
"""
ONE = client_of(
    Order(Target("n", "u", "b", addresses=("10.88.1.1", "10.88.1.0/24"), initiators=("iqn.x:n1",)))
)


def test_what_is_shown_is_understood():
    first = Nexus("4", "iqn.x:n1", (("0", "10.88.1.1"),))
    assert parse(SHOWN) == {
        "iqn.x:a": Served("1", ("10.88.1.0/24", "iqn.x:n1"), (first, Nexus("7", "iqn.x:n2"), Nexus("9"))),
        "iqn.x:b": Served("2", ("ALL",)),
    }


COUNTED = """tgt lun sid rd_subm(bytes,cmds) rd_done(bytes,cmds) wr_subm(bytes,cmds) wr_done(bytes,cmds) errs
  1   0   1            0      0            0      0            0      0            0      0    0
  1   1   4         4096      1         4096      1        69632    136        69632    136    1
  1   1   7            0      0            0      0         9223372036854775807    135        69120    135    1
"""


def test_what_has_gone_through_is_counted_by_session_and_unit():
    assert traffic(COUNTED) == {("1", "0"): 0, ("4", "1"): 73728, ("7", "1"): 9223372036854775807}


@given(st.text() | st.lists(st.sampled_from([*COUNTED.splitlines(), "  1   1  ", "x"])).map("\n".join))
def test_any_text_is_counted_as_far_as_it_is_understood(text: str):
    assert all(many >= 0 for many in traffic(text).values())


@given(
    st.text() | st.lists(st.sampled_from([*SHOWN.splitlines(), "            Connection: x"])).map("\n".join)
)
def test_any_text_is_understood_as_far_as_it_goes(text: str):
    for served in parse(text).values():
        entries_of(served, ONE)
        sessions_of(served, ONE)


def test_sessions_are_the_clients_by_name_by_address_or_if_it_is_not_told_whose_they_are():
    served = parse(SHOWN)["iqn.x:a"]
    assert [each.session for each in sessions_of(served, ONE)] == ["4", "9"]
    assert entries_of(served, ONE) == ["10.88.1.0/24", "iqn.x:n1"]


@pytest.mark.parametrize(
    ("acl", "lets"),
    [
        ([], False),
        (["10.88.1.7"], True),
        (["10.88.0.0/16"], True),
        (["ALL"], True),
        (["10.88.2.0/24"], False),
        (["iqn.x:n1"], True),
        (["iqn.x:n2", "10.88.2.1"], False),
        (["10.88.2.1", "iqn.x:n1"], True),
    ],
)
def test_an_address_or_a_name_is_enough_to_be_let_in(acl: list[str], lets: bool):
    assert lets_in(acl, ONE) == lets


def test_where_names_are_not_known_any_may_be_its_own():
    nameless = client_of(Order(Target("n", "u", "b", addresses=("10.88.1.1",))))
    assert lets_in(["iqn.x:n2"], nameless)
    addressless = client_of(Order(Target("n", "u", "b", initiators=("iqn.x:n1",))))
    assert lets_in(["10.88.2.1"], addressless)


@pytest.mark.parametrize("bad", ["", "10.88.1", "127.0.0.0/8"])
def test_a_client_that_is_none_is_refused(bad: str):
    with pytest.raises(BadClient):
        client_of(Order(Target("n", "u", "b", addresses=(bad,) if bad else ())))


def test_a_volume_of_another_target_is_not_claimed():
    target = Target(
        "n",
        "u",
        "b",
        addresses=("10.88.1.1",),
        volumes=(Volume("iqn.x:a,1"), Volume("iqn.x:ab"), Volume("iqn.x:a")),
    )
    wrong = IscsiTgt().problems(Order(target, "t", {"target": "iqn.x:a"}))
    assert wrong == ["the volume iqn.x:ab is not of iqn.x:a: its writes would not be stopped"]
    assert uncovered([Volume("/srv/a/b"), Volume("/srv/a")], "/srv/a", "/") == []


@pytest.mark.parametrize(
    ("given", "wrong"),
    [
        ({}, "target is missing"),
        ({"target": "a b"}, "is no name of a target"),
        ({"target": "a", "control-port": "x"}, "control-port is no number"),
        ({"target": "a", "acl": "ALL"}, "is everyone"),
        ({"target": "a", "networks": "x"}, "is no IP address"),
    ],
)
def test_bad_input_is_said(given: dict[str, str], wrong: str):
    found = IscsiTgt().problems(Order(Target("n", "u", "b", addresses=("10.88.1.1",)), "t", given))
    assert any(wrong in each for each in found), found


async def test_the_names_among_a_machines_entries_are_its_own_and_others_are_not(
    monkeypatch: pytest.MonkeyPatch,
):
    """Of a machine whose initiator's name is not known, any name on the list might be its own."""
    monkeypatch.setattr(programs, "missing", lambda needed: [])
    shown = SHOWN.replace(
        "        10.88.1.0/24\n        iqn.x:n1\n", "        10.88.2.0/24\n        iqn.x:n2\n"
    )
    shown = (
        shown.replace("10.88.1.1", "10.88.2.1").replace("iqn.x:n1", "iqn.x:n2").replace("I_T nexus: 9\n", "")
    )

    async def run(words: list[str], **options: object) -> Ended:
        return Ended(0, shown, "")

    target = Target("n", "u", "b", addresses=("10.88.1.1",))
    own = {"target": "iqn.x:a", "acl": "10.88.1.0/24,iqn.x:n1"}
    assert (await IscsiTgt(run).look(Order(target, "t", own))).state is State.SHUT
    assert (await IscsiTgt(run).look(Order(target, "t", {"target": "iqn.x:a"}))).state is State.OPEN


@pytest.mark.parametrize(
    ("name", "server", "covered"),
    [
        ("iqn.x:a,1", "10.0.0.1:3260", True),
        ("iqn.x:a.b,1", "10.0.0.1:3260", False),
        ("iqn.x:a:b,1", "10.0.0.1:3260", False),
        ("iqn.x:a,1", "10.0.0.1:3261", False),
        ("iqn.x:a,1", "", False),
    ],
)
def test_a_volume_is_covered_by_the_targets_name_and_its_portal(name: str, server: str, covered: bool):
    order = Order(Target("n", "u", "b"), "t", {"target": "iqn.x:a", "portals": "10.0.0.1:3260,10.0.0.2:3260"})
    assert IscsiTgt().covers(order, Volume(name, server)) == covered


async def test_a_tgtadm_that_cannot_be_started_any_more_may_have_shut_it_out(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(programs, "missing", lambda needed: [])

    async def run(words: list[str], **options: object) -> Ended:
        if "show" not in words:
            raise ProgramMissing("tgtadm cannot be executed: Cannot allocate memory")
        return Ended(0, SHOWN, "")

    target = Target("n", "u", "b", addresses=("10.88.1.1",), initiators=("iqn.x:n1",))
    answer = await IscsiTgt(run).fence(
        Order(target, "t", {"target": "iqn.x:a", "acl": "10.88.1.0/24,iqn.x:n1"})
    )
    assert (answer.outcome, answer.code) == (Outcome.UNKNOWN, "NotInstalled")
