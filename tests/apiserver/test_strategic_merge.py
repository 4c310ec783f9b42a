"""Strategic merge patch: named lists merge, the rest is replaced, directives are obeyed."""

from __future__ import annotations

from copy import deepcopy
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mooring.apiserver.errors import BadRequest, Unclassified
from mooring.apiserver.objects.patches.strategic_merge import strategic_merge_patch
from mooring.apiserver.schema.facts import one


def patched(target: Any, patch: Any, message: str = "core.v1.PodSpec") -> Any:
    before = deepcopy(target)
    result = strategic_merge_patch(target, patch, one(message))
    assert target == before, "the target was changed in place"
    return result


def named(*names: str) -> list[dict[str, str]]:
    return [{"name": name} for name in names]


def test_a_named_list_merges_entry_by_entry_and_what_is_new_comes_first() -> None:
    target = {"containers": [{"name": "a", "image": "1"}, {"name": "b", "image": "1"}]}
    patch = {"containers": [{"name": "b", "image": "2"}, {"name": "c"}]}
    merged = [{"name": "a", "image": "1"}, {"name": "b", "image": "2"}, {"name": "c"}]
    assert patched(target, patch) == {"containers": merged}
    assert patched(target, {"containers": named("c")}) == {"containers": [*named("c"), *target["containers"]]}


def test_an_unnamed_list_is_replaced() -> None:
    """`volumesAttached` and `volumesInUse` of a node have no merge key: a writer must send the whole list."""
    target = {
        "status": {
            "volumesAttached": [{"name": "v"}],
            "volumesInUse": ["v", "w"],
            "conditions": [{"type": "A"}],
        }
    }
    patch = {
        "status": {"volumesAttached": [{"name": "w"}], "volumesInUse": ["w"], "conditions": [{"type": "B"}]}
    }
    expected = {
        "volumesAttached": [{"name": "w"}],
        "volumesInUse": ["w"],
        "conditions": [{"type": "B"}, {"type": "A"}],
    }
    assert patched(target, patch, "core.v1.Node") == {"status": expected}


def test_ports_are_told_apart_by_the_key_of_their_kind() -> None:
    target = {"ports": [{"port": 1, "containerPort": 1, "name": "old"}]}
    assert len(patched(target, {"ports": [{"port": 1, "name": "new"}]}, "core.v1.ServiceSpec")["ports"]) == 1
    assert len(patched(target, {"ports": [{"containerPort": 2}]}, "core.v1.Container")["ports"]) == 2


def test_null_removes_and_finalizers_merge_as_a_set() -> None:
    target = {"metadata": {"labels": {"a": "1", "b": "2"}, "finalizers": ["x"]}}
    patch = {"metadata": {"labels": {"a": None}, "finalizers": ["y", "x"]}}
    expected = {"metadata": {"labels": {"b": "2"}, "finalizers": ["y", "x"]}}
    assert patched(target, patch, "core.v1.Pod") == expected


def test_an_entry_is_deleted_by_directive() -> None:
    target = {"containers": named("a", "b")}
    assert patched(target, {"containers": [{"$patch": "delete", "name": "a"}]}) == {"containers": named("b")}


def test_a_list_is_replaced_by_directive() -> None:
    target = {"containers": named("a", "b")}
    assert patched(target, {"containers": [{"$patch": "replace"}, *named("c")]}) == {"containers": named("c")}


def test_an_object_is_replaced_by_directive() -> None:
    assert patched({"m": {"a": 1}}, {"m": {"$patch": "replace", "b": 2}}) == {"m": {"b": 2}}


def test_values_are_deleted_from_a_list_of_values() -> None:
    target = {"metadata": {"finalizers": ["x", "y", "z"]}}
    patch = {"metadata": {"$deleteFromPrimitiveList/finalizers": ["x", "z"]}}
    assert patched(target, patch, "core.v1.Pod") == {"metadata": {"finalizers": ["y"]}}


def test_other_keys_are_dropped_by_retain_keys() -> None:
    """How a rolling update becomes a recreation without the parameters of the old strategy."""
    target = {"strategy": {"type": "RollingUpdate", "rollingUpdate": {"maxSurge": 1}}}
    patch = {"strategy": {"$retainKeys": ["type"], "type": "Recreate"}}
    assert patched(target, patch, "apps.v1.DeploymentSpec") == {"strategy": {"type": "Recreate"}}


def test_entries_are_put_in_the_order_asked_for() -> None:
    target = {"containers": named("a", "b", "c")}
    patch = {"$setElementOrder/containers": named("c", "a", "b"), "containers": []}
    assert patched(target, patch) == {"containers": named("c", "a", "b")}


def test_an_entry_that_the_order_does_not_name_keeps_its_place_before_what_it_preceded() -> None:
    target = {"containers": named("a", "x", "b")}
    patch = {"$setElementOrder/containers": named("b", "a")}
    assert patched(target, patch) == {"containers": named("x", "b", "a")}


def test_a_budgets_selector_is_replaced_whole() -> None:
    target = {"spec": {"selector": {"matchLabels": {"a": "1"}}}}
    patch = {"spec": {"selector": {"matchLabels": {"b": "2"}}}}
    assert patched(target, patch, "policy.v1.PodDisruptionBudget") == patch


@pytest.mark.parametrize(
    "patch",
    [
        [],
        {"$patch": "explode"},
        {"containers": [{"image": "x"}]},
    ],
)
def test_a_malformed_patch_is_refused(patch: Any) -> None:
    with pytest.raises(BadRequest if patch == [] else Unclassified):
        patched({"containers": named("a")}, patch)


entries = st.lists(st.sampled_from("abcd"), unique=True).map(lambda found: named(*found))


@given(entries, entries)
def test_merging_a_named_list_keeps_every_entry_once(old: Any, new: Any) -> None:
    merged = patched({"containers": old}, {"containers": new})["containers"]
    found = [entry["name"] for entry in merged]
    assert len(found) == len(set(found))
    assert set(found) == {entry["name"] for entry in [*old, *new]}
    assert patched({"containers": merged}, {"containers": new}) == {"containers": merged}
