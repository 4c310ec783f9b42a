"""What tgtadm prints is understood, and leads to what shuts an initiator out."""

from __future__ import annotations

from ipaddress import IPv4Address, IPv4Network

from hypothesis import given
from hypothesis import strategies as st

from mooring.cluster.storage import tgt
from mooring.cluster.storage.tgt import Access, Connection

ONE, TWO = IPv4Network("10.88.1.0/24"), IPv4Network("10.88.2.0/24")
CLIENTS = {"node-1": ONE, "node-2": TWO}
SHOWN = """Target 1: iqn.2026-01.dev.mooring:storage.data
    System information:
        Driver: iscsi
        State: ready
    I_T nexus information:
        I_T nexus: 4
            Initiator: iqn.2026-01.dev.mooring:node-1 alias: node-1
            Connection: 0
                IP Address: 10.88.1.1
        I_T nexus: 7
            Initiator: iqn.2026-01.dev.mooring:node-2 alias: node-2
            Connection: 1
                IP Address: 10.88.2.1
    LUN information:
        LUN: 0
            Type: controller
            Backing store flags: 
    Account information:
    ACL information:
        10.88.1.0/24
        iqn.2026-01.dev.mooring:node-1
"""
FIRST = Connection("4", "0", IPv4Address("10.88.1.1"))
SECOND = Connection("7", "1", IPv4Address("10.88.2.1"))


def test_what_is_shown_is_understood() -> None:
    rules = frozenset({"10.88.1.0/24", "iqn.2026-01.dev.mooring:node-1"})
    assert tgt.parse(SHOWN) == Access(rules, (FIRST, SECOND))


@given(
    st.text() | st.lists(st.sampled_from([*SHOWN.splitlines(), "            Connection: x"])).map("\n".join)
)
def test_any_text_is_understood_as_far_as_it_goes(text: str) -> None:
    for connection in tgt.parse(text).connections:
        assert connection.session.isdecimal()
        assert connection.number.isdecimal()


def test_an_initiator_that_claims_another_address_in_its_name_is_known_by_its_own() -> None:
    text = SHOWN.replace("alias: node-2", "alias: IP Address: 10.88.1.1")
    assert tgt.parse(text).connections == (FIRST, SECOND)


def test_an_initiator_is_shut_out_by_address_and_name_and_its_connections_are_closed() -> None:
    access = Access(tgt.wanted(CLIENTS), (FIRST, SECOND))
    left = {"node-2": TWO}
    words = [" ".join(order) for order in tgt.acl_orders(access, left)]
    assert words == [
        "--op unbind --mode target --tid 1 -I 10.88.1.0/24",
        "--op unbind --mode target --tid 1 -Q iqn.2026-01.dev.mooring:node-1",
    ]
    assert tgt.unwelcome(access, left) == [FIRST]
    assert " ".join(tgt.closing(FIRST)) == "--op delete --mode conn --tid 1 --sid 4 --cid 0"


def test_a_connection_whose_address_is_not_known_is_unwelcome() -> None:
    unknown = Connection("1", "0", None)
    assert tgt.unwelcome(Access(tgt.wanted(CLIENTS), (unknown,)), CLIENTS) == [unknown]


def test_nobody_is_let_in_where_nobody_may_come_in() -> None:
    assert tgt.wanted({}) == frozenset()
    assert tgt.unwelcome(Access(frozenset(), (FIRST,)), {}) == [FIRST]


RULES = [*tgt.wanted(CLIENTS), "ALL", "10.0.0.1"]


@given(st.frozensets(st.sampled_from(RULES)), st.sets(st.sampled_from(sorted(CLIENTS))))
def test_the_orders_lead_from_any_acl_to_the_wanted_one(rules: frozenset[str], nodes: set[str]) -> None:
    clients = {node: CLIENTS[node] for node in nodes}
    held = set(rules)
    for _, operation, *_, rule in tgt.acl_orders(Access(rules), clients):
        held.discard(rule) if operation == "unbind" else held.add(rule)
    assert held == tgt.wanted(clients)
