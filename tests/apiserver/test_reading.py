"""get and list: selectors, pages that are consistent at one version, forms."""

from __future__ import annotations

import pytest

PODS = "/api/v1/namespaces/default/pods"
CONFIGMAPS = "/api/v1/namespaces/default/configmaps"


async def configmaps(api, names, **labels):
    for name in names:
        await api.create(CONFIGMAPS, {"metadata": {"name": name, "labels": labels}})


def test_a_list_has_its_kind_its_version_and_its_objects_in_order(serve):
    async def story(api):
        await configmaps(api, "bca")
        found = await api.get(CONFIGMAPS)
        assert (found["kind"], found["apiVersion"]) == ("ConfigMapList", "v1")
        assert [item["metadata"]["name"] for item in found["items"]] == ["a", "b", "c"]
        newest = max(int(item["metadata"]["resourceVersion"]) for item in found["items"])
        assert int(found["metadata"]["resourceVersion"]) == newest

    serve(story)


def test_a_list_of_all_namespaces_has_the_objects_of_all(serve):
    async def story(api):
        await configmaps(api, "a")
        await api.create("/api/v1/namespaces/kube-system/configmaps", {"metadata": {"name": "b"}})
        assert await api.names("/api/v1/configmaps") == ["a", "b"]
        assert await api.names(CONFIGMAPS) == ["a"]

    serve(story)


def test_a_label_selector_selects(serve):
    async def story(api):
        await configmaps(api, "a", app="web")
        await configmaps(api, "b", app="db")
        assert await api.names(CONFIGMAPS, ("labelSelector", "app in (web,x)")) == ["a"]
        assert await api.names(CONFIGMAPS, ("labelSelector", "app!=web")) == ["b"]

    serve(story)


def test_field_selectors_select_by_the_fields_of_their_kind(serve):
    async def story(api):
        await api.pod("a", node="n1")
        await api.pod("b")
        assert await api.names(PODS, ("fieldSelector", "spec.nodeName=n1")) == ["a"]
        assert await api.names(PODS, ("fieldSelector", "spec.nodeName=")) == ["b"]
        assert await api.names(PODS, ("fieldSelector", "status.phase=Pending,metadata.name=b")) == ["b"]
        await api.create("/api/v1/nodes", {"metadata": {"name": "n"}, "spec": {"unschedulable": True}})
        assert await api.names("/api/v1/nodes", ("fieldSelector", "spec.unschedulable=true")) == ["n"]

    serve(story)


def test_events_are_selected_by_what_they_are_about(serve):
    async def story(api):
        about = {"kind": "Pod", "name": "p", "namespace": "default", "uid": "u"}
        await api.create(
            "/api/v1/namespaces/default/events", {"metadata": {"name": "e"}, "involvedObject": about}
        )
        selector = "involvedObject.name=p,involvedObject.namespace=default,involvedObject.kind=Pod,involvedObject.uid=u"
        for group in ("/api/v1", "/apis/events.k8s.io/v1"):
            path = f"{group}/namespaces/default/events"
            assert await api.names(path, ("fieldSelector", selector)) == ["e"]
            assert await api.names(path, ("fieldSelector", "involvedObject.name=q")) == []

    serve(story)


def test_pages_together_show_one_version(serve):
    """What is written between two pages is not in the later one, and what is deleted still is."""

    async def story(api):
        await configmaps(api, "abcde")
        first = await api.get(CONFIGMAPS, ("limit", "2"))
        assert first["metadata"]["remainingItemCount"] == 3
        await api.delete(f"{CONFIGMAPS}/d")
        await configmaps(api, ["cc", "aa"])
        second = await api.get(CONFIGMAPS, ("limit", "2"), ("continue", first["metadata"]["continue"]))
        third = await api.get(CONFIGMAPS, ("limit", "2"), ("continue", second["metadata"]["continue"]))
        pages = [first, second, third]
        assert [[item["metadata"]["name"] for item in page["items"]] for page in pages] == [
            ["a", "b"],
            ["c", "d"],
            ["e"],
        ]
        assert len({page["metadata"]["resourceVersion"] for page in pages}) == 1
        assert "continue" not in third["metadata"]

    serve(story)


def test_a_list_at_an_exact_version_shows_that_version(serve):
    async def story(api):
        await configmaps(api, "a")
        version = (await api.get(CONFIGMAPS))["metadata"]["resourceVersion"]
        await configmaps(api, "b")
        exact = [("resourceVersion", version), ("resourceVersionMatch", "Exact")]
        assert await api.names(CONFIGMAPS, *exact) == ["a"]
        assert await api.names(CONFIGMAPS, ("resourceVersion", version)) == ["a", "b"]
        assert await api.names(CONFIGMAPS, ("resourceVersion", "0")) == ["a", "b"]

    serve(story)


def test_a_version_that_does_not_exist_yet_times_out(serve):
    async def story(api):
        refusal = await api.refused(504, api.get(CONFIGMAPS, ("resourceVersion", "9999")))
        assert refusal.reason == "Timeout"
        assert "Too large resource version: 9999" in refusal.message

    serve(story)


@pytest.mark.parametrize(
    "query",
    [
        ("limit", "x"),
        ("continue", "nonsense"),
        ("continue", "bm9uc2Vuc2U"),
        ("resourceVersion", "x"),
        ("labelSelector", "=="),
        ("fieldSelector", "spec.nosuch=x"),
        ("fieldSelector", "nonsense"),
    ],
)
def test_a_parameter_that_makes_no_sense_is_a_bad_request(serve, query):
    async def story(api):
        refusal = await api.refused(400, api.get(CONFIGMAPS, query))
        assert refusal.reason == "BadRequest"

    serve(story)


def test_metadata_alone_can_be_asked_for(serve):
    async def story(api):
        await configmaps(api, "a")
        as_list = {
            "accept": "application/json;as=PartialObjectMetadataList;v=v1;g=meta.k8s.io,application/json"
        }
        as_one = {"accept": "application/json;as=PartialObjectMetadata;v=v1;g=meta.k8s.io"}
        found = await api.get(CONFIGMAPS, **as_list)
        assert found["kind"] == "PartialObjectMetadataList"
        assert list(found["items"][0]) == ["kind", "apiVersion", "metadata"]
        assert (await api.get(f"{CONFIGMAPS}/a", **as_one))["kind"] == "PartialObjectMetadata"

    serve(story)


def test_a_form_that_the_server_cannot_give_is_not_acceptable(serve):
    async def story(api):
        await api.refused(406, api.get(CONFIGMAPS, accept="application/xml"))

    serve(story)


def test_what_is_not_there_is_named(serve):
    async def story(api):
        refusal = await api.refused(404, api.get("/apis/apps/v1/namespaces/default/statefulsets/web"))
        assert refusal.message == 'statefulsets.apps "web" not found'
        assert refusal.status["details"] == {"name": "web", "group": "apps", "kind": "statefulsets"}
        for path in ("/apis/nosuch/v1/things", "/nosuch"):
            assert (await api.refused(404, api.get(path))).message == "404 page not found\n"
        for path in ("/api/v1/nosuch", "/api/v1/pods/a", "/api/v1/nodes/n/nosuch"):
            refusal = await api.refused(404, api.get(path))
            assert refusal.message == "the server could not find the requested resource"

    serve(story)


@pytest.mark.parametrize(
    "query",
    [
        [("resourceVersionMatch", "Exact")],
        [("resourceVersionMatch", "Perhaps"), ("resourceVersion", "1")],
        [("resourceVersionMatch", "Exact"), ("resourceVersion", "0")],
        [("sendInitialEvents", "true")],
    ],
)
def test_parameters_of_a_list_that_contradict_each_other_are_invalid(serve, query):
    async def story(api):
        refusal = await api.refused(422, api.get(CONFIGMAPS, *query))
        assert refusal.message.startswith('ListOptions.meta.k8s.io "" is invalid: ')

    serve(story)
