"""Whether two Nodes of one name are of one machine."""

from __future__ import annotations

from uuid import UUID

import hypothesis.strategies as st
import pytest
from hypothesis import given

from mooring.kube.objects import Node, NodeSpec, NodeStatus, NodeSystemInfo
from mooring.volumes.machines import Machine, are_two, machine_annotation, machine_from, machine_of
from mooring.volumes.names import NODE_MACHINE

ONE, OTHER = "6a2e9c1e-0000-4000-8000-000000000001", "6a2e9c1e-0000-4000-8000-000000000002"
WORDS = st.text(st.characters(blacklist_categories=["Cs", "Z", "Cc"]), max_size=40)


def swapped(uuid: str) -> str:
    return str(UUID(bytes=UUID(uuid).bytes_le))


@pytest.mark.parametrize(
    ("one", "other", "two"),
    [
        (Machine(ONE), Machine(ONE), False),
        (Machine(ONE), Machine(OTHER), True),
        (Machine(ONE), Machine(), False),
        (Machine(ONE), Machine(ONE.upper()), False),
        (Machine(ONE), Machine(swapped(ONE)), False),
        (Machine("serial-1"), Machine("serial-2"), True),
        (Machine(ONE, "aws:///a/i-1"), Machine(ONE, "aws:///a/i-2"), True),
        (Machine(ONE, "gce://p/z/n"), Machine(OTHER, "gce://p/z/n"), True),
        (Machine("", "aws:///a/i-1"), Machine(ONE, "aws:///a/i-2"), True),
        (Machine(ONE), Machine(ONE, "aws:///a/i-2"), False),
    ],
)
def test_two_machines_are_told_apart_by_what_both_tell(one: Machine, other: Machine, two: bool):
    assert are_two(one, other) is two
    assert are_two(other, one) is two


@given(WORDS, WORDS)
def test_what_is_recorded_is_read_back(system_uuid: str, provider_id: str):
    info = NodeStatus(node_info=NodeSystemInfo(system_uuid=system_uuid))
    node = Node(spec=NodeSpec(provider_id=provider_id), status=info)
    assert machine_from(machine_annotation(node).get(NODE_MACHINE, "")) == machine_of(node)


@given(st.text())
def test_whatever_stands_there_is_read(text: str):
    assert not are_two(machine_from(text), Machine())
