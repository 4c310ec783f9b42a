"""pods/ephemeralcontainers: containers are added to a pod that runs, and nothing else changes through it."""

from __future__ import annotations

from typing import Any

PODS = "/api/v1/namespaces/default/pods"
PATH = f"{PODS}/p/ephemeralcontainers"
DEBUGGER = {"name": "debugger", "image": "busybox:1", "command": ["sh"], "targetContainerName": "main"}


def added(*containers: dict[str, Any]) -> dict[str, Any]:
    return {"spec": {"ephemeralContainers": list(containers)}}


async def with_pod(api: Any) -> Any:
    return await api.create(PODS, {
        "metadata": {"name": "p", "labels": {"a": "b"}},
        "spec": {"containers": [{"name": "main", "image": "app"}]},
    })  # fmt: skip


def test_containers_are_added_one_after_the_other_by_patch_and_put(serve):
    async def story(api):
        made = await with_pod(api)
        pod = await api.patch(PATH, added(DEBUGGER), "strategic")
        (first,) = pod["spec"]["ephemeralContainers"]
        assert first["terminationMessagePolicy"] == "File"
        assert pod["metadata"]["generation"] == made["metadata"]["generation"] + 1
        pod = await api.patch(PATH, added({**DEBUGGER, "name": "second"}), "strategic")
        assert {each["name"] for each in pod["spec"]["ephemeralContainers"]} == {"debugger", "second"}
        pod["spec"]["ephemeralContainers"].append({**DEBUGGER, "name": "third"})
        pod = await api.replace(PATH, pod)
        assert len(pod["spec"]["ephemeralContainers"]) == 3
        assert await api.get(PATH) == pod == await api.get(f"{PODS}/p")

    serve(story)


def test_nothing_else_of_the_pod_changes_through_it(serve):
    async def story(api):
        made = await with_pod(api)
        change = {
            "metadata": {"labels": {"a": "c"}, "annotations": {"x": "y"}, "finalizers": ["example.com/x"]},
            "spec": {"nodeName": "n", "containers": [{"name": "main", "image": "other"}]},
            "status": {"phase": "Running"},
        }
        change["spec"]["ephemeralContainers"] = [DEBUGGER]  # type: ignore[index]
        pod = await api.patch(PATH, change, "strategic")
        assert pod["metadata"]["labels"] == {"a": "b"}
        assert not {"annotations", "finalizers"} & pod["metadata"].keys()
        assert pod["status"] == made["status"]
        assert {**pod["spec"], "ephemeralContainers": None} == {**made["spec"], "ephemeralContainers": None}

    serve(story)


def test_a_container_that_was_added_stays_as_it_is(serve):
    async def story(api):
        await with_pod(api)
        await api.patch(PATH, added(DEBUGGER))
        for change, words in (
            (added(), "may not be removed"),
            ({"spec": {"ephemeralContainers": None}}, "may not be removed"),
            (added({**DEBUGGER, "image": "other"}), "may not be changed"),
            (added(DEBUGGER, DEBUGGER), "Duplicate value"),
            (added(DEBUGGER, {**DEBUGGER, "name": "main"}), "Duplicate value"),
            (added(DEBUGGER, {**DEBUGGER, "name": "x", "targetContainerName": "none"}), "Not found"),
            (added(DEBUGGER, {**DEBUGGER, "name": "x", "ports": [{"containerPort": 1}]}), "cannot be set"),
        ):
            refusal = await api.refused(422, api.patch(PATH, change))
            assert words in refusal.message

    serve(story)


def test_the_pod_itself_takes_none_and_a_static_pod_takes_none_at_all(serve):
    async def story(api):
        await with_pod(api)
        refusal = await api.refused(422, api.patch(f"{PODS}/p", added(DEBUGGER)))
        assert "pod updates may not change fields" in refusal.message
        mirror = {"kubernetes.io/config.mirror": "x"}
        spec = {"nodeName": "n", "containers": [{"name": "main", "image": "app"}]}
        await api.create(PODS, {"metadata": {"name": "static", "annotations": mirror}, "spec": spec})
        path = f"{PODS}/static/ephemeralcontainers"
        refusal = await api.refused(422, api.patch(path, added(DEBUGGER)))
        assert "static pods do not support ephemeral containers" in refusal.message
        await api.refused(404, api.patch(f"{PODS}/none/ephemeralcontainers", added(DEBUGGER)))

    serve(story)
