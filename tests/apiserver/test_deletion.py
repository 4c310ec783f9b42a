"""Deletion: at once, gracefully, held by finalizers, guarded by preconditions."""

from __future__ import annotations

import asyncio

import pytest

from mooring.apiserver.objects.strategies.pods import LONGEST_GRACE_S

PODS = "/api/v1/namespaces/default/pods"
CONFIGMAPS = "/api/v1/namespaces/default/configmaps"
STATEFULSETS = "/apis/apps/v1/namespaces/default/statefulsets"
ATTACHMENTS = "/apis/storage.k8s.io/v1/volumeattachments"
NAMESPACES = "/api/v1/namespaces"


async def is_gone(api, path):
    await api.refused(404, api.get(path))
    return True


def test_a_pod_on_a_node_is_given_its_grace_period(serve):
    async def story(api):
        await api.pod(node="n")
        answer = await api.delete(f"{PODS}/p")
        assert answer["metadata"]["deletionTimestamp"] == "2030-01-01T00:00:30Z"
        assert answer["metadata"]["deletionGracePeriodSeconds"] == 30
        assert answer["metadata"]["generation"] == 2
        assert await api.get(f"{PODS}/p") == answer
        await api.delete(f"{PODS}/p", {"gracePeriodSeconds": 0})
        assert await is_gone(api, f"{PODS}/p")

    serve(story)


def test_a_grace_period_only_shrinks(serve):
    async def story(api):
        await api.pod(node="n")
        await api.delete(f"{PODS}/p", {"gracePeriodSeconds": 20})
        await asyncio.sleep(3)
        for seconds, at, left in ((None, 20, 20), (25, 20, 20), (20, 20, 20), (10, 10, 10), (1, 3, 1)):
            body = {} if seconds is None else {"gracePeriodSeconds": seconds}
            meta = (await api.delete(f"{PODS}/p", body))["metadata"]
            assert meta["deletionTimestamp"] == f"2030-01-01T00:00:{at:02}Z"
            assert meta["deletionGracePeriodSeconds"] == left

    serve(story)


def test_a_deletion_that_is_under_way_advances_nothing(serve):
    async def story(api):
        await api.pod(node="n")
        await api.delete(f"{PODS}/p")
        before = api.server.store.version
        await api.delete(f"{PODS}/p")
        assert api.server.store.version == before

    serve(story)


@pytest.mark.parametrize("phase", ["", "Succeeded", "Failed"])
def test_a_pod_with_nothing_to_stop_goes_at_once(serve, phase):
    async def story(api):
        await api.pod(node="n" if phase else "")
        if phase:
            await api.patch(f"{PODS}/p/status", {"status": {"phase": phase}})
        await api.delete(f"{PODS}/p")
        assert await is_gone(api, f"{PODS}/p")

    serve(story)


def test_a_negative_grace_period_is_one_second(serve):
    async def story(api):
        await api.pod(node="n")
        answer = await api.delete(f"{PODS}/p", {"gracePeriodSeconds": -5})
        assert answer["metadata"]["deletionGracePeriodSeconds"] == 1

    serve(story)


@pytest.mark.parametrize("seconds", [2**38, 2**63 - 1])
def test_a_grace_period_without_an_end_ends_before_time_does(serve, seconds):
    async def story(api):
        pod = api.new_pod("p")
        pod["spec"]["terminationGracePeriodSeconds"] = seconds
        await api.create(PODS, pod)
        await api.create(f"{PODS}/p/binding", {"target": {"name": "n"}})
        meta = (await api.delete(f"{PODS}/p"))["metadata"]
        assert meta["deletionGracePeriodSeconds"] == LONGEST_GRACE_S
        sooner = (await api.delete(f"{PODS}/p", {"gracePeriodSeconds": 30}))["metadata"]
        assert sooner["deletionTimestamp"] == "2030-01-01T00:00:30Z"

    serve(story)


def test_a_finalizer_holds_an_object_until_it_is_removed(serve):
    async def story(api):
        await api.create(ATTACHMENTS, api.new_attachment(finalizers=["external-attacher/d"]))
        watch = await api.watch(ATTACHMENTS)
        answer = await api.delete(f"{ATTACHMENTS}/va")
        assert answer["metadata"]["deletionTimestamp"] == "2030-01-01T00:00:00Z"
        late = {"metadata": {"finalizers": ["a/b", "c/d"]}}
        refusal = await api.refused(422, api.patch(f"{ATTACHMENTS}/va", late))
        assert "no new finalizers can be added if the object is being deleted" in refusal.message
        answer = await api.patch(f"{ATTACHMENTS}/va", {"metadata": {"finalizers": None}})
        assert "finalizers" not in answer["metadata"]
        assert await is_gone(api, f"{ATTACHMENTS}/va")
        assert await watch.take(3) == [("ADDED", "va"), ("MODIFIED", "va"), ("DELETED", "va")]

    serve(story)


def test_a_finalizer_holds_a_pod_after_its_grace_period(serve):
    async def story(api):
        await api.pod(node="n", finalizers=["a/b"])
        await api.delete(f"{PODS}/p")
        answer = await api.patch(f"{PODS}/p", {"metadata": {"finalizers": []}})
        assert answer["metadata"]["deletionGracePeriodSeconds"] == 30, "its processes are still to be stopped"
        await api.get(f"{PODS}/p")
        await api.delete(f"{PODS}/p", {"gracePeriodSeconds": 0})
        assert await is_gone(api, f"{PODS}/p")

        await api.pod("q", node="n", finalizers=["a/b"])
        await api.delete(f"{PODS}/q")
        answer = await api.delete(f"{PODS}/q", {"gracePeriodSeconds": 0})
        assert answer["metadata"]["deletionGracePeriodSeconds"] == 0
        await api.patch(f"{PODS}/q", {"metadata": {"finalizers": []}})
        assert await is_gone(api, f"{PODS}/q")

    serve(story)


def test_a_delete_can_name_the_one_object_that_it_means(serve):
    async def story(api):
        made = (await api.create(ATTACHMENTS, api.new_attachment()))["metadata"]
        refusal = await api.refused(409, api.delete(f"{ATTACHMENTS}/va", {"preconditions": {"uid": "other"}}))
        assert refusal.reason == "Conflict"
        assert refusal.message == (
            'Operation cannot be fulfilled on VolumeAttachment.storage.k8s.io "va": the UID in the precondition '
            "(other) "
            f"does not match the UID in record ({made['uid']}). The object might have been deleted and then recreated"
        )
        await api.patch(f"{ATTACHMENTS}/va", {"metadata": {"annotations": {"mooring.dev/detaching": "yes"}}})
        stale = {"uid": made["uid"], "resourceVersion": made["resourceVersion"]}
        refusal = await api.refused(409, api.delete(f"{ATTACHMENTS}/va", {"preconditions": stale}))
        assert "The object might have been modified" in refusal.message
        now = (await api.get(f"{ATTACHMENTS}/va"))["metadata"]
        fresh = {"uid": now["uid"], "resourceVersion": now["resourceVersion"]}
        assert (await api.delete(f"{ATTACHMENTS}/va", {"preconditions": fresh}))["kind"] == "VolumeAttachment"

    serve(story)


def test_a_kind_that_is_not_returned_is_answered_with_a_status(serve):
    async def story(api):
        made = await api.create(CONFIGMAPS, {"metadata": {"name": "a"}})
        answer = await api.delete(f"{CONFIGMAPS}/a")
        assert (answer["kind"], answer["status"]) == ("Status", "Success")
        assert answer["details"] == {"name": "a", "kind": "configmaps", "uid": made["metadata"]["uid"]}

    serve(story)


@pytest.mark.parametrize(
    ("options", "finalizers"),
    [
        ({"propagationPolicy": "Foreground"}, ["foregroundDeletion"]),
        ({"propagationPolicy": "Orphan"}, ["orphan"]),
        ({"orphanDependents": True}, ["orphan"]),
    ],
)
def test_the_garbage_collector_is_told_by_finalizers(serve, options, finalizers):
    async def story(api):
        await api.create(STATEFULSETS, api.new_statefulset())
        answer = await api.delete(f"{STATEFULSETS}/web", options)
        assert answer["metadata"]["finalizers"] == finalizers
        assert answer["metadata"]["deletionTimestamp"]

    serve(story)


def test_a_background_deletion_removes_at_once(serve):
    async def story(api):
        await api.create(STATEFULSETS, api.new_statefulset())
        await api.delete(f"{STATEFULSETS}/web", {"propagationPolicy": "Background"})
        assert await is_gone(api, f"{STATEFULSETS}/web")

    serve(story)


@pytest.mark.parametrize(
    ("options", "code"),
    [
        ({"propagationPolicy": "Sideways"}, 422),
        ({"gracePeriodSeconds": "soon"}, 400),
        ({"preconditions": 1}, 400),
        ([], 400),
    ],
)
def test_options_that_make_no_sense_are_refused(serve, options, code):
    async def story(api):
        await api.create(CONFIGMAPS, {"metadata": {"name": "a"}})
        await api.refused(code, api.delete(f"{CONFIGMAPS}/a", options))
        await api.get(f"{CONFIGMAPS}/a")

    serve(story)


def test_a_collection_is_deleted_as_far_as_it_is_selected(serve):
    async def story(api):
        for name, app in (("a", "web"), ("b", "db"), ("c", "web")):
            await api.create(CONFIGMAPS, {"metadata": {"name": name, "labels": {"app": app}}})
        answer = await api.send("DELETE", CONFIGMAPS, None, [("labelSelector", "app=web")])
        assert [item["metadata"]["name"] for item in answer["items"]] == ["a", "c"]
        assert await api.names(CONFIGMAPS) == ["b"]

    serve(story)


def test_a_namespace_goes_in_two_steps(serve):
    async def story(api):
        made = await api.create(NAMESPACES, {"metadata": {"name": "x"}})
        assert made["spec"] == {"finalizers": ["kubernetes"]}
        assert made["status"] == {"phase": "Active"}
        assert made["metadata"]["labels"] == {"kubernetes.io/metadata.name": "x"}
        answer = await api.delete(f"{NAMESPACES}/x")
        assert answer["status"]["phase"] == "Terminating"
        assert answer["metadata"]["deletionTimestamp"]
        await api.replace(f"{NAMESPACES}/x", answer | {"spec": {}})
        assert (await api.get(f"{NAMESPACES}/x"))["spec"] == {"finalizers": ["kubernetes"]}
        answer = await api.get(f"{NAMESPACES}/x")
        await api.replace(f"{NAMESPACES}/x/finalize", answer | {"spec": {"finalizers": []}})
        assert await is_gone(api, f"{NAMESPACES}/x")

    serve(story)


def test_the_namespaces_that_always_exist_cannot_be_deleted(serve):
    async def story(api):
        for name in ("default", "kube-system", "kube-public"):
            refusal = await api.refused(403, api.delete(f"{NAMESPACES}/{name}"))
            assert refusal.message == f'namespaces "{name}" is forbidden: this namespace may not be deleted'

    serve(story)
