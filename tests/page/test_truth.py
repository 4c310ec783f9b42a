"""Reported against true: what counts as a difference, and what is merely on its way."""

from __future__ import annotations

import pytest

from mooring.page.truth import Seen, node_truth, volume_truth


@pytest.mark.parametrize(
    ("phase", "power", "differs"),
    [
        ("ready", "on", ""),
        ("ready", "off", "its machine has no power"),
        ("silent", "off", ""),
        ("silent", "on", "its machine runs, and may still write"),
        ("gone", "on", "its machine runs"),
    ],
)
def test_a_node(phase: str, power: str, differs: str):
    row = node_truth("n", {"phase": phase}, Seen({"n": power}))
    assert row["true"] == power
    assert row.get("differs", "") == differs


def test_what_is_wrong_with_a_machine_is_told_beside_its_power():
    row = node_truth(
        "n", {"phase": "ready"}, Seen({"n": "on"}, troubles={"n": "cut: api (both ways)", "m": "frozen"})
    )
    assert (row["true"], row["trouble"]) == ("on", "cut: api (both ways)")
    assert "differs" not in row


def test_of_a_node_that_is_no_machine_of_ours_nothing_true_is_said():
    assert node_truth("n", {"phase": "ready"}, Seen({"m": "on"})) == {"phase": "ready"}


@pytest.mark.parametrize(
    ("reported", "true", "power", "differs"),
    [
        ("in-use", "mounted", "on", ""),
        ("in-use", "attached", "on", ""),  # published before it is mounted
        ("attaching", "attached", "on", ""),
        ("attaching", None, "on", ""),
        ("attached", None, "on", "not attached to n"),
        ("in-use", None, "on", "not attached to n"),
        ("detaching", "attached", "on", ""),
        ("detaching", "mounted", "on", "still mounted on n"),
        (None, "attached", "on", "attached to n, and nothing says so"),
        (None, "mounted", "on", "mounted on n, and nothing says so"),
        ("in-use", "attached", "off", "n has no power: nothing is mounted there"),
        ("attached", "attached", "off", ""),
    ],
)
def test_a_volume_on_a_node(reported: str | None, true: str | None, power: str, differs: str):
    row = {"phase": "bound", "on": [{"node": "n", "state": reported}] if reported else []}
    shown = volume_truth("v", row, Seen({"n": power}, {"v": {"n": true} if true else {}}))
    assert shown.get("differs", "") == differs


def test_a_volume_that_two_nodes_have_mounted_is_said_first():
    row = {"phase": "in-use", "on": [{"node": "a", "state": "in-use"}]}
    shown = volume_truth("v", row, Seen({}, {"v": {"a": "mounted", "b": "mounted"}}))
    assert shown["differs"] == "mounted on 2 nodes; mounted on b, and nothing says so"
