"""Selectors parse, match and print."""

from __future__ import annotations

from contextlib import suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mooring.kube.selectors import (
    EVERYTHING,
    NOTHING,
    FieldSelector,
    InvalidSelector,
    LabelSelector,
    Requirement,
    label_selector_from_object,
    parse_field_selector,
    parse_label_selector,
)

LABELS = {"app": "web", "tier": "front", "size": "5"}


@pytest.mark.parametrize(
    ("text", "matches"),
    [
        ("", True),
        ("app", True),
        ("!app", False),
        ("! other", True),
        ("app=web", True),
        ("app == web", True),
        ("app!=web", False),
        ("other!=web", True),
        ("app in (web, db)", True),
        ("app in (db)", False),
        ("app notin (db)", True),
        ("other notin (db)", True),
        ("size>4", True),
        ("size<5", False),
        ("app>4", False),
        ("app=web,tier=front", True),
        ("app=web,tier=back", False),
        ("app=", False),
        ("in in (in)", False),
        ("example.com/app", False),
    ],
)
def test_a_label_selector_matches_as_its_grammar_says(text: str, matches: bool) -> None:
    assert parse_label_selector(text).matches(LABELS) is matches


@pytest.mark.parametrize(
    "text",
    ["=", "a=b=c", "a in b", "a in (b", "a,", ",a", "a b", "a>x", "-a", "a=-b", "a!", "x" * 65537, "a=(b)"],
)
def test_what_is_no_label_selector_is_refused(text: str) -> None:
    with pytest.raises(InvalidSelector):
        parse_label_selector(text)


names = st.from_regex(r"[a-z]([a-z0-9.-]{0,8}[a-z0-9])?", fullmatch=True).filter(
    lambda name: name not in ("in", "notin")
)
requirements = st.one_of(
    st.builds(Requirement, names, st.sampled_from(["Exists", "DoesNotExist"])),
    st.builds(
        Requirement, names, st.sampled_from(["Gt", "Lt"]), st.integers(-99, 99).map(lambda n: (str(n),))
    ),
    st.builds(
        Requirement,
        names,
        st.sampled_from(["In", "NotIn"]),
        st.lists(names | st.just(""), min_size=1, unique=True).map(lambda values: tuple(sorted(values))),
    ),
)


@given(st.lists(requirements).map(lambda found: LabelSelector(tuple(found))))
def test_a_label_selector_survives_printing(selector: LabelSelector) -> None:
    assert parse_label_selector(str(selector)) == selector


@given(st.text())
def test_any_text_is_refused_or_is_a_selector_that_means_the_same_when_it_is_printed(text: str) -> None:
    for parse in (parse_label_selector, parse_field_selector):
        with suppress(InvalidSelector):
            selector = parse(text)
            assert parse(str(selector)) == selector


def test_no_selector_object_matches_nothing_and_an_empty_one_everything() -> None:
    assert label_selector_from_object(None) == NOTHING
    assert not label_selector_from_object(None).matches({})
    assert label_selector_from_object({}) == EVERYTHING


def test_a_selector_object_is_the_same_as_its_text() -> None:
    expressions = [
        {"key": "tier", "operator": "NotIn", "values": ["back"]},
        {"key": "app", "operator": "Exists"},
    ]
    selector = label_selector_from_object({"matchLabels": {"app": "web"}, "matchExpressions": expressions})
    assert str(selector) == "app=web,tier!=back,app"
    assert selector.matches(LABELS)


@pytest.mark.parametrize(
    "expression", [{"key": "a", "operator": "Like"}, {"key": "a", "operator": "In"}, {"key": "a"}]
)
def test_a_malformed_expression_is_refused(expression: dict[str, str]) -> None:
    with pytest.raises(InvalidSelector):
        label_selector_from_object({"matchExpressions": [expression]})


def test_a_field_selector_compares_exactly() -> None:
    selector = parse_field_selector("spec.nodeName=a,status.phase!=Failed")
    assert selector.matches({"spec.nodeName": "a", "status.phase": "Running"})
    assert not selector.matches({"spec.nodeName": "a", "status.phase": "Failed"})
    assert not selector.matches({})
    assert selector.exact("spec.nodeName") == "a"
    assert selector.exact("status.phase") is None


field_terms = st.tuples(names, st.booleans(), st.text(alphabet="ab,=\\ ", max_size=6))


@given(st.lists(field_terms).map(lambda terms: FieldSelector(tuple(terms))))
def test_a_field_selector_survives_printing(selector: FieldSelector) -> None:
    assert parse_field_selector(str(selector)) == selector


def test_a_field_selector_without_a_field_is_none() -> None:
    for text in ("=a", " =a", "metadata.name=a, =b"):
        with pytest.raises(InvalidSelector):
            parse_field_selector(text)
