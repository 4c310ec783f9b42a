"""What peers have against a fence: a veto that expires, and a number that must not hear the node."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from hypothesis import Phase, given, settings
from hypothesis import strategies as st

from mooring.controllers.fencing.deciding_nodes import decide_node, decide_request
from mooring.controllers.fencing.decisions import Begin
from mooring.controllers.fencing.detection import (
    Company,
    Held,
    Poll,
    Signal,
    Stakes,
    Verdict,
    Vote,
    held_by_peers,
)
from mooring.kube.objects import Node, ObjectMeta
from mooring.kube.objects.fencing import Detector, FencePolicy, FencePolicySpec, PeerRules, Rung
from mooring.volumes.peers import Heard

YES, NO, OTHER = Heard.YES, Heard.NO, Heard.ANOTHER_BOOT


def policy(peers: PeerRules | None) -> FencePolicy:
    return FencePolicy(
        metadata=ObjectMeta(name="p"), spec=FencePolicySpec(peers=peers, ladder=(Rung(mechanism="bmc"),))
    )


def poll(*votes: tuple[Heard, float], asked: int = 0, patience: float = 0.0) -> Poll:
    names = tuple(f"n{number}" for number in range(max(asked, len(votes))))
    made = tuple(Vote(name, heard, age) for name, (heard, age) in zip(names, votes, strict=False))
    return Poll(names, patience, made)


def code(rules: PeerRules | None, found: Poll, *, starts: bool = True) -> str:
    held = held_by_peers("a", policy(rules), found, starts=starts)
    return held.reason.code if held is not None else ""


VETO, TWO = PeerRules(), PeerRules(required=2)
ALONE = PeerRules(veto=False, required=2)


@pytest.mark.parametrize(
    ("rules", "found", "expected"),
    [
        (None, poll((YES, 1)), ""),
        (VETO, poll((YES, 1), (NO, 1)), "HeardByPeers"),
        (VETO, poll((YES, 29.9)), "HeardByPeers"),
        (VETO, poll((YES, 30)), ""),
        (VETO, poll((NO, 1), (NO, 1)), ""),
        (VETO, poll((OTHER, 1)), ""),
        (VETO, poll(), ""),
        (VETO, poll((NO, 1), asked=2, patience=5), "PeersAsked"),
        (VETO, poll((NO, 1), (NO, 1), patience=5), ""),
        (VETO, poll(asked=2), ""),
        (TWO, poll((NO, 1), asked=2), "PeersMissing"),
        (TWO, poll((NO, 1), (OTHER, 1)), "PeersMissing"),
        (TWO, poll((NO, 1), (NO, 30)), "PeersMissing"),
        (TWO, poll((NO, 1), (NO, 1)), ""),
        (TWO, poll((NO, 1), (NO, 1), (YES, 1)), "HeardByPeers"),
        (TWO, poll(), "PeersMissing"),
        (ALONE, poll((NO, 1), (NO, 1), (YES, 1)), ""),
        (ALONE, poll((NO, 1), (NO, 1), asked=5, patience=5), ""),
        (ALONE, poll((NO, 1), asked=5, patience=5), "PeersAsked"),
    ],
)
def test_peers_veto_until_their_word_expires_and_are_needed_where_the_policy_says_so(
    rules: PeerRules | None, found: Poll, expected: str
):
    assert code(rules, found) == expected


def test_what_another_detector_asks_for_needs_no_number_and_is_vetoed_all_the_same():
    assert code(TWO, poll((NO, 1)), starts=False) == ""
    assert code(TWO, poll((YES, 1)), starts=False) == "HeardByPeers"


def test_a_veto_is_looked_at_again_when_the_last_of_it_expires():
    held = held_by_peers("a", policy(VETO), poll((YES, 25), (YES, 10)))
    assert held is not None
    assert held.after == 20


LOST = [Signal(Detector(), Verdict.LOST, 60, "Ready is Unknown")]
NODE = Node(metadata=ObjectMeta(name="a"))  # type: ignore[arg-type]


def decided(found: Poll, rules: PeerRules | None = VETO, signals: list[Signal] = LOST) -> Begin:
    stakes = Stakes(("a volume",))
    return decide_node(NODE, [policy(rules)], signals, Company(3, ()), stakes, found).action


def test_a_veto_holds_the_fence_of_a_node_and_one_that_was_asked_for():
    assert decided(poll((YES, 1))) is Begin.HOLD
    assert decided(poll((NO, 1))) is Begin.FENCE
    asked = decide_request(NODE, [policy(VETO)], LOST, Company(3, ()), poll((YES, 1)))
    assert asked.action is Begin.HOLD


VOTES = st.tuples(st.sampled_from(Heard), st.floats(0, 60))
POLLS = st.builds(
    lambda votes, silent, patience: poll(*votes, asked=len(votes) + silent, patience=patience),
    st.lists(VOTES, max_size=5),
    st.integers(0, 2),
    st.sampled_from([0.0, 0.0, 4.0]),
)
RULES = st.builds(
    PeerRules, veto=st.booleans(), required=st.integers(0, 5), expires_seconds=st.sampled_from([10.0, 30.0])
)
Rule = Callable[..., Held | None]


def holds(rule: Rule, rules: PeerRules, found: Poll) -> None:
    """Whatever peers say: what has expired counts for nothing, a veto and a missing number hold."""
    live = [each for each in found.votes if each.age < rules.expires_seconds]
    held = rule("a", policy(rules), found)
    if rules.veto and any(each.heard is YES for each in live):
        assert held is not None, "a veto"
    if sum(each.heard is NO for each in live) < rules.required:
        assert held is not None, "a number that is missing"
    fresh = found._replace(votes=tuple(live))
    assert (held is None) == (rule("a", policy(rules), fresh) is None), "what has expired counts"
    if not found.patience and not rules.required and not any(each.heard is YES for each in live):
        assert held is None, "silence holds nothing for ever"


@settings(max_examples=400)
@given(RULES, POLLS)
def test_no_fence_begins_against_a_veto_or_without_its_number(rules: PeerRules, found: Poll):
    holds(held_by_peers, rules, found)


@given(POLLS)
def test_no_word_of_peers_begins_a_fence_of_a_node_that_is_not_lost(found: Poll):
    healthy = [Signal(Detector(), Verdict.HEALTHY, 60, "Ready is True")]
    assert decided(found, PeerRules(required=1), healthy) is Begin.NO


def _never_expires(node: str, its: FencePolicy, found: Poll) -> Held | None:
    fresh = tuple(each._replace(age=0.0) for each in found.votes)
    return held_by_peers(node, its, found._replace(votes=fresh))


def _no_veto(node: str, its: FencePolicy, found: Poll) -> Held | None:
    deaf = tuple(each for each in found.votes if each.heard is not YES)
    return held_by_peers(node, its, found._replace(votes=deaf))


def _silence_counts(node: str, its: FencePolicy, found: Poll) -> Held | None:
    known = {each.peer for each in found.votes}
    silent = tuple(Vote(each, NO, 0.0) for each in found.asked if each not in known)
    return held_by_peers(node, its, found._replace(votes=(*found.votes, *silent)))


def _another_boot_counts(node: str, its: FencePolicy, found: Poll) -> Held | None:
    changed = tuple(each._replace(heard=NO if each.heard is OTHER else each.heard) for each in found.votes)
    return held_by_peers(node, its, found._replace(votes=changed))


@pytest.mark.parametrize("wrong", [_never_expires, _no_veto, _silence_counts, _another_boot_counts])
def test_a_wrong_rule_is_found_out(wrong: Rule):
    @settings(
        max_examples=600,
        database=None,
        derandomize=True,
        phases=(Phase.generate,),
        report_multiple_bugs=False,
    )
    @given(RULES, POLLS)
    def tried(rules: PeerRules, found: Poll) -> None:
        holds(wrong, rules, found)

    with pytest.raises(AssertionError):
        tried()
