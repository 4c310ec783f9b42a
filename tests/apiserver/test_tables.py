"""What `kubectl get` shows."""

from __future__ import annotations

import asyncio

import pytest

from mooring.apiserver.values.timestamps import human

PODS = "/api/v1/namespaces/default/pods"
CLAIMS = "/api/v1/namespaces/default/persistentvolumeclaims"
TABLE = {"accept": "application/json;as=Table;v=v1;g=meta.k8s.io,application/json"}


async def shown(api, path, *, wide=False):
    """The rows of a table as dicts by column."""
    table = await api.get(path, **TABLE)
    assert (table["kind"], table["apiVersion"]) == ("Table", "meta.k8s.io/v1")
    columns = table["columnDefinitions"]
    return [
        {
            column["name"]: cell
            for column, cell in zip(columns, row["cells"], strict=True)
            if wide or not column["priority"]
        }
        for row in table["rows"]
    ]


def test_a_new_pod(serve):
    async def story(api):
        await api.pod()
        await asyncio.sleep(90)
        assert await shown(api, PODS) == [
            {"Name": "p", "Ready": "0/1", "Status": "Pending", "Restarts": "0", "Age": "90s"}
        ]
        [row] = await shown(api, PODS, wide=True)
        assert (row["IP"], row["Node"], row["Nominated Node"], row["Readiness Gates"]) == ("<none>",) * 4

    serve(story)


@pytest.mark.parametrize(
    ("status", "ready", "word", "restarts"),
    [
        ({"containerStatuses": [{"ready": True, "state": {"running": {}}}]}, "1/1", "Running", "0"),
        (
            {"containerStatuses": [{"state": {"waiting": {"reason": "ContainerCreating"}}}]},
            "0/1",
            "ContainerCreating",
            "0",
        ),
        ({"containerStatuses": [{"state": {"terminated": {"exitCode": 3}}}]}, "0/1", "ExitCode:3", "0"),
        ({"containerStatuses": [{"state": {"terminated": {"signal": 9}}}]}, "0/1", "Signal:9", "0"),
        (
            {"phase": "Succeeded", "containerStatuses": [{"state": {"terminated": {"reason": "Completed"}}}]},
            "0/1",
            "Completed",
            "0",
        ),
        ({"reason": "Evicted", "phase": "Failed"}, "0/1", "Evicted", "0"),
        (
            {
                "containerStatuses": [
                    {
                        "restartCount": 4,
                        "state": {"waiting": {"reason": "CrashLoopBackOff"}},
                        "lastState": {"terminated": {"finishedAt": "2029-12-31T23:50:00Z"}},
                    }
                ]
            },
            "0/1",
            "CrashLoopBackOff",
            "4 (10m ago)",
        ),
    ],
)
def test_a_pods_state(serve, status, ready, word, restarts):
    async def story(api):
        await api.pod(node="n")
        await api.patch(f"{PODS}/p/status", {"status": {"phase": "Running", **status}})
        [row] = await shown(api, PODS)
        assert (row["Ready"], row["Status"], row["Restarts"]) == (ready, word, restarts)

    serve(story)


@pytest.mark.parametrize(
    ("statuses", "word"),
    [
        ([], "Running"),
        ([{"name": "a", "state": {"running": {}}}], "Init:0/2"),
        (
            [
                {"name": "a", "state": {"terminated": {"exitCode": 0}}},
                {"name": "b", "state": {"waiting": {"reason": "PodInitializing"}}},
            ],
            "Init:1/2",
        ),
        ([{"name": "a", "state": {"terminated": {"exitCode": 1, "reason": "Error"}}}], "Init:Error"),
        ([{"name": "a", "state": {"waiting": {"reason": "CrashLoopBackOff"}}}], "Init:CrashLoopBackOff"),
    ],
)
def test_a_pod_that_initializes(serve, statuses, word):
    async def story(api):
        sent = api.new_pod()
        sent["spec"]["initContainers"] = [{"name": name, "image": "x:1"} for name in "ab"]
        await api.create(PODS, sent)
        await api.patch(
            f"{PODS}/p/status", {"status": {"phase": "Running", "initContainerStatuses": statuses}}
        )
        assert (await shown(api, PODS))[0]["Status"] == word

    serve(story)


@pytest.mark.parametrize(
    ("status", "deleted", "word"),
    [
        ({}, False, "NodeLost"),
        ({"reason": "NodeNotReady", "status": "True"}, False, "Running"),
        ({"reason": "ContainersNotReady"}, False, "Running"),
        ({}, True, "Terminating"),
    ],
)
def test_a_pod_whose_node_does_not_answer(serve, status, deleted, word):
    async def story(api):
        await api.pod(node="n")
        condition = {"type": "Ready", "status": "False", "reason": "NodeNotReady", **status}
        running = [{"name": "c", "ready": True, "state": {"running": {}}}]
        reported = {"phase": "Running", "conditions": [condition], "containerStatuses": running}
        await api.patch(f"{PODS}/p/status", {"status": reported})
        if deleted:
            await api.delete(f"{PODS}/p")
        assert (await shown(api, PODS))[0]["Status"] == word

    serve(story)


def test_a_pod_that_is_being_deleted(serve):
    async def story(api):
        await api.pod(node="n")
        await api.delete(f"{PODS}/p")
        assert (await shown(api, PODS))[0]["Status"] == "Terminating"

    serve(story)


def test_claims_and_volumes(serve):
    async def story(api):
        await api.create(CLAIMS, api.new_claim(storageClassName="fast"))
        assert await shown(api, CLAIMS) == [
            {
                "Name": "data",
                "Status": "Pending",
                "Volume": "",
                "Capacity": "",
                "Access Modes": "",
                "StorageClass": "fast",
                "VolumeAttributesClass": "<unset>",
                "Age": "0s",
            }
        ]
        await api.patch(f"{CLAIMS}/data", {"spec": {"volumeName": "pv"}})
        bound = {
            "phase": "Bound",
            "capacity": {"storage": "1Gi"},
            "accessModes": ["ReadWriteMany", "ReadWriteOnce"],
        }
        await api.patch(f"{CLAIMS}/data/status", {"status": bound})
        [row] = await shown(api, CLAIMS)
        assert (row["Status"], row["Volume"], row["Capacity"], row["Access Modes"]) == (
            "Bound",
            "pv",
            "1Gi",
            "RWO,RWX",
        )
        await api.delete(f"{CLAIMS}/data")
        assert (await shown(api, CLAIMS))[0]["Status"] == "Terminating"

        claim = {"claimRef": {"namespace": "default", "name": "data"}}
        await api.create("/api/v1/persistentvolumes", api.new_volume(**claim))
        [row] = await shown(api, "/api/v1/persistentvolumes")
        assert (row["Claim"], row["Reclaim Policy"], row["Capacity"]) == ("default/data", "Retain", "1Gi")

    serve(story)


def test_nodes(serve):
    async def story(api):
        labels = {"node-role.kubernetes.io/worker": "", "node-role.kubernetes.io/infra": ""}
        status = {"conditions": [{"type": "Ready", "status": "True"}], "nodeInfo": {"kubeletVersion": "v1"}}
        await api.create("/api/v1/nodes", {"metadata": {"name": "a", "labels": labels}, "status": status})
        await api.create("/api/v1/nodes", {"metadata": {"name": "b"}, "spec": {"unschedulable": True}})
        unknown = {"conditions": [{"type": "Ready", "status": "Unknown"}]}
        await api.create("/api/v1/nodes", {"metadata": {"name": "c"}, "status": unknown})
        rows = await shown(api, "/api/v1/nodes")
        assert [(row["Status"], row["Roles"], row["Version"]) for row in rows] == [
            ("Ready", "infra,worker", "v1"),
            ("Unknown,SchedulingDisabled", "<none>", ""),
            ("NotReady", "<none>", ""),
        ]

    serve(story)


def test_attachments_and_the_default_class(serve):
    async def story(api):
        path = "/apis/storage.k8s.io/v1"
        await api.create(f"{path}/volumeattachments", api.new_attachment())
        assert await shown(api, f"{path}/volumeattachments") == [
            {"Name": "va", "Attacher": "d", "PV": "pv", "Node": "n", "Attached": False, "Age": "0s"}
        ]
        default = {"storageclass.kubernetes.io/is-default-class": "true"}
        await api.create(
            f"{path}/storageclasses", {"metadata": {"name": "s", "annotations": default}, "provisioner": "d"}
        )
        assert (await shown(api, f"{path}/storageclasses"))[0]["Name"] == "s (default)"

    serve(story)


def test_events(serve):
    async def story(api):
        event = {
            "metadata": {"name": "e"},
            "involvedObject": {"kind": "Pod", "name": "p", "namespace": "default"},
            "lastTimestamp": "2029-12-31T23:00:00Z",
            "type": "Warning",
            "reason": "FailedMount",
            "message": "no\n",
        }
        await api.create("/api/v1/namespaces/default/events", event)
        expected = {
            "Last Seen": "60m",
            "Type": "Warning",
            "Reason": "FailedMount",
            "Object": "pod/p",
            "Message": "no",
        }
        assert await shown(api, "/api/v1/namespaces/default/events") == [expected]

    serve(story)


def cpu(share, current=None):
    resource = {"name": "cpu", "target": {"type": "Utilization", "averageUtilization": share}}
    if current is None:
        return {"type": "Resource", "resource": resource}
    return {"type": "Resource", "resource": {"name": "cpu", "current": {"averageUtilization": current}}}


def external(**target):
    return {
        "type": "External",
        "external": {"metric": {"name": "queue"}, "target": {"type": "Value", **target}},
    }


@pytest.mark.parametrize(
    ("metrics", "current", "targets"),
    [
        ([], [], "cpu: <unknown>/80%"),
        ([cpu(70)], [], "cpu: <unknown>/70%"),
        ([cpu(80)], [cpu(80, current=35)], "cpu: 35%/80%"),
        ([external(value="30")], [], "<unknown>/30"),
        (
            [external(averageValue="5"), cpu(80), cpu(90)],
            [],
            "<unknown>/5 (avg), cpu: <unknown>/80% + 1 more...",
        ),
    ],
)
def test_what_an_autoscaler_aims_at(serve, metrics, current, targets):
    async def story(api):
        path = "/apis/autoscaling/v2/namespaces/default/horizontalpodautoscalers"
        target = {"apiVersion": "apps/v1", "kind": "Deployment", "name": "web"}
        spec = {"scaleTargetRef": target, "maxReplicas": 3, "metrics": metrics}
        await api.create(path, {"metadata": {"name": "h"}, "spec": spec})
        status = {"currentMetrics": current, "currentReplicas": 2, "desiredReplicas": 2}
        await api.patch(f"{path}/h/status", {"status": status})
        [row] = await shown(api, path)
        assert (row["Reference"], row["Targets"]) == ("Deployment/web", targets)
        assert (row["MinPods"], row["MaxPods"], row["Replicas"]) == ("1", 3, 2)

    serve(story)


@pytest.mark.parametrize(
    ("conditions", "word"),
    [
        ([], "Pending"),
        (["Approved"], "Approved"),
        (["Denied"], "Denied"),
        (["Approved", "Failed"], "Approved,Failed"),
    ],
)
def test_what_was_decided_about_a_certificate_request(serve, conditions, word):
    async def story(api):
        path = "/apis/certificates.k8s.io/v1/certificatesigningrequests"
        spec = {
            "request": "eA==",
            "signerName": "example.com/s",
            "usages": ["client auth"],
            "expirationSeconds": 3600,
        }
        await api.create(path, {"metadata": {"name": "c"}, "spec": spec})
        listed = [{"type": each, "status": "True"} for each in conditions]
        await api.patch(f"{path}/c/status", {"status": {"conditions": listed}})
        [row] = await shown(api, path)
        assert (row["Condition"], row["RequestedDuration"], row["SignerName"]) == (
            word,
            "60m",
            "example.com/s",
        )

    serve(story)


def test_addresses_and_policies(serve):
    async def story(api):
        networking, admission = "/apis/networking.k8s.io/v1", "/apis/admissionregistration.k8s.io/v1"
        parent = {"resource": "services", "namespace": "default", "name": "kubernetes"}
        await api.create(
            f"{networking}/ipaddresses", {"metadata": {"name": "10.0.0.1"}, "spec": {"parentRef": parent}}
        )
        assert (await shown(api, f"{networking}/ipaddresses"))[0][
            "ParentRef"
        ] == "services/default/kubernetes"
        ranges = {"metadata": {"name": "r"}, "spec": {"cidrs": ["10.0.0.0/24", "fd00::/64"]}}
        await api.create(f"{networking}/servicecidrs", ranges)
        assert (await shown(api, f"{networking}/servicecidrs"))[0]["CIDRs"] == "10.0.0.0/24,fd00::/64"
        kind = {"apiVersion": "v1", "kind": "ConfigMap"}
        policy = {
            "metadata": {"name": "p"},
            "spec": {"paramKind": kind, "validations": [{"expression": "true"}]},
        }
        await api.create(f"{admission}/validatingadmissionpolicies", policy)
        [row] = await shown(api, f"{admission}/validatingadmissionpolicies")
        assert (row["Validations"], row["ParamKind"]) == (1, "v1/ConfigMap")
        binding = {"metadata": {"name": "b"}, "spec": {"policyName": "p", "paramRef": {"name": "c"}}}
        await api.create(f"{admission}/validatingadmissionpolicybindings", binding)
        [row] = await shown(api, f"{admission}/validatingadmissionpolicybindings")
        assert (row["PolicyName"], row["ParamRef"]) == ("p", "*/c")

    serve(story)


def test_every_kind_has_a_table(serve):
    async def story(api):
        from mooring.apiserver.objects.kinds import KINDS

        for kind in KINDS:
            root = f"/apis/{kind.api_version}" if kind.group else "/api/v1"
            table = await api.get(f"{root}/{kind.plural}", **TABLE)
            assert [column["name"] for column in table["columnDefinitions"]]

    serve(story)


def test_rows_hold_what_is_asked_for(serve):
    async def story(api):
        await api.pod()
        for include, keys in (("None", set()), ("Metadata", {"kind", "apiVersion", "metadata"})):
            [row] = (await api.get(PODS, ("includeObject", include), **TABLE))["rows"]
            assert set(row.get("object", {})) == keys
        [row] = (await api.get(PODS, ("includeObject", "Object"), **TABLE))["rows"]
        assert row["object"]["spec"]

    serve(story)


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (-5, "<invalid>"), (-1, "0s"), (0, "0s"), (119, "119s"), (120, "2m"), (185, "3m5s"), (600, "10m"),
        (10799, "179m"), (10800, "3h"), (12000, "3h20m"), (8 * 3600 + 60, "8h"), (48 * 3600, "2d"),
        (50 * 3600, "2d2h"), (9 * 86400, "9d"), (800 * 86400, "2y70d"), (3000 * 86400, "8y"),
    ],
)  # fmt: skip
def test_a_duration_is_told_in_two_units_at_most(seconds, text):
    assert human(seconds) == text
