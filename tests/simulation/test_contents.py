"""What pods see of ConfigMaps, Secrets, their own labels and tokens: S46 on traces, and in clusters."""

from __future__ import annotations

import base64
from typing import Any

import pytest
from msgspec.structs import replace
from tests.simulation.test_invariants import (
    CUT,
    SHOWS,
    STARTED,
    Events,
    config_map,
    found,
    gone,
    shown,
    wait,
    written,
)

from mooring.apiserver.access.account_claims import ISSUER
from mooring.node.volumes.account_tokens import AccountTokens
from mooring.node.volumes.content import ContentWatches
from mooring.node.volumes.manager import VolumeManager
from mooring.simulation.cluster.scenario import DEFAULT, PlanStep, Scenario
from mooring.simulation.cluster.swarm import drawn
from mooring.simulation.parts.content_plugins import ShownToken
from mooring.simulation.run import play

RUNS: Events = [config_map("0"), SHOWS, shown("0"), STARTED]
GONE = gone("configmaps", "default/c", {})
OLD_S = 541.0
"""Nine tenths of a token's life, and a second."""


def test_files_of_two_editions_are_found_and_what_the_object_has_never_said():
    assert found([*RUNS, config_map("1"), shown("0", copy="1")]) == ["S46"]
    assert found([*RUNS, shown("2")]) == ["S46"]


def test_an_older_edition_after_a_newer_one_is_found_unless_it_is_written_again():
    newer = [*RUNS, config_map("1"), shown("1")]
    assert found([*newer, shown("0")]) == ["S46"]
    assert found([*newer, config_map("0"), shown("0")]) == []


def test_what_is_said_again_may_have_been_read_before_or_after_what_came_between():
    """As a pod's labels: users strip one, and its controller gives it back."""
    again: Events = [*RUNS, config_map("1"), config_map("0"), shown("0"), shown("1"), shown("0")]
    assert found(again) == []
    assert found([*again, shown("1")]) == ["S46"]


@pytest.mark.parametrize("fault", [False, True])
def test_what_was_over_long_ago_is_not_what_an_agent_reads_but_under_a_fault(fault: bool):
    cut: Events = [CUT] if fault else []
    again: Events = [*RUNS, *cut, config_map("1"), config_map("0"), wait(11), shown("0")]
    assert found([*again, shown("1")]) == ([] if fault else ["S46"])


def test_what_is_said_again_need_not_be_shown_anew():
    again: Events = [*RUNS, config_map("1"), wait(1), config_map("0"), wait(30)]
    assert found([*again, SHOWS]) == []
    assert found([*again, config_map("1"), wait(9), SHOWS]) == []
    assert found([*again, config_map("1"), wait(11), SHOWS]) == ["S46"]


def test_that_it_is_said_again_hides_no_change_that_was_not_followed_in_time():
    looked: Events = [wait(9), SHOWS]
    assert found([*RUNS, config_map("1"), *looked, wait(2), config_map("0"), *looked]) == ["S46"]


def test_what_is_gone_is_not_waited_for_until_it_is_there_again():
    away = [*RUNS, GONE, wait(60), SHOWS]
    assert found(away) == []
    assert found([*away, config_map("1"), wait(9), SHOWS]) == []
    assert found([*away, config_map("1"), wait(11), SHOWS]) == ["S46"]


def test_a_fault_of_its_node_explains_that_a_change_is_not_seen():
    assert found([*RUNS, CUT, config_map("1"), wait(60), SHOWS]) == []


@pytest.mark.parametrize("ends", [False, True])
def test_a_pod_that_ends_sees_no_change_any_more(ends: bool):
    ended = ("truth.ended", STARTED[1])
    late: Events = [config_map("1"), wait(11), SHOWS]
    assert found([*RUNS, *([ended] if ends else []), *late]) == ([] if ends else ["S46"])


def test_what_a_running_pod_has_is_not_taken_from_it():
    hidden = ("truth.hidden", {"uid": "a", "node": "n1", "volume": "v"})
    assert found([*RUNS, hidden]) == ["S46"]
    assert found([*RUNS, ("truth.ended", STARTED[1]), hidden]) == []


# --- volumes that show several things


def of_pod(labels: dict[str, str]) -> tuple[str, dict[str, Any]]:
    """A pod with a volume of its labels, a Secret, and a token."""
    sources = [
        {"downwardAPI": {"items": [{"path": "labels", "fieldRef": {"fieldPath": "metadata.labels"}}]}},
        {"secret": {"name": "s", "items": [{"key": "edition", "path": "secret/edition"}]}},
        {"serviceAccountToken": {"path": "token", "expirationSeconds": 600}},
    ]
    spec = {"volumes": [{"name": "v", "projected": {"sources": sources}}]}
    metadata = {"uid": "a", "name": "db-0", "labels": labels}
    return written("pods", "default/db-0", {"metadata": metadata, "spec": spec})


def token(
    since: float = 0.0, identity: str = "t", pod_uid: str = "a", lasts: float = 600.0, of: str = ISSUER
) -> ShownToken:
    return ShownToken(since, since + lasts, identity, pod_uid, (of,))


def identity(labels: str, of: ShownToken | None, **more: Any) -> tuple[str, dict[str, Any]]:
    files = {"labels": labels, "secret/edition": "0"} | ({"token": of} if of is not None else {})
    return shown("", **{"_files": files} | more)


SECRET = written("secrets", "default/s", {"data": {"edition": base64.b64encode(b"0").decode()}})
LABELLED = of_pod({"b": 'say "b"', "a": "1"})
LINES = 'a="1"\nb="say \\"b\\""'
HAS: Events = [SECRET, LABELLED, identity(LINES, token()), STARTED]


def test_labels_are_shown_sorted_and_escaped():
    assert found(HAS) == []
    assert found([*HAS, identity('b="say "b""\na="1"', token())]) == ["S46"]


def test_a_token_is_that_of_the_pod_and_as_it_asks_for_it():
    assert found([*HAS, identity(LINES, token(lasts=900.0))]) == ["S46"]
    assert found([*HAS, identity(LINES, token(of="vault"))]) == ["S46"]
    assert found([*HAS, identity(LINES, token(pod_uid="b"))]) == ["S46"]
    assert found([*HAS, identity(LINES, None)]) == ["S46"]


def test_a_token_is_renewed_before_it_is_old_and_not_while_it_is_young():
    renewed: Events = [wait(490), identity(LINES, token(490.0, "u")), wait(OLD_S - 490), LABELLED]
    assert found([*HAS, wait(OLD_S - 2), LABELLED]) == []
    assert found([*HAS, wait(OLD_S + 10), LABELLED]) == ["S46"]
    assert found([*HAS, *renewed]) == []
    early: Events = [wait(300), identity(LINES, token(300.0, "u"))]
    assert found([*HAS, *early]) == ["S46"]
    assert found([*HAS, wait(300), identity(LINES, token(300.0, "u"), life=2)]) == [], "another agent"


# --- in clusters

CONFIGURED = Scenario(
    nodes=2,
    sets={"conf": 3},
    workloads={"conf": "configured"},
    minutes=18,
    faults=0,
    actions=0,
    steps=(
        *(PlanStep(60.0 + number, "edit-content", "conf", 20.0, number % 3) for number in range(6)),
        PlanStep(150.0, "kill", "n0", 5.0),
        PlanStep(152.0, "edit-content", "conf"),
        PlanStep(200.0, "power-off", "n1", 30.0),
        PlanStep(300.0, "mount-fails", "n0", 5.0, how=1),
        PlanStep(301.0, "edit-content", "conf", how=1),
    ),
)


@pytest.mark.parametrize("driver", ["plugin", "csi", "ebs"])
def test_what_pods_see_follows_what_users_write(driver: str):
    outcome = play(1, replace(CONFIGURED, driver=driver))
    assert outcome.violations == []
    assert outcome.guarded["S46"] > 100


def test_agents_that_do_not_follow_are_found(monkeypatch: pytest.MonkeyPatch):
    with monkeypatch.context() as patched:
        patched.setattr(ContentWatches, "_notify", lambda watches, source: None)
        assert "S46" in play(1, CONFIGURED).invariants
    with monkeypatch.context() as patched:
        patched.setattr(VolumeManager, "_age", lambda manager, volume: None)
        assert "S46" in play(1, CONFIGURED).invariants


def test_an_agent_that_keeps_no_token_is_found(monkeypatch: pytest.MonkeyPatch):
    get = AccountTokens.get

    async def forgetful(tokens: AccountTokens, *asked: Any) -> Any:
        tokens._kept.clear()
        return await get(tokens, *asked)

    monkeypatch.setattr(AccountTokens, "get", forgetful)
    assert "S46" in play(1, CONFIGURED).invariants


def test_four_of_twenty_seeds_have_such_pods_and_most_of_them_users_who_change_what_they_show():
    for first in (0, 20, 40):
        found = [drawn(seed, DEFAULT) for seed in range(first, first + 20)]
        having = [each for each in found if "configured" in each.workloads.values()]
        assert len(having) >= 4
        assert sum(any(step.what == "edit-content" for step in each.steps) for each in having) >= 2
