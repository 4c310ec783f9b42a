"""CustomResourceDefinitions: what they define is served, ruled by its schema, and goes with them."""

from __future__ import annotations

import copy

from mooring.apiserver import node_user

DEFINITIONS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
WIDGETS = "/apis/example.com/v1/namespaces/default/widgets"
TABLE = "application/json;as=Table;v=v1;g=meta.k8s.io"

SCHEMA = {
    "type": "object",
    "required": ["spec"],
    "properties": {
        "spec": {
            "type": "object",
            "required": ["size"],
            "properties": {
                "size": {"type": "integer", "minimum": 1},
                "color": {"type": "string", "default": "red", "enum": ["red", "blue"]},
                "free": {"type": "object", "x-kubernetes-preserve-unknown-fields": True},
                "parts": {
                    "type": "array",
                    "items": {
                        "type": "object",
                        "required": ["name"],
                        "properties": {"name": {"type": "string"}},
                    },
                    "x-kubernetes-list-type": "map",
                    "x-kubernetes-list-map-keys": ["name"],
                },
            },
        },
        "status": {
            "type": "object",
            "properties": {
                "size": {"type": "integer"},
                "selector": {"type": "string"},
                "conditions": {
                    "type": "array",
                    "items": {"type": "object", "additionalProperties": {"type": "string"}},
                },
            },
        },
    },
}
VERSION = {
    "name": "v1",
    "served": True,
    "storage": True,
    "schema": {"openAPIV3Schema": SCHEMA},
    "subresources": {
        "status": {},
        "scale": {
            "specReplicasPath": ".spec.size",
            "statusReplicasPath": ".status.size",
            "labelSelectorPath": ".status.selector",
        },
    },
    "additionalPrinterColumns": [
        {"name": "Size", "type": "integer", "jsonPath": ".spec.size"},
        {"name": "Ready", "type": "string", "jsonPath": '.status.conditions[?(@.type=="Ready")].status'},
        {"name": "Age", "type": "date", "jsonPath": ".metadata.creationTimestamp"},
    ],
}


def definition(*versions, **spec):
    names = {"plural": "widgets", "kind": "Widget", "shortNames": ["wd"], "categories": ["all"]}
    whole = {
        "group": "example.com",
        "scope": "Namespaced",
        "names": names,
        "versions": list(versions) or [VERSION],
    }
    return {"metadata": {"name": "widgets.example.com"}, "spec": {**whole, **spec}}


def widget(name="w", **spec):
    head = {"apiVersion": "example.com/v1", "kind": "Widget", "metadata": {"name": name}}
    return {**head, "spec": {"size": 1, **spec}}


def test_a_definition_is_established_at_once_and_its_kind_is_served(serve):
    async def story(api):
        await api.refused(404, api.get(WIDGETS))
        made = await api.create(DEFINITIONS, definition())
        states = {each["type"]: each["status"] for each in made["status"]["conditions"]}
        assert states == {"NamesAccepted": "True", "Established": "True"}
        assert made["status"]["storedVersions"] == ["v1"]
        assert made["spec"]["names"]["listKind"] == "WidgetList"
        assert (await api.get(WIDGETS))["kind"] == "WidgetList"
        created = await api.create(WIDGETS, widget())
        assert (created["spec"], created["metadata"]["generation"]) == ({"size": 1, "color": "red"}, 1)
        assert await api.names("/apis/example.com/v1/widgets") == ["w"]

    serve(story)


def test_discovery_and_openapi_name_the_kind_as_soon_as_it_is_defined(serve):
    async def story(api):
        assert "example.com" not in str(await api.get("/apis"))
        await api.create(DEFINITIONS, definition())
        assert "example.com" in [group["name"] for group in (await api.get("/apis"))["groups"]]
        resources = (await api.get("/apis/example.com/v1"))["resources"]
        assert [each["name"] for each in resources] == ["widgets", "widgets/scale", "widgets/status"]
        assert resources[0]["shortNames"] == ["wd"]
        document = await api.get("/openapi/v3/apis/example.com/v1")
        assert "Widget" in str(document["components"]["schemas"])
        await api.delete(f"{DEFINITIONS}/widgets.example.com")
        await api.refused(404, api.get("/apis/example.com/v1"))

    serve(story)


def test_unknown_fields_are_dropped_but_where_the_schema_keeps_them(serve):
    async def story(api):
        await api.create(DEFINITIONS, definition())
        made = await api.create(
            WIDGETS, widget(odd=1, free={"any": {"thing": None}}, parts=[{"name": "a", "x": 1}])
        )
        assert made["spec"] == {
            "size": 1,
            "color": "red",
            "free": {"any": {"thing": None}},
            "parts": [{"name": "a"}],
        }

    serve(story)


def test_an_object_that_its_schema_forbids_is_refused_with_every_reason(serve):
    async def story(api):
        await api.create(DEFINITIONS, definition())
        refusal = await api.refused(422, api.create(WIDGETS, widget(size=0, color="green")))
        assert "spec.size in body should be greater than or equal to 1" in refusal.message
        assert 'spec.color: Unsupported value: "green": supported values: "red", "blue"' in refusal.message
        refusal = await api.refused(422, api.create(WIDGETS, widget(size="big")))
        assert (
            'spec.size: Invalid value: "string": spec.size in body must be of type integer: "string"'
            in refusal.message
        )
        refusal = await api.refused(422, api.create(WIDGETS, {**widget(), "spec": {}}))
        assert "spec.size: Required value" in refusal.message
        refusal = await api.refused(422, api.create(WIDGETS, widget(parts=[{"name": "a"}, {"name": "a"}])))
        assert "spec.parts[1]: Duplicate value" in refusal.message

    serve(story)


def test_status_and_spec_are_written_apart_and_status_is_judged_too(serve):
    async def story(api):
        await api.create(DEFINITIONS, definition())
        await api.create(WIDGETS, {**widget(), "status": {"size": 7}})
        assert "status" not in await api.get(f"{WIDGETS}/w")
        patched = await api.patch(f"{WIDGETS}/w/status", {"status": {"size": 3}, "spec": {"size": 9}})
        assert (patched["spec"]["size"], patched["status"]["size"], patched["metadata"]["generation"]) == (
            1,
            3,
            1,
        )
        await api.refused(422, api.patch(f"{WIDGETS}/w/status", {"status": {"size": "x"}}))
        assert (await api.patch(f"{WIDGETS}/w", {"spec": {"size": 2}}))["metadata"]["generation"] == 2

    serve(story)


def test_scale_reads_and_writes_the_paths_of_the_definition(serve):
    async def story(api):
        await api.create(DEFINITIONS, definition())
        await api.create(WIDGETS, widget())
        await api.patch(f"{WIDGETS}/w/status", {"status": {"size": 1, "selector": "a=b"}})
        scale = await api.get(f"{WIDGETS}/w/scale")
        assert (scale["spec"], scale["status"]) == ({"replicas": 1}, {"replicas": 1, "selector": "a=b"})
        await api.patch(f"{WIDGETS}/w/scale", {"spec": {"replicas": 4}})
        assert (await api.get(f"{WIDGETS}/w"))["spec"]["size"] == 4

    serve(story)


def test_a_table_has_the_columns_of_the_definition(serve):
    async def story(api):
        await api.create(DEFINITIONS, definition())
        await api.create(WIDGETS, widget())
        await api.patch(
            f"{WIDGETS}/w/status", {"status": {"conditions": [{"type": "Ready", "status": "True"}]}}
        )
        table = await api.get(WIDGETS, accept=TABLE)
        assert [each["name"] for each in table["columnDefinitions"]] == ["Name", "Size", "Ready", "Age"]
        assert table["rows"][0]["cells"][:3] == ["w", 1, "True"]

    serve(story)


def test_every_served_version_shows_the_same_objects(serve):
    async def story(api):
        beta = {**copy.deepcopy(VERSION), "name": "v1beta1", "storage": False}
        hidden = {**copy.deepcopy(VERSION), "name": "v1alpha1", "storage": False, "served": False}
        await api.create(DEFINITIONS, definition(VERSION, beta, hidden))
        old = WIDGETS.replace("/v1/", "/v1beta1/")
        made = await api.create(old, {**widget(), "apiVersion": "example.com/v1beta1"})
        assert made["apiVersion"] == "example.com/v1beta1"
        assert (await api.get(f"{WIDGETS}/w"))["apiVersion"] == "example.com/v1"
        assert (await api.get(old))["items"][0]["apiVersion"] == "example.com/v1beta1"
        await api.refused(404, api.get(WIDGETS.replace("/v1/", "/v1alpha1/")))
        group = next(each for each in (await api.get("/apis"))["groups"] if each["name"] == "example.com")
        assert [each["version"] for each in group["versions"]] == ["v1", "v1beta1"]

    serve(story)


def test_a_new_storage_version_still_shows_what_was_stored_before(serve):
    async def story(api):
        beta = {**copy.deepcopy(VERSION), "name": "v2", "storage": False}
        await api.create(DEFINITIONS, definition(VERSION, beta))
        await api.create(WIDGETS, widget())
        one, two = {**VERSION, "storage": False}, {**beta, "storage": True}
        changed = await api.patch(f"{DEFINITIONS}/widgets.example.com", {"spec": {"versions": [one, two]}})
        assert changed["status"]["storedVersions"] == ["v1", "v2"]
        assert (await api.get(WIDGETS.replace("/v1/", "/v2/")))["items"][0]["apiVersion"] == "example.com/v2"
        assert (await api.get(WIDGETS))["items"][0]["apiVersion"] == "example.com/v1"

    serve(story)


def test_a_watch_of_a_custom_kind_sees_its_changes(serve):
    async def story(api):
        await api.create(DEFINITIONS, definition())
        watch = await api.watch(WIDGETS, ("allowWatchBookmarks", "true"))
        await api.create(WIDGETS, widget("a"))
        await api.patch(f"{WIDGETS}/a", {"spec": {"size": 5}})
        assert await watch.take(2) == [("ADDED", "a"), ("MODIFIED", "a")]
        await watch.close()

    serve(story)


def test_objects_go_with_their_definition(serve):
    async def story(api):
        await api.create(DEFINITIONS, definition())
        await api.create(WIDGETS, widget("a"))
        await api.delete(f"{DEFINITIONS}/widgets.example.com")
        await api.refused(404, api.get(f"{DEFINITIONS}/widgets.example.com"))
        await api.create(DEFINITIONS, definition())
        assert await api.names(WIDGETS) == []

    serve(story)


def test_a_definition_waits_for_the_finalizers_of_its_objects(serve):
    async def story(api):
        await api.create(DEFINITIONS, definition())
        held = widget("a")
        held["metadata"]["finalizers"] = ["example.com/wait"]
        await api.create(WIDGETS, held)
        await api.delete(f"{DEFINITIONS}/widgets.example.com")
        waiting = await api.get(f"{DEFINITIONS}/widgets.example.com")
        assert waiting["metadata"]["finalizers"] == ["customresourcecleanup.apiextensions.k8s.io"]
        assert "Terminating" in [each["type"] for each in waiting["status"]["conditions"]]
        assert (await api.get(f"{WIDGETS}/a"))["metadata"]["deletionTimestamp"]
        await api.refused(405, api.create(WIDGETS, widget("b")))
        await api.patch(f"{WIDGETS}/a", {"metadata": {"finalizers": None}})
        await api.refused(404, api.get(f"{DEFINITIONS}/widgets.example.com"))

    serve(story)


def test_names_that_another_definition_has_are_not_accepted(serve):
    async def story(api):
        await api.create(DEFINITIONS, definition())
        other = definition(names={"plural": "gadgets", "singular": "gadget", "kind": "Widget"})
        other["metadata"]["name"] = "gadgets.example.com"
        made = await api.create(DEFINITIONS, other)
        states = {each["type"]: (each["status"], each["reason"]) for each in made["status"]["conditions"]}
        assert states == {"NamesAccepted": ("False", "KindConflict"), "Established": ("False", "NotAccepted")}
        await api.refused(404, api.get("/apis/example.com/v1/gadgets"))

    serve(story)


def test_a_definition_that_is_wrong_is_refused(serve):
    async def story(api):
        wrong = definition()
        wrong["metadata"]["name"] = "other"
        await api.refused(422, api.create(DEFINITIONS, wrong))
        await api.refused(422, api.create(DEFINITIONS, definition({**VERSION, "storage": False})))
        await api.refused(422, api.create(DEFINITIONS, definition({**VERSION, "schema": {}})))
        await api.refused(422, api.create(DEFINITIONS, definition(scope="Galaxy")))
        typeless = {"type": "object", "properties": {"spec": {"properties": {}}}}
        await api.refused(
            422, api.create(DEFINITIONS, definition({**VERSION, "schema": {"openAPIV3Schema": typeless}}))
        )

    serve(story)


def test_a_strategic_merge_patch_of_a_custom_object_is_refused(serve):
    async def story(api):
        await api.create(DEFINITIONS, definition())
        await api.create(WIDGETS, widget())
        await api.refused(415, api.patch(f"{WIDGETS}/w", {"spec": {"size": 2}}, "strategic"))

    serve(story)


def test_strict_validation_names_the_fields_that_the_schema_does_not_have(serve):
    async def story(api):
        await api.create(DEFINITIONS, definition())
        refusal = await api.refused(400, api.create(WIDGETS, widget(odd=1), ("fieldValidation", "Strict")))
        assert 'strict decoding error: unknown field "spec.odd"' in refusal.message

    serve(story)


def test_a_schema_that_is_none_is_refused_wherever_it_stands(serve):
    async def story(api):
        for inner in ({"items": 5}, {"items": {"minimum": "x"}}, {"additionalProperties": {"required": 5}}):
            schema = {"type": "object", "properties": {"spec": {"type": "object", **inner}}}
            await api.refused(
                400, api.create(DEFINITIONS, definition({**VERSION, "schema": {"openAPIV3Schema": schema}}))
            )

    serve(story)


def test_no_definition_takes_the_place_of_a_built_in_kind(serve):
    async def story(api):
        names = {"plural": "leases", "kind": "Lease"}
        shadow = definition(group="coordination.k8s.io", names=names)
        shadow["metadata"] = {"name": "leases.coordination.k8s.io"}
        await api.refused(422, api.create(DEFINITIONS, shadow))
        shadow["metadata"]["annotations"] = {"api-approved.kubernetes.io": "unapproved, for a test"}
        await api.create(DEFINITIONS, shadow)
        lease = {"metadata": {"name": "l"}, "spec": {"holderIdentity": "a"}}
        made = await api.create("/apis/coordination.k8s.io/v1/namespaces/default/leases", lease)
        assert made["spec"] == {"holderIdentity": "a"}
        await api.refused(422, api.create(DEFINITIONS, definition(group="apps")))

    serve(story)


def test_a_node_has_no_access_to_custom_kinds_whatever_their_name(serve):
    async def story(api):
        secret = definition(names={"plural": "secrets", "kind": "Secret"})
        secret["metadata"]["name"] = "secrets.example.com"
        await api.create(DEFINITIONS, secret)
        path = "/apis/example.com/v1/namespaces/default/secrets"
        assert (await api.get(path))["items"] == []
        await api.refused(403, api.acting_as(node_user("a")).get(path))

    serve(story)


def test_an_apply_merges_lists_as_the_schema_says(serve):
    async def story(api):
        await api.create(DEFINITIONS, definition())

        async def apply(manager, spec):
            sent = {"apiVersion": "example.com/v1", "kind": "Widget", "metadata": {"name": "w"}, "spec": spec}
            query = [("fieldManager", manager)]
            return await api.send(
                "PATCH", f"{WIDGETS}/w", sent, query, content_type="application/apply-patch+yaml"
            )

        await apply("one", {"size": 1, "parts": [{"name": "a"}]})
        made = await apply("two", {"size": 1, "parts": [{"name": "b"}]})
        assert sorted(part["name"] for part in made["spec"]["parts"]) == ["a", "b"]

    serve(story)
