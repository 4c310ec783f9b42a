"""Node selectors of volumes against nodes, as the Kubernetes API documents them."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mooring.kube.objects import (
    LabelSelectorRequirement,
    Node,
    NodeSelector,
    NodeSelectorTerm,
    ObjectMeta,
    PersistentVolume,
    PersistentVolumeSpec,
    VolumeNodeAffinity,
)
from mooring.volumes.topology import fits, requirement_holds, selector_matches, term_matches

NODE = Node(metadata=ObjectMeta(name="node-1", labels={"zone": "a", "cores": "16"}))
INTEGERS = st.integers(-(2**63), 2**63 - 1)


def requirement(key: str, operator: str, *values: str) -> LabelSelectorRequirement:
    return LabelSelectorRequirement(key=key, operator=operator, values=values)


@pytest.mark.parametrize(
    ("key", "operator", "values", "holds"),
    [
        ("zone", "In", ["a", "b"], True),
        ("zone", "In", ["b"], False),
        ("rack", "In", ["a"], False),
        ("zone", "NotIn", ["b"], True),
        ("zone", "NotIn", ["a"], False),
        ("rack", "NotIn", ["a"], True),
        ("zone", "Exists", [], True),
        ("rack", "Exists", [], False),
        ("rack", "DoesNotExist", [], True),
        ("zone", "DoesNotExist", [], False),
        ("cores", "Gt", ["8"], True),
        ("cores", "Gt", ["16"], False),
        ("cores", "Lt", ["17"], True),
        ("rack", "Lt", ["17"], False),
    ],
)
def test_each_operator_means_what_the_api_says(key: str, operator: str, values: list[str], holds: bool):
    assert requirement_holds(requirement(key, operator, *values), NODE.metadata.labels) is holds


@pytest.mark.parametrize(
    ("key", "operator", "values"),
    [
        ("zone", "in", ["a"]),
        ("zone", "", []),
        ("zone", "In", []),
        ("zone", "NotIn", []),
        ("zone", "Exists", ["a"]),
        ("rack", "DoesNotExist", ["a"]),
        ("cores", "Gt", []),
        ("cores", "Gt", ["1", "2"]),
        ("cores", "Gt", ["1.5"]),
        ("cores", "Gt", ["1e1"]),
        ("cores", "Gt", [" 1"]),
        ("cores", "Lt", [str(2**63)]),
        ("zone", "Gt", ["0"]),
    ],
)
def test_what_cannot_be_understood_matches_nothing(key: str, operator: str, values: list[str]):
    assert not requirement_holds(requirement(key, operator, *values), NODE.metadata.labels)


@given(INTEGERS, INTEGERS)
def test_numbers_are_compared_as_numbers(label: int, bound: int):
    labels = {"n": str(label)}
    assert requirement_holds(requirement("n", "Gt", str(bound)), labels) == (label > bound)
    assert requirement_holds(requirement("n", "Lt", str(bound)), labels) == (label < bound)


@given(
    st.text(), st.text(), st.lists(st.text(), max_size=3), st.dictionaries(st.text(), st.text(), max_size=3)
)
def test_any_requirement_gets_an_answer(key: str, operator: str, values: list[str], labels: dict[str, str]):
    assert requirement_holds(requirement(key, operator, *values), labels) in (True, False)


def test_all_requirements_of_a_term_must_hold():
    in_zone, many_cores = requirement("zone", "In", "a"), requirement("cores", "Gt", "32")
    assert term_matches(NodeSelectorTerm(match_expressions=(in_zone,)), NODE)
    assert not term_matches(NodeSelectorTerm(match_expressions=(in_zone, many_cores)), NODE)


def test_one_term_of_a_selector_is_enough():
    terms = tuple(
        NodeSelectorTerm(match_expressions=(requirement("zone", "In", zone),)) for zone in ("b", "a")
    )
    assert selector_matches(NodeSelector(node_selector_terms=terms), NODE)


def test_an_empty_term_and_an_empty_selector_match_nothing():
    assert not term_matches(NodeSelectorTerm(), NODE)
    assert not selector_matches(NodeSelector(), NODE)


@pytest.mark.parametrize(
    ("field", "operator", "value", "holds"),
    [
        ("metadata.name", "In", "node-1", True),
        ("metadata.name", "In", "node-2", False),
        ("metadata.name", "NotIn", "node-1", False),
        ("metadata.name", "Exists", "", False),
        ("metadata.uid", "NotIn", "x", False),
    ],
)
def test_of_fields_only_the_nodes_name_can_be_asked_for(field: str, operator: str, value: str, holds: bool):
    term = NodeSelectorTerm(match_fields=(requirement(field, operator, *filter(None, [value])),))
    assert term_matches(term, NODE) is holds


def volume(affinity: VolumeNodeAffinity | None) -> PersistentVolume:
    return PersistentVolume(spec=PersistentVolumeSpec(node_affinity=affinity))


def test_a_volume_without_affinity_fits_everywhere_and_one_with_it_only_there():
    elsewhere = NodeSelector(
        node_selector_terms=(NodeSelectorTerm(match_expressions=(requirement("zone", "In", "b"),)),)
    )
    assert fits(volume(None), NODE)
    assert fits(volume(VolumeNodeAffinity()), NODE)
    assert not fits(volume(VolumeNodeAffinity(required=elsewhere)), NODE)
