"""What counts of what peers state: the present nonce, the very boot, peers that were asked, once."""

from __future__ import annotations

from random import Random

import msgspec
import pytest
from msgspec.structs import replace

from mooring.controllers.fencing.polls import LONGEST_S, PATIENCE_S, Polls
from mooring.kube.objects import Condition, ManagedMeta, Node, NodeStatus
from mooring.kube.objects.nodes import NodeSystemInfo
from mooring.volumes.peers import DOOR, Heard, Statement


def node(
    name: str, boot: str = "boot-1", *, ready: str = "True", door: str = "10.0.0.1:7000", uid: str = ""
) -> Node:
    return Node(
        metadata=ManagedMeta(name=name, uid=uid or f"uid-{name}", annotations={DOOR: door} if door else {}),
        status=NodeStatus(
            conditions=(Condition(type="Ready", status=ready),), node_info=NodeSystemInfo(boot_id=boot)
        ),
    )


LOST = node("a", ready="Unknown")
NODES = [LOST, node("b"), node("c")]


@pytest.fixture
def polls() -> Polls:
    found = Polls(Random(1))
    assert found.ask(LOST, NODES, 100.0, 15.0) == {"b", "c"}
    return found


def stated(polls: Polls, peer: str = "b", heard: Heard = Heard.YES, **changes: str) -> Statement:
    """As an honest agent answers what stands on its Node now."""
    (question,) = polls.questions_for(peer)
    made = Statement(question.node, question.boot_id, question.nonce, heard)
    return msgspec.structs.replace(made, **changes)


def votes(polls: Polls, now: float) -> dict[str, tuple[Heard, float]]:
    return {each.peer: (each.heard, each.age) for each in polls.about(LOST, now).votes}


def test_a_statement_is_as_old_as_its_arrival(polls: Polls):
    assert polls.stated("b", [stated(polls)], 103.0) == {"a"}
    assert votes(polls, 110.0) == {"b": (Heard.YES, 7.0)}


def test_those_that_have_not_answered_are_waited_for_a_while_after_the_first_question(polls: Polls):
    for peer in ("b", "c"):
        polls.stand(peer, 100.0)
    assert polls.about(LOST, 101.0).patience == PATIENCE_S - 1
    polls.ask(LOST, NODES, 115.0, 15.0)
    polls.stand("b", 115.0)
    assert polls.about(LOST, 115.0).patience == 0


def test_a_question_that_cannot_be_written_on_a_node_is_waited_for_longer_and_not_for_ever(polls: Polls):
    """140 of `fencing.yaml`: the API server refused the controller's writes of that Node for a while."""
    polls.stand("b", 100.0)
    assert polls.about(LOST, 100.0 + PATIENCE_S).patience > 0
    polls.stand("c", 110.0)
    assert polls.about(LOST, 111.0).patience == PATIENCE_S - 1
    assert Polls(Random(1)).about(LOST, 111.0).patience == 0


def test_a_peer_that_can_be_asked_from_now_on_is_asked_at_once_and_has_its_time(polls: Polls):
    """158 of `fencing-by-storage.yaml`: none could be asked when it was time to; a veto expired unasked."""
    for peer in ("b", "c"):
        polls.stand(peer, 100.0)
    assert polls.ask(LOST, NODES[:2], 116.0, 15.0) == {"b", "c"}, "one is away"
    assert polls.ask(LOST, NODES[:2], 118.0, 15.0) == set()
    assert polls.ask(LOST, NODES, 120.0, 15.0) == {"b", "c"}
    assert len(polls.questions_for("c")) == 1


def test_what_is_never_written_is_not_waited_for_any_more_after_a_while(polls: Polls):
    assert polls.about(LOST, 99.0 + LONGEST_S).patience == 1
    assert polls.about(LOST, 100.0 + LONGEST_S).patience == 0


@pytest.mark.parametrize("pause", [23.0, 130.0])
def test_after_a_pause_answers_are_waited_for_anew(polls: Polls, pause: float):
    """6110006 of `fencing-by-storage.yaml`: the budget had held the fence meanwhile, or the controller stood
    still. The node was fenced although its peers would have said that they hear it."""
    polls.stated("b", [stated(polls)], 103.0)
    now = 100.0 + pause
    polls.ask(LOST, NODES, now, 15.0)
    for peer in ("b", "c"):
        polls.stand(peer, now)
    assert polls.about(LOST, now + 1).patience == PATIENCE_S - 1


def test_a_peer_that_says_nothing_is_not_waited_for_for_ever(polls: Polls):
    """However often it is asked, and be it that the question is never written."""
    for asked in range(105, 160, 5):
        polls.ask(LOST, NODES, float(asked), 5.0)
    assert polls.about(LOST, 160.0).patience == 0


def test_a_lease_that_is_seen_again_makes_its_statement_no_younger(polls: Polls):
    said = stated(polls)
    polls.stated("b", [said], 103.0)
    assert polls.stated("b", [said], 109.0) == set()
    assert votes(polls, 110.0) == {"b": (Heard.YES, 7.0)}


def test_a_nonce_of_an_earlier_question_is_a_replay(polls: Polls):
    old = stated(polls)
    assert polls.ask(LOST, NODES, 115.0, 15.0) == {"b", "c"}
    assert polls.stated("b", [old], 116.0) == set()
    assert votes(polls, 116.0) == {}


def test_a_peer_changes_its_word_by_the_next_question_alone(polls: Polls):
    polls.stated("b", [stated(polls)], 101.0)
    assert polls.stated("b", [stated(polls, heard=Heard.NO)], 102.0) == set()
    polls.ask(LOST, NODES, 115.0, 15.0)
    polls.stated("b", [stated(polls, heard=Heard.NO)], 116.0)
    assert votes(polls, 116.0) == {"b": (Heard.NO, 0.0)}


@pytest.mark.parametrize(
    "changes", [{"nonce": "f" * 32}, {"boot_id": "boot-0"}, {"boot_id": "boot-2"}, {"node": "b"}]
)
def test_what_is_about_something_else_is_ignored(polls: Polls, changes: dict[str, str]):
    assert polls.stated("b", [stated(polls, **changes)], 101.0) == set()
    assert votes(polls, 101.0) == {}


@pytest.mark.parametrize("liar", ["a", "d"])
def test_who_was_not_asked_is_not_heard(polls: Polls, liar: str):
    assert polls.stated(liar, [stated(polls)], 101.0) == set()


def test_one_peer_has_one_word_however_often_it_says_it(polls: Polls):
    said = stated(polls)
    polls.stated("b", [said, said, msgspec.structs.replace(said, heard=Heard.NO)], 101.0)
    assert votes(polls, 101.0) == {"b": (Heard.YES, 0.0)}


@pytest.mark.parametrize(
    "other", [node("a", "boot-2", ready="Unknown"), node("a", ready="Unknown", uid="u2")]
)
def test_what_was_said_of_one_boot_says_nothing_of_another(polls: Polls, other: Node):
    polls.stated("b", [stated(polls)], 101.0)
    assert polls.about(other, 102.0).votes == ()
    polls.ask(other, NODES, 102.0, 15.0)
    assert polls.about(other, 102.0).votes == ()


def test_a_process_that_has_just_begun_knows_nothing_and_waits(polls: Polls):
    said = stated(polls)
    successor = Polls(Random(2))
    successor.ask(LOST, NODES, 120.0, 15.0)
    assert successor.stated("b", [said], 121.0) == set()
    assert successor.about(LOST, 121.0).patience > 0


def test_who_does_not_answer_the_api_server_or_has_no_door_is_not_asked():
    polls = Polls(Random(1))
    others = [LOST, node("b", ready="Unknown"), node("c", door=""), node("d")]
    assert polls.ask(LOST, others, 100.0, 15.0) == {"d"}


def test_a_node_whose_deletion_waits_is_asked_as_others_are():
    going = node("b")
    going = replace(going, metadata=replace(going.metadata, deletion_timestamp="2030-01-01T00:00:00Z"))
    assert Polls(Random(1)).ask(LOST, [LOST, going], 100.0, 15.0) == {"b"}


@pytest.mark.parametrize("lost", [node("a", ready="Unknown", door=""), node("a", "", ready="Unknown")])
def test_nothing_is_asked_about_a_node_that_could_not_answer(lost: Node):
    polls = Polls(Random(1))
    assert polls.ask(lost, NODES, 100.0, 15.0) == set()
    assert polls.about(lost, 100.0).asked == ()


def test_a_node_that_is_well_again_is_asked_about_no_more(polls: Polls):
    assert polls.forget("a") == {"b", "c"}
    assert polls.questions_for("b") == ()
    assert polls.about(LOST, 101.0).votes == ()


def test_an_agent_is_asked_about_five_nodes_at_the_most():
    polls, names = Polls(Random(1)), [f"n{number}" for number in range(9)]
    for name in names:
        polls.ask(node(name, ready="Unknown"), [node("b")], 100.0, 15.0)
    assert len(polls.questions_for("b")) == 5


def test_what_was_said_counts_on_while_nothing_is_asked_for_a_while_and_a_new_question_has_its_time(
    polls: Polls,
):
    """10300053 of `fencing.yaml`: a storm of a moment held the fence, and a peer's word was forgotten."""
    polls.stated("b", [stated(polls)], 103.0)
    assert polls.rest("a") == {"b", "c"}
    assert polls.questions_for("b") == ()
    assert votes(polls, 110.0) == {"b": (Heard.YES, 7.0)}
    assert polls.ask(LOST, NODES, 110.0, 15.0) == {"b", "c"}
    assert votes(polls, 111.0) == {"b": (Heard.YES, 8.0)}
    assert polls.about(LOST, 111.0).patience == LONGEST_S - 1
    assert polls.rest("z") == set()
