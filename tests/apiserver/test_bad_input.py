"""Whatever a client sends, the answer is a Status with the right code, never an exception, and the server
goes on."""

from __future__ import annotations

import json
from copy import deepcopy

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from mooring.apiserver import ADMIN, Request
from mooring.apiserver.objects.kinds import KINDS

CONFIGMAPS = "/api/v1/namespaces/default/configmaps"
PODS = "/api/v1/namespaces/default/pods"
JSON_TYPES = {
    "json": "application/json-patch+json",
    "merge": "application/merge-patch+json",
    "strategic": "application/strategic-merge-patch+json",
}


@pytest.mark.parametrize(
    ("body", "content_type", "code"),
    [
        (b"", "application/json", 400),
        (b"{", "application/json", 400),
        (b"[]", "application/json", 400),
        (b"\xff\xfe", "application/json", 400),
        (b'{"metadata": {"name": "\xff"}}', "application/json", 400),
        (b"a: b: c", "application/yaml", 400),
        (b"- a", "application/yaml", 400),
        (b"a: &a [*a]", "application/yaml", 400),
        (b"? [a]\n: b", "application/yaml", 400),
        (b"!!python/object:os.system {}", "application/yaml", 422),
        (b"{}", "text/plain", 415),
        (b"x" * (3 * 1024 * 1024 + 1), "application/json", 413),
        (b"[" * 100_000, "application/json", 400),
        (b'{"a":' * 500 + b"1" + b"}" * 500, "application/json", 400),
        (b'{"metadata": "x"}', "application/json", 400),
        (b'{"metadata": {"name": "a"}, "kind": 5}', "application/json", 400),
        (b'{"metadata": null}', "application/json", 422),
    ],
)
def test_a_body_that_is_no_object_is_refused(serve, body, content_type, code):
    async def story(api):
        refusal = await api.refused(code, api.send("POST", CONFIGMAPS, body, content_type=content_type))
        assert refusal.status["kind"] == "Status"
        assert await api.names(CONFIGMAPS) == []

    serve(story)


anything = st.recursive(
    st.none() | st.booleans() | st.integers(-5, 5) | st.sampled_from(["", "x", "1Gi"]),
    lambda inner: (
        st.lists(inner, max_size=2) | st.dictionaries(st.sampled_from(["name", "x", ""]), inner, max_size=2)
    ),
    max_leaves=4,
)

FULL = {
    "spec": {
        "containers": [
            {
                "name": "c",
                "image": "i",
                "volumeMounts": [{"name": "v", "mountPath": "/"}],
                "ports": [{}],
                "env": [{}],
            }
        ],
        "volumes": [{"name": "v", "configMap": {"name": "x"}}],
        "tolerations": [{"key": "x"}],
        "accessModes": ["ReadWriteOnce"],
        "resources": {"requests": {"storage": "1Gi"}},
        "capacity": {"storage": "1Gi"},
        "csi": {"driver": "d", "volumeHandle": "h"},
        "attacher": "a",
        "nodeName": "n",
        "source": {"persistentVolumeName": "p"},
        "selector": {"matchLabels": {"a": "b"}},
        "template": {
            "metadata": {"labels": {"a": "b"}},
            "spec": {"containers": [{"name": "c", "image": "i"}]},
        },
        "replicas": 1,
        "updateStrategy": {"type": "RollingUpdate"},
        "volumeClaimTemplates": [{"metadata": {"name": "x"}, "spec": {}}],
        "drivers": [{"name": "d", "nodeID": "n"}],
        "finalizers": ["x"],
        "ports": [{"port": 1}],
        "minAvailable": 1,
        "terminationGracePeriodSeconds": 3,
        "activeDeadlineSeconds": 3,
        "unschedulable": False,
        "taints": [{"key": "a", "effect": "NoExecute"}],
        "holderIdentity": "x",
        "volumeName": "v",
        "claimRef": {"name": "c"},
        "nodeAffinity": {"required": {}},
        "providerID": "x",
        "schedulingGates": [{"name": "x"}],
        "readinessGates": [{"conditionType": "x"}],
        "initContainers": [{"name": "i", "image": "i", "restartPolicy": "Always"}],
        "tokenRequests": [{"audience": "x"}],
        "volumeLifecycleModes": ["Persistent"],
    },
    "status": {
        "observedGeneration": 1,
        "disruptionsAllowed": 1,
        "readyReplicas": 1,
        "phase": "Running",
        "conditions": [{"type": "Ready", "status": "True"}],
        "containerStatuses": [
            {
                "name": "c",
                "restartCount": 1,
                "state": {"running": {}},
                "lastState": {"terminated": {"finishedAt": "2020-01-01T00:00:00Z"}},
            }
        ],
        "initContainerStatuses": [{"name": "i", "state": {"terminated": {"exitCode": 0}}}],
        "addresses": [{"type": "InternalIP", "address": "x"}],
        "capacity": {"storage": "1Gi"},
    },
    "provisioner": "d",
    "driverName": "d",
    "involvedObject": {"namespace": "default"},
    "regarding": {"namespace": "default"},
    "data": {"a": "b"},
    "stringData": {"a": "b"},
    "roleRef": {"name": "x"},
    "lastTimestamp": "2020-01-01T00:00:00Z",
    "eventTime": "2020-01-01T00:00:00Z",
    "series": {"count": 1, "lastObservedTime": "2020-01-01T00:00:00Z"},
    "count": 1,
    "source": {"component": "x"},
    "revision": 1,
    "value": 1,
    "parameters": {"a": "b"},
    "reclaimPolicy": "Delete",
}


def paths(value, path=()):
    """Every place in a JSON value."""
    yield path
    children = (
        value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    )
    for key, child in children:
        yield from paths(child, (*path, key))


PLACES = [path for path in paths(FULL) if path]


def spoiled(place, junk):
    obj = deepcopy(FULL)
    parent = obj
    for step in place[:-1]:
        parent = parent[step]
    parent[place[-1]] = junk
    return obj


def collection(kind):
    root = f"/apis/{kind.api_version}" if kind.group else "/api/v1"
    return f"{root}/namespaces/default/{kind.plural}" if kind.namespaced else f"{root}/{kind.plural}"


@given(st.lists(st.tuples(st.sampled_from(KINDS), st.sampled_from(PLACES), anything), max_size=12))
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=150, deadline=None)
def test_an_object_of_any_form_is_stored_or_refused(serve, cases):
    """Create, print as a table, patch, delete: of whatever was let in, nothing breaks later."""

    async def story(api):
        async def tried(method, path, body=None, **headers):
            data = b"" if body is None else json.dumps(body).encode()
            answer = await api.server.handle(Request(method, path, (), headers, data, ADMIN))
            assert answer.status < 500, (method, path, body, answer.body)
            return answer.status

        for number, (kind, place, junk) in enumerate(cases):
            path = collection(kind)
            obj = spoiled(place, junk) | {"metadata": {"name": f"x{number}"}}
            patch = {"content-type": "application/merge-patch+json"}
            await tried("POST", path, obj)
            await tried("PATCH", f"{path}/x{number}", spoiled(place, junk), **patch)
            if kind.has_status:
                await tried("PATCH", f"{path}/x{number}/status", spoiled(place, junk), **patch)
            if "eviction" in kind.subresources:
                await tried("POST", f"{path}/x{number}/eviction", {})
            if "scale" in kind.subresources:
                await tried("GET", f"{path}/x{number}/scale")
            table = {"accept": "application/json;as=Table;v=v1;g=meta.k8s.io"}
            await tried("GET", path, **table)
            await tried("DELETE", f"{path}/x{number}", {"gracePeriodSeconds": 0})

    serve(story)


@given(
    st.sampled_from(sorted(JSON_TYPES)),
    anything
    | st.lists(
        st.fixed_dictionaries(
            {
                "op": st.sampled_from(["add", "remove", "test"]),
                "path": st.sampled_from(["", "/", "/metadata", "/data", "/data/a"]),
                "value": anything,
            }
        ),
        max_size=2,
    ),
)
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=150, deadline=None)
def test_any_patch_is_applied_or_refused(serve, kind, patch):
    async def story(api):
        await api.create(CONFIGMAPS, {"metadata": {"name": "a"}, "data": {"a": "b"}})
        for subresource in ("", "/status"):
            headers = {"content-type": JSON_TYPES[kind]}
            path = f"{CONFIGMAPS}/a{subresource}"
            answer = await api.server.handle(
                Request("PATCH", path, (), headers, json.dumps(patch).encode(), ADMIN)
            )
            assert answer.status < 500, answer.body

    serve(story)


@given(
    st.sampled_from(["GET", "POST", "PUT", "PATCH", "DELETE", "HEAD", "OPTIONS", "BREW"]),
    st.lists(
        st.sampled_from(
            ["api", "apis", "v1", "apps", "namespaces", "default", "pods", "p", "", "status", "..", "log"]
        ),
        max_size=9,
    ),
    st.lists(
        st.tuples(
            st.sampled_from(
                [
                    "watch",
                    "limit",
                    "continue",
                    "labelSelector",
                    "fieldSelector",
                    "resourceVersion",
                    "timeoutSeconds",
                    "dryRun",
                ]
            ),
            st.text(max_size=5),
        ),
        max_size=3,
    ),
)
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=300, deadline=None)
def test_any_path_is_answered(serve, method, parts, query):
    async def story(api):
        answer = await api.server.handle(Request(method, "/" + "/".join(parts), query, {}, b"{}", ADMIN))
        assert answer.status < 500 or answer.status in (501, 504)
        if answer.stream is not None:
            await answer.stream.aclose()

    serve(story)
