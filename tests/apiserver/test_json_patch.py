"""JSON patch against a well-kept library, and Kubernetes' error codes."""

from __future__ import annotations

from copy import deepcopy
from typing import Any

import jsonpatch
import jsonpointer
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mooring.apiserver.errors import ApiError, BadRequest, Invalid, TooLarge
from mooring.apiserver.objects.patches.json_patch import json_patch

keys = st.sampled_from(["a", "b", "c/d", "e~f", ""])
scalars = st.none() | st.booleans() | st.integers(-3, 3) | st.sampled_from(["", "x"])
values = st.recursive(
    scalars,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(keys, inner, max_size=3),
    max_leaves=8,
)
documents = st.dictionaries(keys, values, max_size=4)
steps = st.sampled_from(["a", "b", "c~1d", "e~0f", "", "0", "1", "2", "-"])
pointers = st.lists(steps, min_size=1, max_size=3).map(lambda parts: "/" + "/".join(parts))


@st.composite
def operations(draw: st.DrawFn) -> dict[str, Any]:
    op = draw(st.sampled_from(["add", "remove", "replace", "test", "move", "copy"]))
    operation: dict[str, Any] = {"op": op, "path": draw(pointers)}
    if op in ("add", "replace", "test"):
        operation["value"] = draw(values)
    if op in ("move", "copy"):
        operation["from"] = draw(pointers)
    return operation


def theirs(document: Any, patch: list[dict[str, Any]]) -> Any:
    try:
        return jsonpatch.apply_patch(deepcopy(document), patch)
    except (jsonpatch.JsonPatchException, jsonpointer.JsonPointerException, TypeError, AttributeError):
        return "refused"


def ours(document: Any, patch: list[dict[str, Any]]) -> Any:
    try:
        return json_patch(document, patch)
    except ApiError:
        return "refused"


def same(one: Any, other: Any) -> bool:
    """Equality that tells true from 1, as JSON does."""
    return repr(_sorted(one)) == repr(_sorted(other))


def _sorted(value: Any) -> Any:
    if isinstance(value, dict):
        return sorted((key, _sorted(each)) for key, each in value.items())
    return [_sorted(each) for each in value] if isinstance(value, list) else value


def compares_loosely(patch: list[dict[str, Any]]) -> bool:
    """The library takes Python's word that true equals 1."""
    return any(operation["op"] == "test" for operation in patch)


def replaces(patch: list[dict[str, Any]]) -> bool:
    """Upstream lets a replace add a member that is missing; the library, by the RFC, does not."""
    return any(operation["op"] == "replace" for operation in patch)


@given(documents, st.lists(operations(), max_size=3))
def test_a_patch_does_what_the_library_does(document: Any, patch: list[dict[str, Any]]) -> None:
    before = deepcopy(document)
    expected, result = theirs(document, patch), ours(document, patch)
    assert document == before, "the document was changed in place"
    if result == "refused" and compares_loosely(patch):
        return
    if expected == "refused" and replaces(patch):
        return
    assert same(result, expected)


@pytest.mark.parametrize(
    ("patch", "error"),
    [
        ({"op": "add"}, BadRequest),
        ([1], BadRequest),
        ([{"op": "grow", "path": "/a"}], Invalid),
        ([{"op": "add", "path": "a", "value": 1}], Invalid),
        ([{"op": "add", "path": "/a"}], Invalid),
        ([{"op": "move", "from": "/a", "path": "/a/b"}], BadRequest),
        ([{"op": "remove", "path": "/nosuch"}], Invalid),
        ([{"op": "replace", "path": "/a/b", "value": 1}], Invalid),
        ([{"op": "replace", "path": "/l/9", "value": 1}], Invalid),
        ([{"op": "add", "path": "/no/such", "value": 1}], Invalid),
        ([{"op": "test", "path": "/a", "value": 2}], Invalid),
        ([{"op": "test", "path": "/t", "value": 1}], Invalid),
        ([{"op": "add", "path": "/l/01", "value": 1}], Invalid),
        ([{"op": "test", "path": "/a", "value": 1}] * 10001, TooLarge),
    ],
)
def test_a_patch_that_cannot_be_applied_is_refused(patch: Any, error: type[ApiError]) -> None:
    with pytest.raises(error):
        json_patch({"a": 1, "t": True, "l": [1, 2]}, patch)


def test_a_replace_adds_a_missing_member_as_upstream_does() -> None:
    assert json_patch({"a": 1}, [{"op": "replace", "path": "/b", "value": 2}]) == {"a": 1, "b": 2}
