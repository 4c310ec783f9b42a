"""What is said of a node whose agent does not answer."""

from __future__ import annotations

from typing import Any

import pytest

from mooring.apiserver.transport.silent_nodes import silent

SINCE = "2030-01-01T00:00:00Z"
HEARD = "2030-01-01T00:01:00Z"


def said_of(status: str | None, *, since: str = SINCE, taints: tuple[str, ...] = ()) -> str:
    condition = {"type": "Ready", "status": status, "lastTransitionTime": since, "lastHeartbeatTime": HEARD}
    node: dict[str, Any] = {
        "metadata": {"name": "n"},
        "spec": {"taints": [{"key": key} for key in taints]},
        "status": {"conditions": [condition] if status else []},
    }
    return str(silent("n", node, OSError("refused")))


def test_of_a_silent_node_it_says_since_when_and_where_more_is_to_be_seen():
    assert said_of("Unknown") == (
        f'the agent of node "n" does not answer; the node has been silent since {SINCE}, so that it is not known what '
        "still runs there (mooring why node/n): refused"
    )


def test_it_says_that_the_node_was_declared_dead():
    assert "and was declared out of service" in said_of(
        "Unknown", taints=("node.kubernetes.io/out-of-service",)
    )


@pytest.mark.parametrize(
    ("status", "words"),
    [
        ("True", f"although the node is still Ready; its last report was at {HEARD}: refused"),
        ("False", f"the node says since {SINCE} that it is not ready: refused"),
        (None, "the node has been silent, so that"),
    ],
)
def test_what_the_node_says_is_beside_the_error(status: str | None, words: str):
    assert words in said_of(status)


@pytest.mark.parametrize("forged", ["\x1b[2J", "2030-01-01T00:00:00Z\n", "yesterday"])
def test_what_is_no_time_is_not_passed_on(forged: str):
    assert forged not in said_of("Unknown", since=forged)


def test_an_error_without_words_is_named_by_its_kind():
    assert str(silent("n", {}, TimeoutError())).endswith(": TimeoutError")
