"""States near to one that a run has reached: they differ from it, are such as the rules are about, and what
production code answers there is judged."""

from __future__ import annotations

from inspect import signature
from random import Random

import pytest
from volume_states import STATES

from mooring.controllers.attachdetach.decide import decide
from mooring.controllers.attachdetach.release import ReleaseDecision, may_release
from mooring.controllers.attachdetach.state import Attachment, NodeState, Terms, VolumeState
from mooring.simulation.checks.second_opinions.attaching import QUESTIONS, decisions
from mooring.simulation.checks.second_opinions.near_states import DECISIONS, RELEASES
from mooring.simulation.checks.second_opinions.releasing import release


def states_near(state: VolumeState, number: int) -> list[VolumeState]:
    chance, asked = Random(7), signature(decide).bind(state)
    found = [DECISIONS.drawn(chance, asked) for _ in range(number)]
    return [each.arguments["state"] for each in found if each is not None]


@pytest.mark.parametrize("which", [*STATES])
def test_production_decides_as_the_rules_say_near_to_each_state(which: str):
    for each in states_near(STATES[which], 200):
        assert [*decisions(decide(each), each)] == []


def test_each_fact_is_changed_in_some_of_them():
    start = STATES["its node uses it"]
    found = [each for each in states_near(start, 2000) if each.attachments]
    for field in ("several_nodes", "demands", "attachments", "nodes", "terms", "lock"):
        assert any(getattr(each, field) != getattr(start, field) for each in found), field
    held = [each.attachments[0] for each in found]
    for field in ("attached", "marked", "deleting", "detached", "epoch", "node_uid", "created", "broken"):
        assert any(getattr(each, field) != getattr(start.attachments[0], field) for each in held), field
    assert any(len(each.attachments) == 2 for each in found)
    assert any(each.force_since for each in held)
    assert any(each.absent_since for each in held)
    assert any(each.evidence for each in held)


def test_a_node_says_the_same_of_itself_as_its_object():
    for each in states_near(STATES["its node uses it"], 500):
        for node in each.nodes.values():
            assert node.node is not None
            assert node.in_use == (each.volume in node.node.status.volumes_in_use)
            assert node.ready == node.node.ready


def releases_near(state: VolumeState, number: int) -> list[tuple[NodeState | None, Attachment, Terms]]:
    chance, held = Random(7), state.attachments[0]
    asked = signature(may_release).bind(state.nodes.get(held.node), held, state.terms)
    found = [RELEASES.drawn(chance, asked) for _ in range(number)]
    return [each.args for each in found if each is not None]  # type: ignore[misc]


@pytest.mark.parametrize("which", [name for name, state in STATES.items() if state.attachments])
def test_production_releases_as_the_rules_say_near_to_each_state(which: str):
    for each in releases_near(STATES[which], 300):
        assert [*release(may_release(*each), *each)] == []


@pytest.mark.parametrize("too_early_s", [0.5, 1.0])
def test_a_timer_that_is_over_a_moment_too_early_is_objected_to(too_early_s: float):
    def hasty(node: NodeState | None, held: Attachment, terms: Terms) -> ReleaseDecision:
        ages = {time: age + too_early_s for time, age in terms.ages.items()}
        return may_release(node, held, terms._replace(ages=ages))

    near = releases_near(STATES["its node uses it"], 300)
    assert any([*release(hasty(*each), *each)] for each in near)


def test_without_a_volumeattachment_there_is_none():
    assert states_near(STATES["it is wanted"], 50) == []


def test_the_rules_of_attaching_are_asked_near_to_what_is_reached():
    (question,) = QUESTIONS
    assert question.near is DECISIONS


def test_a_state_is_not_changed_by_that_another_is_made_of_it():
    start = STATES["its node uses it"]
    before = repr(start)
    states_near(start, 100)
    assert repr(start) == before
    assert decide(start)
