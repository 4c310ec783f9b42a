"""JSON merge patch: the examples of RFC 7396, and its laws."""

from __future__ import annotations

from copy import deepcopy
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mooring.apiserver.objects.patches.merge_patch import merge_patch

RFC_7396: list[tuple[Any, Any, Any]] = [
    ({"a": "b"}, {"a": "c"}, {"a": "c"}),
    ({"a": "b"}, {"b": "c"}, {"a": "b", "b": "c"}),
    ({"a": "b"}, {"a": None}, {}),
    ({"a": "b", "b": "c"}, {"a": None}, {"b": "c"}),
    ({"a": ["b"]}, {"a": "c"}, {"a": "c"}),
    ({"a": "c"}, {"a": ["b"]}, {"a": ["b"]}),
    ({"a": {"b": "c"}}, {"a": {"b": "d", "c": None}}, {"a": {"b": "d"}}),
    ({"a": [{"b": "c"}]}, {"a": [1]}, {"a": [1]}),
    (["a", "b"], ["c", "d"], ["c", "d"]),
    ({"a": "b"}, ["c"], ["c"]),
    ({"a": "foo"}, None, None),
    ({"a": "foo"}, "bar", "bar"),
    ({"e": None}, {"a": 1}, {"e": None, "a": 1}),
    ([1, 2], {"a": "b", "c": None}, {"a": "b"}),
    ({}, {"a": {"bb": {"ccc": None}}}, {"a": {"bb": {}}}),
]

plain = st.recursive(
    st.booleans() | st.integers() | st.text(max_size=3),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from("abc"), inner, max_size=3),
)
objects = st.dictionaries(st.sampled_from("abc"), plain, max_size=3)


def difference(old: Any, new: Any) -> Any:
    """The merge patch from one to the other."""
    if not (isinstance(old, dict) and isinstance(new, dict)):
        return new
    removed = {key: None for key in old if key not in new}
    return removed | {key: difference(old.get(key), new[key]) for key in new if old.get(key) != new[key]}


@pytest.mark.parametrize(("target", "patch", "result"), RFC_7396)
def test_an_example_of_the_rfc(target: Any, patch: Any, result: Any) -> None:
    assert merge_patch(target, patch) == result


@given(objects, objects)
def test_the_difference_of_two_objects_leads_from_one_to_the_other(old: Any, new: Any) -> None:
    before = deepcopy(old)
    assert merge_patch(old, difference(old, new)) == new
    assert old == before


@given(objects, objects)
def test_a_patch_applied_twice_is_as_good_as_once(target: Any, patch: Any) -> None:
    once = merge_patch(target, patch)
    assert merge_patch(once, patch) == once
