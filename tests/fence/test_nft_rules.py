"""What nft is told, and what the kernel's listing is taken for."""

from __future__ import annotations

import copy
import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mooring.fence import programs
from mooring.fence.interface import Order, Outcome, Target, Volume
from mooring.fence.network import rules
from mooring.fence.network.nft import Nft, fence_of
from mooring.fence.network.rules import BadFence, Fence
from mooring.fence.programs import Ended, ProgramMissing

MAC = "02:00:00:00:00:01"
TARGET = Target("node-1", "uid", "boot", addresses=("10.88.1.1",), macs=(MAC,))


def order(target: Target = TARGET, token: str = "t", **given: str) -> Order:
    return Order(
        target, token, {"leave-open": "10.88.0.1:6443", **{k.replace("_", "-"): v for k, v in given.items()}}
    )


@pytest.mark.parametrize(
    ("bad", "wrong"),
    [
        (order(token=""), "no token"),
        (Order(TARGET, "t"), "leave-open is missing"),
        (order(leave_open="6443"), "neither ADDRESS:PORT nor `nothing`"),
        (order(leave_open="10.88.0.1:0"), "no port from 1"),
        (order(leave_open="10.88.1.1:6443"), "is of the machine that is to be cut off"),
        (order(networks="127.0.0.1"), "every host has such an address"),
        (order(networks="::1"), "every host has such an address"),
        (order(networks="10.0.0.0/8"), "a fence is for one machine"),
        (order(networks="10.88.1.1/24"), "is no IP address or network"),
        (order(networks="10.88.1.1 drop"), "is no IP address or network"),
        (order(ports='tap1" accept'), "is no name of an interface"),
        (order(reaches="10.88.0.3/24"), "has host bits set"),
        (order(namespace="../self"), "is no name of an interface"),
        (
            order(Target("n", "u", "b", addresses=("10.88.1.1",))),
            "under another address it would get through",
        ),
        (order(Target("n", "u", "b", macs=("ff:ff:ff:ff:ff:ff",))), "is no MAC address of an interface"),
        (order(port="tap1"), "port is no parameter of it: did you mean ports?"),
    ],
)
def test_a_fence_that_would_cut_off_too_much_or_too_little_is_refused(bad: Order, wrong: str):
    assert any(wrong in each for each in Nft().problems(bad)), Nft().problems(bad)


def test_tables_of_two_fences_have_two_names():
    names = {rules.table("node-1", "a"), rules.table("node-1", "b"), rules.table("node-2", "a")}
    assert len(names) == 3


def listing(fence: Fence, family: str = "bridge") -> dict[str, Any]:
    """As nft lists it; what it says of a rule's match is left out."""
    found: list[dict[str, Any]] = [{"metainfo": {}}, {"table": {"family": family, "name": "x", "handle": 1}}]
    for chain in rules.chains(fence, family):
        hook = {"type": "filter", "hook": chain.hook, "prio": rules.PRIORITY} if chain.hook else {}
        found.append({"chain": {"family": family, "table": "x", "name": chain.name, **hook}})
        for rule in chain.rules:
            verdict: dict[str, Any] = (
                {rule.does: None} if rule.does in ("drop", "accept") else {"goto": {"target": rule.does}}
            )
            of = {"family": family, "table": "x", "chain": chain.name, "comment": rule.comment}
            found.append({"rule": {**of, "expr": [{"counter": {"packets": 2, "bytes": 9}}, verdict]}})
    return {"nftables": found}


def test_only_a_whole_fence_counts():
    fence = fence_of(order(ports="tap1", networks="fd00::/64"))
    whole = listing(fence)
    assert rules.found(whole, "bridge", "x", fence) == rules.Found(True, True, (2, 2))
    for place in range(1, len(whole["nftables"])):
        less = {"nftables": whole["nftables"][:place] + whole["nftables"][place + 1 :]}
        assert not rules.found(less, "bridge", "x", fence).complete
        changed = copy.deepcopy(whole)
        [(kind, entry)] = changed["nftables"][place].items()
        match kind:
            case "rule":
                entry["expr"][1] = {"continue": None}
            case "chain":
                entry["prio" if "hook" in entry else "name"] = 5
            case _:
                entry["flags"] = "dormant"
        assert not rules.found(changed, "bridge", "x", fence).complete, entry
    assert rules.found(whole, "inet", "x", fence) == rules.found(None, "bridge", "x", fence) == rules.Found()
    more = {"nftables": [*whole["nftables"], whole["nftables"][-1]]}
    assert not rules.found(more, "bridge", "x", fence).complete


JSON = st.recursive(
    st.none()
    | st.integers()
    | st.text()
    | st.sampled_from(["rule", "table", "chain", "expr", "dst", "lladdr"]),
    lambda inner: st.lists(inner) | st.dictionaries(st.text() | st.sampled_from(["nftables", "rule"]), inner),
)


@given(JSON)
def test_any_listing_is_read(answer: Any):
    fence = fence_of(order(ports="tap1"))
    for family in rules.FAMILIES:
        assert not rules.found(answer, family, "x", fence).complete
    for look in (rules.strangers, rules.elsewhere):
        assert look(answer, fence) == []


def test_another_machine_with_the_address_is_seen():
    fence = fence_of(order(ports="tap1", networks="10.88.1.0/24"))
    said = '[{"dst":"10.88.1.1","lladdr":"02:00:00:00:00:09","state":["STALE"]},{"dst":"10.88.1.2","lladdr":"x"}]'
    assert rules.strangers(json.loads(said), fence) == ["10.88.1.1 is at 02:00:00:00:00:09"]
    assert rules.strangers(json.loads(said.replace("09", "01")), fence) == []
    assert rules.strangers(json.loads(said.replace("STALE", "FAILED")), fence) == []
    at = [{"mac": MAC, "ifname": "tap2", "master": "br0"}, {"mac": MAC, "ifname": "tap1", "master": "br0"}]
    assert rules.elsewhere(at, fence) == [f"{MAC} is at tap2"]
    assert rules.own([{"address": MAC, "addr_info": [{"local": "10.88.1.7"}]}], fence) == ["10.88.1.7", MAC]


@given(st.text())
def test_any_text_is_a_part_of_a_fence_or_refused(text: str):
    for read in (rules.mac, rules.network, rules.port, rules.way):
        try:
            found = str(read(text))
        except BadFence:
            continue
        assert not set('";{}\n') & set(found)


REACHES = {"reaches": "10.88.0.0/24,10.99.0.0/16,fd00::/64"}


@pytest.mark.parametrize(
    ("server", "given", "covered"),
    [
        ("10.88.0.3:3260", REACHES, True),
        ("[fd00::3]:3260", REACHES, True),
        ("10.88.0.3:3260", {}, False),
        ("10.89.0.3:3260", REACHES, False),  # by another way, for all that is known
        ("10.88.0.1:3260", REACHES, False),  # the API server's address: a way is open
        ("10.88.0.1:3260", {**REACHES, "leave_open": "nothing"}, True),
        ("10.88.1.1:3260", {"reaches": "10.88.0.0/16"}, False),  # its own disk
        ("10.99.3.4:3260", {**REACHES, "networks": "10.99.3.4"}, False),  # its own pod's
        ("127.0.0.1:3260", {"reaches": "127.0.0.0/8"}, False),
        ("storage.example.com:3260", REACHES, False),
        ("10.88.0.3", REACHES, False),
        ("", REACHES, False),
        ("10.88.0.3:3260", {"reaches": "10.88.0.3/24"}, False),  # a network that cannot be read
    ],
)
def test_a_volume_is_covered_where_nothing_but_what_is_cut_leads_to_its_server(
    server: str, given: dict[str, str], covered: bool
):
    assert Nft().covers(order(**given), Volume("iqn.2026-01.dev.mooring:one,1", server)) is covered


@given(st.text(), st.text())
def test_whatever_a_server_and_a_network_are_called_is_judged(server: str, reaches: str):
    assert isinstance(Nft().covers(order(reaches=reaches), Volume("v", server)), bool)


@pytest.mark.parametrize(
    ("loading", "outcome"),
    [
        (Ended(1, errors="Error: syntax error"), Outcome.NOT_FENCED),
        (Ended(-9), Outcome.UNKNOWN),  # the kernel's OOM killer, say: by then they may have been loaded
        (Ended(None), Outcome.UNKNOWN),
        (ProgramMissing("nft cannot be executed: Cannot allocate memory"), Outcome.UNKNOWN),
    ],
)
async def test_only_an_nft_that_says_no_has_loaded_nothing(
    monkeypatch: pytest.MonkeyPatch, loading: Ended | ProgramMissing, outcome: Outcome
):
    monkeypatch.setattr(programs, "missing", lambda needed: [])

    async def run(words: list[str], **options: Any) -> Ended:
        if not options.get("given"):
            return Ended(0, "[]" if "-j" in words else "")
        if isinstance(loading, ProgramMissing):
            raise loading
        return loading

    assert (await Nft(run).fence(order())).outcome is outcome
