"""StatefulSets, ReplicaSets, secrets, services, leases, events: defaults, immutable fields, scale."""

from __future__ import annotations

from typing import Any

from tests.differential.steps import Step, delete, get, named, patch, post, put

NS = "/api/v1/namespaces/workloads"
APPS = "/apis/apps/v1/namespaces/workloads"
LEASES = "/apis/coordination.k8s.io/v1/namespaces/workloads/leases"
TEMPLATE = {
    "metadata": {"labels": {"app": "x"}},
    "spec": {"containers": [{"name": "c", "image": "busybox:1"}]},
}
SELECTOR = {"matchLabels": {"app": "x"}}
CLAIM = {"metadata": {"name": "data"}, "spec": {
    "accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}}}  # fmt: skip


def workload(kind: str, name: str, **spec: Any) -> dict[str, Any]:
    given = {"selector": SELECTOR, "template": TEMPLATE} | spec
    return named(
        kind, name, "apps/v1", spec={key: value for key, value in given.items() if value is not None}
    )


STEPS: list[Step] = [
    post("/api/v1/namespaces", named("Namespace", "workloads")),
    post(f"{APPS}/statefulsets", workload("StatefulSet", "web", serviceName="web", volumeClaimTemplates=[CLAIM])),
    post(f"{APPS}/statefulsets", workload("StatefulSet", "bad", selector={"matchLabels": {"app": "y"}})),
    post(f"{APPS}/statefulsets", workload("StatefulSet", "bad", selector=None)),
    post(f"{APPS}/statefulsets", workload("StatefulSet", "bad", replicas=-1)),
    post(f"{APPS}/statefulsets", workload("StatefulSet", "bad", podManagementPolicy="Random")),
    patch("merge", f"{APPS}/statefulsets/web", {"spec": {"serviceName": "other"}}),
    patch("merge", f"{APPS}/statefulsets/web", {"spec": {"replicas": 3}}),
    patch("merge", f"{APPS}/statefulsets/web", {"spec": {"selector": {"matchLabels": {"app": "z"}}}}),
    patch("merge", f"{APPS}/statefulsets/web/status", {"status": {"replicas": 3, "readyReplicas": 1}}),
    get(f"{APPS}/statefulsets/web/scale"),
    put(f"{APPS}/statefulsets/web/scale", named("Scale", "web", "autoscaling/v1", spec={"replicas": 5})),
    put(f"{APPS}/statefulsets/web/scale", named("Scale", "web", "autoscaling/v1", spec={"replicas": -5})),
    get(f"{APPS}/statefulsets/web"),
    delete(f"{APPS}/statefulsets/web"),
    post(f"{APPS}/replicasets", workload("ReplicaSet", "rs")),
    post(f"{APPS}/replicasets", workload("ReplicaSet", "bad", template=None)),
    patch("merge", f"{APPS}/replicasets/rs", {"spec": {"selector": {"matchLabels": {"app": "z"}}}}),
    delete(f"{APPS}/replicasets/rs", {"propagationPolicy": "Foreground"}),
    get(f"{APPS}/replicasets/rs"),
    post(f"{APPS}/daemonsets", workload("DaemonSet", "ds")),
    post(f"{APPS}/deployments", workload("Deployment", "d", paused=True)),
    post(f"{APPS}/deployments", workload("Deployment", "bad", template={"spec": {"containers": []}})),
    post(f"{APPS}/controllerrevisions", named("ControllerRevision", "r", "apps/v1", revision=1, data={"a": 0})),
    patch("merge", f"{APPS}/controllerrevisions/r", {"data": {"a": 1}}),
    patch("merge", f"{APPS}/controllerrevisions/r", {"revision": 2}),
    # secrets, services
    post(f"{NS}/secrets", named("Secret", "s", stringData={"a": "1"}, data={"b": "Mg=="})),
    post(f"{NS}/secrets", named("Secret", "bad", data={"b": "not base64!"})),
    patch("merge", f"{NS}/secrets/s", {"type": "other"}),
    patch("merge", f"{NS}/secrets/s", {"stringData": {"a": "2"}}),
    post(f"{NS}/services", named("Service", "web", spec={
        "clusterIP": "None", "selector": {"app": "x"}, "ports": [{"port": 80}]})),
    post(f"{NS}/services", named("Service", "Bad", spec={"clusterIP": "None", "ports": [{"port": 80}]})),
    post(f"{NS}/serviceaccounts", named("ServiceAccount", "robot")),
    # leases, events, priority classes
    post(LEASES, named("Lease", "l", "coordination.k8s.io/v1",
                       spec={"holderIdentity": "a", "leaseDurationSeconds": 15}), keep="lease"),
    put(f"{LEASES}/l", named("Lease", "l", "coordination.k8s.io/v1", spec={"holderIdentity": "b"})),
    put(f"{LEASES}/l", named("Lease", "l", "coordination.k8s.io/v1", spec={"holderIdentity": "b"},
        metadata={"resourceVersion": "<<lease.metadata.resourceVersion>>"})),
    put(f"{LEASES}/made", named("Lease", "made", "coordination.k8s.io/v1", spec={"holderIdentity": "b"})),
    post(LEASES, named("Lease", "bad", "coordination.k8s.io/v1", spec={"leaseDurationSeconds": 0})),
    patch("merge", f"{LEASES}/l", {"spec": {"renewTime": "2024-01-01T00:00:00.123456Z"}}),
    post(f"{NS}/events", named("Event", "e", involvedObject={"namespace": "workloads", "name": "p", "kind": "Pod"},
                               reason="R", message="m", type="Normal")),
    post(f"{NS}/events", named("Event", "bad", involvedObject={"namespace": "default", "name": "p"})),
    get(f"{NS}/events", fieldSelector="involvedObject.name=p,reason=R"),
    post("/apis/scheduling.k8s.io/v1/priorityclasses",
         named("PriorityClass", "high", "scheduling.k8s.io/v1", value=10)),
    patch("merge", "/apis/scheduling.k8s.io/v1/priorityclasses/high", {"value": 11}),
    post(f"{NS}/pods", named("Pod", "important", spec={"priorityClassName": "high", **TEMPLATE["spec"]})),
    delete("/apis/scheduling.k8s.io/v1/priorityclasses/high"),
]  # fmt: skip
