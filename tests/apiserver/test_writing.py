"""create, update, patch: what the server sets, what it refuses, and what it leaves as it was."""

from __future__ import annotations

import asyncio

import pytest

PODS = "/api/v1/namespaces/default/pods"
CONFIGMAPS = "/api/v1/namespaces/default/configmaps"
NODES = "/api/v1/nodes"
ATTACHMENTS = "/apis/storage.k8s.io/v1/volumeattachments"
STATEFULSETS = "/apis/apps/v1/namespaces/default/statefulsets"
LEASES = "/apis/coordination.k8s.io/v1/namespaces/kube-node-lease/leases"


def test_the_server_sets_what_is_its_own(serve):
    async def story(api):
        lies = {"uid": "mine", "creationTimestamp": "2000-01-01T00:00:00Z", "generation": 7, "selfLink": "/x"}
        sent = api.new_statefulset()
        sent["metadata"] |= lies | {"deletionTimestamp": "2000-01-01T00:00:00Z"}
        made = (await api.create(STATEFULSETS, sent))["metadata"]
        assert made["uid"] != "mine"
        assert made["creationTimestamp"] == "2030-01-01T00:00:00Z"
        assert made["generation"] == 1
        assert made["namespace"] == "default"
        assert not {"selfLink", "deletionTimestamp"} & made.keys()

    serve(story)


def test_a_name_can_be_generated(serve):
    async def story(api):
        names = [
            (await api.create(CONFIGMAPS, {"metadata": {"generateName": "x-"}}))["metadata"]["name"]
            for _ in range(20)
        ]
        assert len(set(names)) == 20
        assert all(name.startswith("x-") and len(name) == 7 for name in names)

    serve(story)


def test_a_name_can_be_taken_once(serve):
    async def story(api):
        await api.create(CONFIGMAPS, {"metadata": {"name": "a"}})
        refusal = await api.refused(409, api.create(CONFIGMAPS, {"metadata": {"name": "a"}}))
        assert (refusal.reason, refusal.message) == ("AlreadyExists", 'configmaps "a" already exists')

    serve(story)


def test_two_creates_at_once_make_one_object(serve):
    async def story(api):
        body = {"metadata": {"name": "a"}}
        results = await asyncio.gather(
            *(api.create(CONFIGMAPS, body) for _ in range(3)), return_exceptions=True
        )
        assert sum(isinstance(result, dict) for result in results) == 1

    serve(story)


def test_a_namespace_must_exist_and_not_be_going(serve):
    async def story(api):
        refusal = await api.refused(
            404, api.create("/api/v1/namespaces/no/configmaps", {"metadata": {"name": "a"}})
        )
        assert refusal.message == 'namespaces "no" not found'
        await api.create("/api/v1/namespaces", {"metadata": {"name": "going"}})
        await api.delete("/api/v1/namespaces/going")
        refusal = await api.refused(
            403, api.create("/api/v1/namespaces/going/configmaps", {"metadata": {"name": "a"}})
        )
        assert "because it is being terminated" in refusal.message
        assert refusal.status["details"]["causes"][0]["reason"] == "NamespaceTerminating"

    serve(story)


@pytest.mark.parametrize(
    ("metadata", "code"),
    [
        ({}, 422),
        ({"name": "UPPER"}, 422),
        ({"name": "a/b"}, 422),
        ({"name": "x" * 254}, 422),
        ({"name": 5}, 400),
        ({"name": "a", "labels": {"a": 1}}, 400),
        ({"name": "a", "labels": {"-": "x"}}, 422),
        ({"name": "a", "labels": {"a": "not valid"}}, 422),
        ({"name": "a", "labels": []}, 400),
        ({"name": "a", "annotations": {"a": "x" * 300000}}, 422),
        ({"name": "a", "finalizers": "x"}, 400),
        ({"name": "a", "finalizers": ["not valid"]}, 422),
        ({"name": "a", "ownerReferences": [{}]}, 422),
        ({"name": "a", "namespace": "other"}, 400),
        ({"name": "a", "resourceVersion": "5"}, 500),
    ],
)
def test_metadata_that_is_wrong_is_refused(serve, metadata, code):
    async def story(api):
        await api.refused(code, api.create(CONFIGMAPS, {"metadata": metadata}))

    serve(story)


def test_a_refusal_names_every_wrong_field(serve):
    async def story(api):
        sent = {"metadata": {"name": "x"}, "spec": {"containers": [{"name": "A"}]}}
        refusal = await api.refused(422, api.create(PODS, sent))
        assert refusal.reason == "Invalid"
        causes = refusal.status["details"]["causes"]
        assert [cause["field"] for cause in causes] == ["spec.containers[0].name", "spec.containers[0].image"]
        assert refusal.message.startswith(
            'Pod "x" is invalid: [spec.containers[0].name: Invalid value: "A": '
        )

    serve(story)


def test_an_object_of_another_kind_is_refused(serve):
    async def story(api):
        body = {"kind": "Secret", "metadata": {"name": "a"}}
        await api.refused(400, api.create(CONFIGMAPS, body))
        await api.refused(400, api.create(CONFIGMAPS, {"apiVersion": "v2", "metadata": {"name": "a"}}))

    serve(story)


def test_a_dry_run_answers_and_stores_nothing(serve):
    async def story(api):
        made = await api.create(CONFIGMAPS, {"metadata": {"name": "a"}}, ("dryRun", "All"))
        assert made["metadata"]["uid"]
        await api.refused(404, api.get(f"{CONFIGMAPS}/a"))
        await api.create(CONFIGMAPS, {"metadata": {"name": "a"}})
        answer = await api.patch(f"{CONFIGMAPS}/a", {"data": {"k": "v"}}, "merge", ("dryRun", "All"))
        assert answer["data"] == {"k": "v"}
        assert "data" not in await api.get(f"{CONFIGMAPS}/a")
        await api.delete(f"{CONFIGMAPS}/a", {"dryRun": ["All"]})
        await api.get(f"{CONFIGMAPS}/a")
        await api.refused(422, api.create(CONFIGMAPS, {"metadata": {"name": "b"}}, ("dryRun", "Some")))

    serve(story)


def test_an_update_of_an_old_version_is_a_conflict(serve):
    async def story(api):
        old = await api.create(CONFIGMAPS, {"metadata": {"name": "a"}})
        await api.replace(f"{CONFIGMAPS}/a", old | {"data": {"n": "1"}})
        refusal = await api.refused(409, api.replace(f"{CONFIGMAPS}/a", old | {"data": {"n": "2"}}))
        assert refusal.reason == "Conflict"
        assert refusal.message == (
            'Operation cannot be fulfilled on configmaps "a": the object has been modified; '
            "please apply your changes to the latest version and try again"
        )
        old["metadata"].pop("resourceVersion")
        assert (await api.replace(f"{CONFIGMAPS}/a", old | {"data": {"n": "3"}}))["data"] == {"n": "3"}

    serve(story)


def test_a_patch_that_names_an_old_version_is_a_conflict(serve):
    async def story(api):
        old = await api.create(NODES, {"metadata": {"name": "n"}})
        version = old["metadata"]["resourceVersion"]
        await api.patch(f"{NODES}/n", {"metadata": {"labels": {"a": "b"}, "resourceVersion": version}})
        for kind in ("merge", "strategic"):
            body = {"metadata": {"labels": {"a": "c"}, "resourceVersion": version}}
            refusal = await api.refused(409, api.patch(f"{NODES}/n", body, kind))
            assert "the object has been modified" in refusal.message
        body = {"metadata": {"annotations": {"a": "c"}, "resourceVersion": version}}
        await api.refused(409, api.patch(f"{NODES}/n/status", body))

    serve(story)


def test_a_uid_guards_an_update_and_a_patch(serve):
    """Upstream answers a PUT of another uid with a conflict, and a patch of it as a change of an immutable
    field."""

    async def story(api):
        old = await api.create(CONFIGMAPS, {"metadata": {"name": "a"}})
        uid = old["metadata"]["uid"]
        wrong = {"metadata": {"name": "a", "uid": "other"}}
        refusal = await api.refused(409, api.replace(f"{CONFIGMAPS}/a", wrong))
        assert (
            f"Precondition failed: UID in precondition: other, UID in object meta: {uid}" in refusal.message
        )
        refusal = await api.refused(422, api.patch(f"{CONFIGMAPS}/a", {"metadata": {"uid": "other"}}))
        assert 'metadata.uid: Invalid value: "other": field is immutable' in refusal.message
        both = {"metadata": {"uid": "other", "resourceVersion": "1"}}
        await api.refused(409, api.patch(f"{CONFIGMAPS}/a", both))
        await api.patch(f"{CONFIGMAPS}/a", {"metadata": {"uid": uid}})

    serve(story)


@pytest.mark.parametrize(
    ("body", "kind"),
    [
        ({"data": {"k": "v"}}, "merge"),
        ({"data": {"k": "v"}}, "strategic"),
        ([{"op": "test", "path": "/data/k", "value": "v"}], "json"),
        ({}, "merge"),
        ({"metadata": {"labels": None, "annotations": {}}}, "merge"),
    ],
)
def test_a_patch_that_changes_nothing_advances_nothing(serve, body, kind):
    async def story(api):
        made = await api.create(CONFIGMAPS, {"metadata": {"name": "a"}, "data": {"k": "v"}})
        before = api.server.store.version
        answer = await api.patch(f"{CONFIGMAPS}/a", body, kind)
        assert answer == made
        assert api.server.store.version == before
        await api.replace(f"{CONFIGMAPS}/a", made)
        assert api.server.store.version == before

    serve(story)


def test_what_an_update_cannot_change_stays(serve):
    async def story(api):
        made = await api.create(CONFIGMAPS, {"metadata": {"name": "a"}})
        past = "2000-01-01T00:00:00Z"
        answer = await api.patch(
            f"{CONFIGMAPS}/a", {"metadata": {"creationTimestamp": past, "generation": 9}}
        )
        assert answer["metadata"] == made["metadata"]
        await api.refused(422, api.patch(f"{CONFIGMAPS}/a", {"metadata": {"deletionTimestamp": past}}))
        await api.refused(400, api.patch(f"{CONFIGMAPS}/a", {"metadata": {"name": "b"}}))
        await api.refused(400, api.patch(f"{CONFIGMAPS}/a", {"metadata": {"namespace": "b"}}))

    serve(story)


def test_the_generation_counts_changes_of_the_spec(serve):
    async def story(api):
        await api.create(STATEFULSETS, api.new_statefulset())
        path = f"{STATEFULSETS}/web"
        assert (await api.patch(path, {"metadata": {"labels": {"a": "b"}}}))["metadata"]["generation"] == 1
        assert (await api.patch(path, {"spec": {"replicas": 3}}))["metadata"]["generation"] == 2
        assert (await api.patch(f"{path}/status", {"status": {"replicas": 3}}))["metadata"]["generation"] == 2

    serve(story)


def test_status_and_the_rest_are_written_apart(serve):
    async def story(api):
        await api.create(STATEFULSETS, api.new_statefulset())
        path = f"{STATEFULSETS}/web"
        both = {"spec": {"replicas": 5}, "status": {"replicas": 4}}
        made = await api.patch(path, both)
        assert (made["spec"]["replicas"], made["status"]["replicas"]) == (5, 0)
        made = await api.patch(f"{path}/status", {"spec": {"replicas": 9}, "status": {"replicas": 4}})
        assert (made["spec"]["replicas"], made["status"]["replicas"]) == (5, 4)
        made = await api.replace(f"{path}/status", made | {"spec": {}, "status": {"replicas": 1}})
        assert (made["spec"]["replicas"], made["status"]) == (5, {"replicas": 1, "availableReplicas": 0})

    serve(story)


def test_a_nodes_status_takes_annotations_with_it(serve):
    """The handshake with the node rests on this: the un-report always changes the Node, in one write with
    its status."""

    async def story(api):
        sent = {"metadata": {"name": "n"}, "status": {"volumesInUse": ["v"]}}
        made = await api.create(NODES, sent)
        assert made["status"]["volumesInUse"] == ["v"], "a registration carries its status"
        body = {
            "metadata": {"annotations": {"mooring.dev/volumes-attached-write": "7"}},
            "status": {"volumesAttached": []},
        }
        answer = await api.patch(f"{NODES}/n/status", body)
        assert answer["metadata"]["annotations"] == {"mooring.dev/volumes-attached-write": "7"}
        assert answer["metadata"]["resourceVersion"] != made["metadata"]["resourceVersion"]

    serve(story)


def test_a_volume_attachments_status_takes_nothing_with_it(serve):
    async def story(api):
        await api.create(ATTACHMENTS, api.new_attachment(annotations={"a": "1"}))
        body = {
            "metadata": {"annotations": {"a": "2"}, "finalizers": ["x.y/z"]},
            "status": {"attached": True},
        }
        answer = await api.patch(f"{ATTACHMENTS}/va/status", body)
        assert answer["status"]["attached"] is True
        assert answer["metadata"]["annotations"] == {"a": "1"}
        assert "finalizers" not in answer["metadata"]
        answer = await api.patch(f"{ATTACHMENTS}/va", {"status": {"attached": False}})
        assert answer["status"]["attached"] is True

    serve(story)


def test_a_lease_is_created_by_the_update_that_finds_none(serve):
    async def story(api):
        lease = {"metadata": {"name": "n"}, "spec": {"holderIdentity": "n"}}
        made = await api.replace(f"{LEASES}/n", lease)
        assert made["spec"] == {"holderIdentity": "n"}
        refusal = await api.refused(422, api.replace(f"{LEASES}/n", lease))
        assert (
            "metadata.resourceVersion: Invalid value: 0: must be specified for an update" in refusal.message
        )
        await api.refused(404, api.replace(f"{CONFIGMAPS}/no", {"metadata": {"name": "no"}}))

    serve(story)


def test_events_of_both_groups_are_the_same_objects(serve):
    async def story(api):
        new = "/apis/events.k8s.io/v1/namespaces/kube-system/events"
        about = {"regarding": {"namespace": "kube-system", "name": "p"}, "note": "hello"}
        how = {
            "reason": "Made",
            "action": "Make",
            "reportingController": "example.com/c",
            "reportingInstance": "c-1",
        }
        when = {"type": "Normal", "eventTime": "2030-01-01T00:00:00.000000Z"}
        sent = {"metadata": {"name": "e"}} | about | how | when
        made = await api.create(new, sent)
        assert (made["apiVersion"], made["note"]) == ("events.k8s.io/v1", "hello")
        old = await api.get("/api/v1/namespaces/kube-system/events/e")
        assert (old["apiVersion"], old["message"], old["involvedObject"]["name"]) == ("v1", "hello", "p")
        series = {"count": 2, "lastObservedTime": "2030-01-01T00:00:00.000000Z"}
        answer = await api.patch(f"{new}/e", {"series": series})
        assert answer["series"] == series
        assert (await api.get(new))["items"][0]["series"] == series
        await api.refused(422, api.patch(f"{new}/e", {"note": "bye"}))
        await api.refused(422, api.patch(f"{new}/e", {"note": 5}))
        sent["metadata"] = {"name": "f"}
        sent["type"] = "Odd"
        await api.refused(422, api.create(new, sent))

    serve(story)


def test_a_patch_of_an_unknown_type_is_told_which_are_known(serve):
    async def story(api):
        await api.create(CONFIGMAPS, {"metadata": {"name": "a"}})
        refusal = await api.refused(
            415, api.send("PATCH", f"{CONFIGMAPS}/a", {}, content_type="application/json")
        )
        assert "application/merge-patch+json" in refusal.message

    serve(story)


def test_a_secrets_text_becomes_data(serve):
    async def story(api):
        sent = {"metadata": {"name": "s"}, "stringData": {"k": "v"}, "data": {"o": "eA=="}}
        made = await api.create("/api/v1/namespaces/default/secrets", sent)
        assert made["data"] == {"o": "eA==", "k": "dg=="}
        assert "stringData" not in made
        assert made["type"] == "Opaque"

    serve(story)


def test_the_answer_can_be_a_manifest_in_yaml(serve):
    async def story(api):
        body = b"metadata:\n  name: a\ndata:\n  k: v\n"
        made = await api.send("POST", CONFIGMAPS, body, content_type="application/yaml")
        assert made["data"] == {"k": "v"}

    serve(story)


def test_a_method_that_a_path_does_not_have_is_refused(serve):
    async def story(api):
        for method, path in (
            ("PUT", CONFIGMAPS),
            ("POST", f"{CONFIGMAPS}/a"),
            ("DELETE", f"{PODS}/a/status"),
        ):
            refusal = await api.refused(405, api.send(method, path, {}))
            assert refusal.reason == "MethodNotAllowed"

    serve(story)
