"""The events for users: in upstream's words, and without names of other namespaces' pods."""

from __future__ import annotations

import hypothesis.strategies as st
import pytest
from decide_values import ATTACHED, NODE
from hypothesis import given
from msgspec.structs import replace

from mooring.controllers.attachdetach.decide import decide
from mooring.controllers.attachdetach.events import multi_attach, used_by
from mooring.controllers.attachdetach.state import Demand, VolumeState


@pytest.mark.parametrize(
    ("users", "text"),
    [
        ([], "Volume is already exclusively attached to one node and can't be attached to another"),
        (["default/a"], "Volume is already used by pod(s) a"),
        (["default/a", "default/b"], "Volume is already used by pod(s) a, b"),
        (["default/a", "other/x"], "Volume is already used by pod(s) a and 1 pod(s) in different namespaces"),
        (["other/x", "third/y"], "Volume is already used by 2 pod(s) in different namespaces"),
    ],
)
def test_the_four_forms_of_the_multi_attach_error(users: list[str], text: str):
    assert used_by("default/waiting", users) == text


@given(st.lists(st.sampled_from(["default/near", "secret/hidden", "other/hidden-too"])))
def test_pods_of_other_namespaces_are_never_named(users: list[str]):
    text = used_by("default/waiting", users)
    assert "hidden" not in text
    assert "secret" not in text


def test_what_keeps_the_volume_where_nobody_wants_it_is_told_too():
    silent = {"ready": "Unknown", "in_use": True}
    nodes = {"n0": replace(NODE, **silent), "n1": replace(NODE, name="n1", uid="uid-n1")}
    state = VolumeState(
        "example.com/disk/d1", False, (Demand("n1", ("default/q",), "1", True),), (ATTACHED,), nodes
    )
    blocked = next(each for each in decide(state) if each.node == "n1")
    event = multi_attach("pv", "default/q", blocked, state)
    assert event.message.startswith(
        'Multi-Attach error for volume "pv" Volume is already exclusively attached'
    )
    assert "mooring node confirm-dead n0" in event.message
