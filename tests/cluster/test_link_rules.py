"""The rules of cuts: what is asked for is in their text, and what is in the kernel is read back from them."""

from __future__ import annotations

import json
from ipaddress import IPv4Address, IPv4Network
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mooring.cluster.machines import link_delay
from mooring.cluster.machines.interface import Cut, Direction, Far, Quality
from mooring.cluster.machines.link_rules import (
    Ends,
    Group,
    Tap,
    Trouble,
    ruleset,
    table,
    tables_of,
    trouble_of,
    with_cut,
    with_loss,
    words,
)
from mooring.cluster.machines.listening import listening_ports

NAME = table(Path("/data"), "node-1")
ENDS = Ends(IPv4Network("10.88.0.0/16"), 7443, (IPv4Address("10.88.0.9"),))
GROUP = Group("unified/mooring/c/node-1", 3, IPv4Network("10.88.3.0/24"), (4000,), (4000, 8080))
MACHINES = (Tap("mot123456"), GROUP, Group("unified/mooring/c/node-1", 3))

cuts = st.builds(Cut, st.sampled_from(Far), st.sampled_from(Direction))
losses = st.one_of(st.just(0.0), st.integers(1, 1000).map(lambda promille: promille / 1000))


def listing(text: str) -> Any:
    """As the kernel lists the rules of a text: here, their comments alone."""
    comments = [line.partition('comment "')[2].rstrip('"') for line in text.splitlines() if "comment" in line]
    rules: list[Any] = [{"metainfo": {}}, *({"rule": {"comment": each}} for each in comments)]
    return {"nftables": rules}


@given(st.lists(cuts, max_size=6), losses, st.sampled_from(MACHINES))
def test_what_was_cut_is_read_back_from_the_rules(said: list[Cut], loss: float, machine: Tap | Group) -> None:
    trouble = with_loss(Trouble(), Quality(loss=loss))
    for cut in said:
        trouble = with_cut(trouble, cut)
    assert trouble_of(listing(ruleset(NAME, machine, ENDS, trouble))) == trouble


@given(st.lists(cuts, max_size=6), st.sampled_from(MACHINES))
def test_a_ruleset_takes_the_place_of_the_one_before_and_changes_no_other_table(
    said: list[Cut], machine: Tap | Group
) -> None:
    trouble = Trouble()
    for cut in said:
        trouble = with_cut(trouble, cut)
    text = ruleset(NAME, machine, ENDS, trouble)
    assert text.startswith(f"table bridge {NAME} {{}}\ndelete table bridge {NAME}\n")
    assert {line.split()[2] for line in text.splitlines() if line.startswith("table")} == {NAME}
    assert text.count("{") == text.count("}")


def test_both_directions_are_both_of_them() -> None:
    one_by_one = with_cut(with_cut(Trouble(), Cut(Far.API, Direction.IN)), Cut(Far.API, Direction.OUT))
    assert with_cut(Trouble(), Cut(Far.API)) == one_by_one


@pytest.mark.parametrize("machine", MACHINES)
def test_what_is_not_cut_is_in_no_rule(machine: Tap | Group) -> None:
    text = ruleset(NAME, machine, ENDS, with_cut(Trouble(), Cut(Far.STORAGE, Direction.OUT)))
    dropping = [line for line in text.splitlines() if "drop" in line]
    assert dropping
    assert all(line == 'ip daddr @storage drop comment "cut storage out"' for line in dropping)
    assert "drop" not in ruleset(NAME, machine, ENDS, Trouble())


def test_a_person_is_told_what_is_wrong() -> None:
    trouble = with_cut(with_cut(Trouble(loss=0.1), Cut(Far.PEERS)), Cut(Far.API, Direction.OUT))
    assert words(trouble, 0.2) == [
        "cut from the API server (out)",
        "cut from its peers",
        "loses 10% of its packets",
        "delayed by 200 ms",
    ]
    assert words(Trouble(loss=0.0001)) == ["loses 0.01% of its packets"]
    assert words(Trouble(loss=1)) == ["loses 100% of its packets"]
    assert words(Trouble()) == []


@pytest.mark.parametrize("name", ["", "Node", "a b", 'x"', "x{", "x;y", "-x", "x" * 64, "x\ny", "é"])
def test_a_name_that_no_node_has_makes_no_table(name: str) -> None:
    with pytest.raises(ValueError, match="no name of a node"):
        table(Path("/data"), name)


def test_the_tables_of_a_cluster_are_known_by_their_names() -> None:
    said: dict[str, Any] = {
        "nftables": [
            {"metainfo": {}},
            {"table": {"family": "inet", "name": NAME}},
            {"table": {"family": "inet", "name": table(Path("/other"), "node-1")}},
            {"table": {"family": "ip", "name": "filter"}},
        ]
    }
    assert tables_of(said, Path("/data")) == [("inet", NAME)]


json_values = st.recursive(
    st.one_of(st.none(), st.booleans(), st.integers(), st.floats(), st.text(max_size=12)),
    lambda below: st.one_of(
        st.lists(below, max_size=4),
        st.dictionaries(
            st.sampled_from(["nftables", "rule", "table", "comment", "name", "options", "delay"]), below
        ),
    ),
    max_leaves=12,
)
comments = st.sampled_from(
    ["cut all in", "cut x in", "cut api up", "loss nan", "loss -1", "loss 9", "loss", "cut", ""]
)


@given(
    st.one_of(
        json_values, st.lists(comments).map(lambda said: listing("\n".join(f'comment "{c}"' for c in said)))
    )
)
def test_whatever_nft_says_is_read_or_passed_over(said: Any) -> None:
    trouble = trouble_of(said)
    assert trouble.cuts <= {Cut(Far.ALL, Direction.IN)}
    assert trouble.loss == 0
    assert tables_of(said, Path("/data")) == []


@given(st.one_of(st.text(), json_values.map(json.dumps)))
def test_whatever_tc_says_is_a_delay_or_none(said: str) -> None:
    assert 0 <= link_delay.delay_of(said) < 3600


def test_a_delay_is_read_from_what_tc_says() -> None:
    said = '[{"kind":"ingress"},{"kind":"netem","root":true,"options":{"limit":1000,"delay":{"delay":0.2,"jitter":0}}}]'
    assert link_delay.delay_of(said) == pytest.approx(0.2)
    assert link_delay.delay_of("[]") == 0
    assert "delay 200000us" in link_delay.script(0.2)
    assert "add" not in link_delay.script(0)


def test_ports_are_those_at_which_the_processes_listen(tmp_path: Path) -> None:
    (tmp_path / "net").mkdir()
    head = (
        "  sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   uid  timeout inode\n"
    )

    def line(address: str, port: int, state: str, inode: int) -> str:
        return f"   0: {address}:{port:04X} 00000000:0000 {state} 0:0 00:0 0 0 0 {inode} 1\n"

    (tmp_path / "net/tcp").write_text(
        head
        + line("0100007F", 4000, "0A", 11)
        + line("00000000", 8080, "0A", 12)
        + line("0100007F", 5000, "01", 13)
        + line("0100007F", 6000, "0A", 14)
    )
    (tmp_path / "net/tcp6").write_text(head + line("0" * 32, 9000, "0A", 15))
    (tmp_path / "7/fd").mkdir(parents=True)
    for number in (11, 12, 13, 15):
        (tmp_path / "7/fd" / str(number)).symlink_to(f"socket:[{number}]")
    (tmp_path / "7/fd/3").symlink_to("/dev/null")
    assert listening_ports([7, 8], tmp_path) == {4000: True, 8080: False, 9000: False}
