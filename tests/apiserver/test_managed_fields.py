"""Server-side apply: which manager owns a field and may change it; a field that no manager applies any more
is removed."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mooring.apiserver.objects.field_sets import (
    fields_of,
    from_fields_v1,
    printed,
    to_fields_v1,
    values_of,
    without,
)
from mooring.apiserver.schema.facts import one

CONFIGMAPS = "/api/v1/namespaces/default/configmaps"
STATEFULSETS = "/apis/apps/v1/namespaces/default/statefulsets"
NODES = "/api/v1/nodes"


async def apply(api, path, body, manager="me", *, force=False):
    query = [("fieldManager", manager), *([("force", "true")] if force else [])]
    kinds = {"configmaps": "ConfigMap", "statefulsets": "StatefulSet", "nodes": "Node"}
    identity = {"apiVersion": "apps/v1" if "/apis/apps/" in path else "v1"}
    identity |= {"kind": next(kind for plural, kind in kinds.items() if f"/{plural}/" in path)}
    return await api.send("PATCH", path, identity | body, query, content_type="application/apply-patch+yaml")


def configmap(data, **metadata):
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a", **metadata}, "data": data}


def book(obj):
    """The managers of an object and what they own."""
    entries = obj["metadata"].get("managedFields", [])
    return {
        (entry["manager"], entry["operation"]): sorted(map(printed, from_fields_v1(entry["fieldsV1"])))
        for entry in entries
    }


def test_applying_creates_and_owns(serve):
    async def story(api):
        made = await apply(api, f"{CONFIGMAPS}/a", configmap({"k": "v"}, labels={"x": "y"}))
        assert made["data"] == {"k": "v"}
        assert book(made) == {("me", "Apply"): [".data.k", ".metadata.labels.x"]}
        assert made["metadata"]["managedFields"][0] == {
            "manager": "me",
            "operation": "Apply",
            "apiVersion": "v1",
            "time": "2030-01-01T00:00:00Z",
            "fieldsType": "FieldsV1",
            "fieldsV1": {"f:data": {"f:k": {}}, "f:metadata": {"f:labels": {"f:x": {}}}},
        }

    serve(story)


def test_applying_the_same_again_advances_nothing(serve):
    async def story(api):
        for manager in ("me", "you"):
            await apply(api, f"{CONFIGMAPS}/a", configmap({"k": "v"}), manager)
        before = api.server.store.version
        await apply(api, f"{CONFIGMAPS}/a", configmap({"k": "v"}))
        assert api.server.store.version == before

    serve(story)


def test_what_an_applier_leaves_out_goes_unless_somebody_else_wants_it(serve):
    async def story(api):
        await apply(api, f"{CONFIGMAPS}/a", configmap({"mine": "1", "ours": "1"}))
        await apply(api, f"{CONFIGMAPS}/a", configmap({"yours": "1", "ours": "1"}), "you")
        made = await apply(api, f"{CONFIGMAPS}/a", configmap({}))
        assert made["data"] == {"yours": "1", "ours": "1"}
        made = await apply(api, f"{CONFIGMAPS}/a", {"metadata": {"name": "a"}}, "you")
        assert "data" not in made

    serve(story)


def test_a_field_of_another_manager_is_a_conflict_unless_forced(serve):
    async def story(api):
        await apply(api, f"{CONFIGMAPS}/a", configmap({"k": "1", "l": "1"}), "you")
        refusal = await api.refused(409, apply(api, f"{CONFIGMAPS}/a", configmap({"k": "2", "l": "1"})))
        assert refusal.message == 'Apply failed with 1 conflict: conflict with "you": .data.k'
        assert refusal.status["details"]["causes"] == [
            {"reason": "FieldManagerConflict", "message": 'conflict with "you"', "field": ".data.k"}
        ]
        made = await apply(api, f"{CONFIGMAPS}/a", configmap({"k": "2", "l": "1"}), force=True)
        assert made["data"] == {"k": "2", "l": "1"}
        assert book(made) == {("you", "Apply"): [".data.l"], ("me", "Apply"): [".data.k", ".data.l"]}

    serve(story)


def test_an_update_takes_over_what_it_changes(serve):
    async def story(api):
        await apply(api, f"{CONFIGMAPS}/a", configmap({"k": "1", "l": "1"}))
        body, headers = (
            {"data": {"k": "2", "l": None, "m": "3"}},
            {"content_type": "application/merge-patch+json"},
        )
        made = await api.send("PATCH", f"{CONFIGMAPS}/a", body, (), user_agent="tool/v1 (linux)", **headers)
        assert book(made) == {("tool", "Update"): [".data.k", ".data.m"]}
        refusal = await api.refused(409, apply(api, f"{CONFIGMAPS}/a", configmap({"k": "1"})))
        assert 'conflict with "tool"' in refusal.message

    serve(story)


def test_an_object_made_otherwise_is_owned_by_those_before(serve):
    async def story(api):
        await api.create(CONFIGMAPS, {"metadata": {"name": "a", "managedFields": [{}]}, "data": {"k": "1"}})
        assert "managedFields" not in (await api.patch(f"{CONFIGMAPS}/a", {"data": {"l": "1"}}))["metadata"]
        refusal = await api.refused(409, apply(api, f"{CONFIGMAPS}/a", configmap({"k": "2"})))
        assert 'conflict with "before-first-apply" using v1: .data.k' in refusal.message
        made = await apply(api, f"{CONFIGMAPS}/a", configmap({"k": "1"}))
        assert book(made)["before-first-apply", "Update"] == [".data.k", ".data.l"]

    serve(story)


def test_entries_of_a_named_list_are_owned_one_by_one(serve):
    async def story(api):
        sent = api.new_statefulset()
        containers = sent["spec"]["template"]["spec"]["containers"]
        containers.append({"name": "d", "image": "x:1"})
        await apply(api, f"{STATEFULSETS}/web", sent)
        other = {
            "spec": {"template": {"spec": {"containers": [{"name": "c", "tty": True}]}}},
            "metadata": {"name": "web"},
        }
        made = await apply(api, f"{STATEFULSETS}/web", other, "you")
        assert '.spec.template.spec.containers[name="c"].tty' in book(made)["you", "Apply"]
        del containers[1]
        made = await apply(api, f"{STATEFULSETS}/web", sent)
        found = made["spec"]["template"]["spec"]["containers"]
        assert [(entry["name"], entry.get("tty")) for entry in found] == [("c", True)]

    serve(story)


def test_status_is_applied_through_its_subresource(serve):
    async def story(api):
        await api.create(NODES, {"metadata": {"name": "n"}})
        sent = {"metadata": {"name": "n"}, "spec": {"providerID": "x"}, "status": {"phase": "Running"}}
        made = await apply(api, f"{NODES}/n/status", sent)
        assert (made["status"]["phase"], made["spec"]) == ("Running", {})
        assert made["metadata"]["managedFields"][-1]["subresource"] == "status"
        made = await apply(api, f"{NODES}/n", sent | {"status": {"phase": "Gone"}})
        assert (made["status"]["phase"], made["spec"]) == ("Running", {"providerID": "x"})
        await api.refused(404, apply(api, f"{NODES}/nosuch/status", {"metadata": {"name": "nosuch"}}))

    serve(story)


@pytest.mark.parametrize("metadata", [{"managedFields": []}, {"name": "b"}, {"namespace": "other"}])
def test_what_cannot_be_applied_is_refused(serve, metadata):
    async def story(api):
        await api.refused(400, apply(api, f"{CONFIGMAPS}/a", configmap({}, **metadata)))
        await api.refused(422, apply(api, f"{CONFIGMAPS}/a", configmap({}), ""))
        await api.refused(422, apply(api, f"{CONFIGMAPS}/a", configmap({}), "x" * 129))

    serve(story)


def test_a_version_and_a_uid_guard_an_apply(serve):
    async def story(api):
        made = await apply(api, f"{CONFIGMAPS}/a", configmap({"k": "1"}))
        version = made["metadata"]["resourceVersion"]
        await apply(api, f"{CONFIGMAPS}/a", configmap({"k": "2"}, resourceVersion=version))
        await api.refused(409, apply(api, f"{CONFIGMAPS}/a", configmap({"k": "3"}, resourceVersion=version)))
        await api.refused(409, apply(api, f"{CONFIGMAPS}/a", configmap({"k": "3"}, uid="other")))

    serve(story)


objects = st.recursive(
    st.integers() | st.text(max_size=2),
    lambda inner: (
        st.dictionaries(st.sampled_from(["a", "b", "spec"]), inner, max_size=3)
        | st.lists(inner, max_size=2)
        | st.lists(st.sampled_from("xy"), unique=True).map(
            lambda names: {"containers": [{"name": name, "n": 1} for name in names]}
        )
    ),
).filter(lambda value: isinstance(value, dict))


@given(objects)
def test_a_set_of_fields_survives_its_written_form(obj: Any) -> None:
    fields = fields_of(obj, one("core.v1.PodSpec"))
    assert from_fields_v1(to_fields_v1(fields)) == fields


@given(objects)
def test_every_field_has_a_value_until_it_is_taken_away(obj: Any) -> None:
    for path in fields_of(obj, one("core.v1.PodSpec")):
        assert path in values_of(obj, [path])
        assert path not in values_of(without(obj, [path]), [path])
