"""The kinds that only upstream's controllers act on: they are stored with their defaults and rules."""

from __future__ import annotations

import pytest

TEMPLATE = {"metadata": {"labels": {"a": "b"}}, "spec": {"containers": [{"name": "c", "image": "x"}]}}


def job_template(policy="Never"):
    return {"spec": TEMPLATE["spec"] | {"restartPolicy": policy}}


def test_a_daemon_set_has_its_defaults_and_counts(serve):
    async def story(api):
        body = {
            "metadata": {"name": "d"},
            "spec": {"selector": {"matchLabels": {"a": "b"}}, "template": TEMPLATE},
        }
        made = await api.create("/apis/apps/v1/namespaces/default/daemonsets", body)
        assert made["spec"]["updateStrategy"]["rollingUpdate"] == {"maxUnavailable": 1, "maxSurge": 0}
        assert made["status"]["desiredNumberScheduled"] == 0

    serve(story)


def test_a_replication_controller_takes_selector_and_labels_from_its_template(serve):
    async def story(api):
        path = "/api/v1/namespaces/default/replicationcontrollers"
        made = await api.create(path, {"metadata": {"name": "r"}, "spec": {"template": TEMPLATE}})
        assert (made["spec"]["selector"], made["metadata"]["labels"], made["spec"]["replicas"]) == (
            {"a": "b"},
            {"a": "b"},
            1,
        )
        assert (await api.get(f"{path}/r/scale"))["status"]["selector"] == "a=b"

    serve(story)


def test_a_job_selects_its_pods_by_its_own_uid(serve):
    async def story(api):
        path = "/apis/batch/v1/namespaces/default/jobs"
        made = await api.create(path, {"metadata": {"name": "j"}, "spec": {"template": job_template()}})
        uid = made["metadata"]["uid"]
        assert made["spec"]["selector"]["matchLabels"] == {"batch.kubernetes.io/controller-uid": uid}
        assert made["spec"]["template"]["metadata"]["labels"]["job-name"] == "j"
        assert (made["spec"]["completions"], made["spec"]["parallelism"], made["spec"]["backoffLimit"]) == (
            1,
            1,
            6,
        )
        always = {"metadata": {"name": "k"}, "spec": {"template": job_template("Always")}}
        await api.refused(422, api.create(path, always))

    serve(story)


def test_a_cron_job_needs_a_schedule(serve):
    async def story(api):
        path = "/apis/batch/v1/namespaces/default/cronjobs"
        spec = {"schedule": "* * * * *", "jobTemplate": {"spec": {"template": job_template()}}}
        made = await api.create(path, {"metadata": {"name": "c"}, "spec": spec})
        assert (made["spec"]["concurrencyPolicy"], made["spec"]["suspend"]) == ("Allow", False)
        await api.refused(422, api.create(path, {"metadata": {"name": "d"}, "spec": spec | {"schedule": ""}}))

    serve(story)


@pytest.mark.parametrize(
    ("path", "body", "change"),
    [
        ("resource.k8s.io/v1/namespaces/default/resourceclaims", {"spec": {"devices": {}}},
         {"spec": {"devices": {"requests": [{"name": "r"}]}}}),
        ("resource.k8s.io/v1/resourceslices",
         {"spec": {"driver": "d", "pool": {"name": "p", "resourceSliceCount": 1}, "allNodes": True}},
         {"spec": {"driver": "e"}}),
        ("storage.k8s.io/v1/namespaces/default/csistoragecapacities", {"storageClassName": "s", "capacity": "1Gi"},
         {"storageClassName": "t"}),
        ("discovery.k8s.io/v1/namespaces/default/endpointslices", {"addressType": "IPv4", "endpoints": []},
         {"addressType": "IPv6"}),
    ],
)  # fmt: skip
def test_what_is_fixed_at_creation_cannot_change(serve, path, body, change):
    async def story(api):
        made = await api.create(f"/apis/{path}", {"metadata": {"name": "x"}} | body)
        assert made["metadata"]["name"] == "x"
        refusal = await api.refused(422, api.patch(f"/apis/{path}/x", change))
        assert "field is immutable" in refusal.message

    serve(story)


def test_the_system_priority_classes_are_always_there(serve):
    async def story(api):
        names = await api.names("/apis/scheduling.k8s.io/v1/priorityclasses")
        assert names == ["system-cluster-critical", "system-node-critical"]

    serve(story)
