"""A client is told of what the server keeps although nothing acts on it."""

from __future__ import annotations

import json

import pytest

from mooring.apiserver.message import ADMIN, Request
from mooring.apiserver.objects.kinds import BUILT_IN
from mooring.apiserver.requests.unattended import warning_of

BASE = "/api/v1/namespaces/default"
POD = {
    "metadata": {"labels": {"app": "x"}},
    "spec": {"containers": [{"name": "c", "image": "i"}], "restartPolicy": "Never"},
}
CRON_JOB = {
    "apiVersion": "batch/v1",
    "kind": "CronJob",
    "metadata": {"name": "c"},
    "spec": {"schedule": "* * * * *", "jobTemplate": {"spec": {"template": POD}}},
}


async def warning(api, method, path, body, **headers) -> str:
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    request = Request(method, path, (), named, json.dumps(body).encode(), ADMIN, warnings=[])
    answer = await api.server.handle(request)
    assert answer.status < 300, answer.body
    return answer.headers.get("warning", "")


def test_a_cron_job_is_kept_with_a_warning_and_only_when_its_spec_is_written(serve):
    async def story(api):
        path = "/apis/batch/v1/namespaces/default/cronjobs"
        assert "no Jobs are made of it" in await warning(api, "POST", path, CRON_JOB)
        merge = {"content_type": "application/merge-patch+json"}
        assert not await warning(api, "PATCH", f"{path}/c", {"metadata": {"labels": {"a": "b"}}}, **merge)
        assert "CronJob" in await warning(api, "PATCH", f"{path}/c", {"spec": {"suspend": True}}, **merge)

    serve(story)


@pytest.mark.parametrize(
    ("spec", "expected"),
    [
        ({"clusterIP": "None", "selector": {"app": "x"}}, ""),
        ({"type": "ExternalName", "externalName": "example.org"}, ""),
        ({"ports": [{"port": 80}]}, "nothing is routed to it"),
    ],
)
def test_a_service_with_an_address_has_none_here(serve, spec, expected):
    async def story(api):
        body = {"apiVersion": "v1", "kind": "Service", "metadata": {"name": "s"}, "spec": spec}
        words = await warning(api, "POST", f"{BASE}/services", body)
        assert bool(words) is bool(expected)
        assert expected in words

    serve(story)


def test_a_quota_names_what_is_not_enforced(serve):
    async def story(api):
        hard = {"requests.storage": "1Gi", "pods": "3", "requests.cpu": "1"}
        body = {
            "apiVersion": "v1",
            "kind": "ResourceQuota",
            "metadata": {"name": "q"},
            "spec": {"hard": hard},
        }
        words = await warning(api, "POST", f"{BASE}/resourcequotas", body)
        assert "not pods, requests.cpu" in words

    serve(story)


@pytest.mark.parametrize(
    ("spec", "expected"),
    [
        ({}, ""),
        ({"managedBy": "example.com/another"}, "leaves this Job to its manager, example.com/another"),
        ({"podFailurePolicy": {"rules": []}}, "runs Jobs without podFailurePolicy"),
    ],
)
def test_a_job_is_run_and_what_of_it_is_not_acted_on_is_named(serve, spec, expected):
    async def story(api):
        body = {"apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": "j"}}
        words = await warning(
            api, "POST", "/apis/batch/v1/namespaces/default/jobs", {**body, "spec": {"template": POD, **spec}}
        )
        assert bool(words) is bool(expected)
        assert expected in words

    serve(story)


@pytest.mark.parametrize("kind", ["Pod", "PersistentVolumeClaim", "StatefulSet", "Deployment", "ConfigMap"])
def test_what_is_acted_on_has_no_warning(kind):
    [storage] = [each.storage for each in BUILT_IN.all if each.name == kind]
    assert warning_of(storage, {"kind": kind, "spec": {}}) is None


def test_every_kind_that_is_named_is_served():
    from mooring.apiserver.requests.unattended import _UNATTENDED

    assert set(_UNATTENDED) <= {kind.storage for kind in BUILT_IN.all}
