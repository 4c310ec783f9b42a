"""Pods: defaults, validation, what may change, status, binding, graceful deletion, eviction under a
budget."""

from __future__ import annotations

from typing import Any

from tests.differential.steps import Step, delete, get, named, patch, post, put, watch

NS = "/api/v1/namespaces/pods"
PODS = f"{NS}/pods"
BINDINGS = f"{NS}/bindings"
BUDGETS = "/apis/policy/v1/namespaces/pods/poddisruptionbudgets"


def pod(
    name: str, *containers: dict[str, Any], labels: dict[str, str] | None = None, **spec: Any
) -> dict[str, Any]:
    metadata: dict[str, Any] = {"labels": labels} if labels else {}
    given = list(containers) or [{"name": "c", "image": "busybox:1"}]
    return named("Pod", name, metadata=metadata, spec={"containers": given} | spec)


def container(**fields: Any) -> dict[str, Any]:
    return {"name": "c", "image": "busybox:1"} | fields


def binding(name: str, node: str) -> dict[str, Any]:
    return named("Binding", name, target={"kind": "Node", "name": node})


def eviction(name: str, **options: Any) -> dict[str, Any]:
    return named("Eviction", name, "policy/v1", **({"deleteOptions": options} if options else {}))


READY = {"status": {"phase": "Running", "conditions": [{"type": "Ready", "status": "True"}]}}

_VALID = [
    pod("plain"),
    pod("latest", container(image="busybox")),
    pod("digest", container(image="busybox@sha256:" + "a" * 64)),
    pod("full", container(
        command=["sh"], args=["-c", "true"], workingDir="/",
        ports=[{"containerPort": 80, "name": "web"}, {"containerPort": 53, "protocol": "UDP"}],
        env=[{"name": "A", "value": "1"}, {"name": "B", "valueFrom": {"fieldRef": {"fieldPath": "metadata.name"}}}],
        resources={"requests": {"cpu": "0.5", "memory": 1048576}, "limits": {"cpu": 1, "memory": "1024Ki"}},
        volumeMounts=[{"name": "v", "mountPath": "/v"}],
        livenessProbe={"httpGet": {"path": "/", "port": 80}},
        readinessProbe={"exec": {"command": ["true"]}, "periodSeconds": 5},
    ), volumes=[
        {"name": "v"}, {"name": "e", "emptyDir": {"sizeLimit": "1Gi"}}, {"name": "cm", "configMap": {"name": "x"}},
        {"name": "s", "secret": {"secretName": "x"}}, {"name": "h", "hostPath": {"path": "/x"}},
        {"name": "pvc", "persistentVolumeClaim": {"claimName": "c"}},
    ], restartPolicy="Never"),
    pod("best", container(resources={"limits": {"cpu": "100m"}})),
    pod("guaranteed", container(resources={"limits": {"cpu": "1", "memory": "1Gi"}})),
    pod("init", initContainers=[{"name": "i", "image": "busybox:1"}]),
    pod("placed", nodeName="n1"),
    pod("tolerant", tolerations=[{"key": "node.kubernetes.io/not-ready", "operator": "Exists", "effect": "NoExecute"}]),
    pod("zero", terminationGracePeriodSeconds=0),
    pod("critical", priorityClassName="system-node-critical"),
    pod("host", hostNetwork=True, containers=[container(ports=[{"containerPort": 80}])]),
]  # fmt: skip

_INVALID = [
    named("Pod", "bad"),
    named("Pod", "bad", spec={}),
    named("Pod", "bad", spec={"containers": []}),
    pod("bad", {"name": "c"}),
    pod("bad", {"image": "x"}),
    pod("bad", container(name="Bad_Name")),
    pod("bad", container(), container()),
    pod("bad", restartPolicy="Sometimes"),
    pod("bad", dnsPolicy="Whatever"),
    pod("bad", terminationGracePeriodSeconds=-5),
    pod("bad", activeDeadlineSeconds=0),
    pod("bad", container(imagePullPolicy="Often")),
    pod("bad", container(ports=[{"containerPort": 0}])),
    pod("bad", container(ports=[{"containerPort": 70000}])),
    pod("bad", container(ports=[{"containerPort": 80, "protocol": "ICMP"}])),
    pod("bad", container(env=[{"name": ""}])),
    pod("bad", container(volumeMounts=[{"name": "none", "mountPath": "/x"}])),
    pod("bad", container(volumeMounts=[{"name": "v"}]), volumes=[{"name": "v", "emptyDir": {}}]),
    pod(
        "bad",
        container(volumeMounts=[{"name": "v", "mountPath": "/a"}, {"name": "v", "mountPath": "/a"}]),
        volumes=[{"name": "v", "emptyDir": {}}],
    ),
    pod("bad", volumes=[{"name": "v", "emptyDir": {}}, {"name": "v", "emptyDir": {}}]),
    pod("bad", volumes=[{"name": "v", "emptyDir": {}, "hostPath": {"path": "/x"}}]),
    pod("bad", volumes=[{"name": "v", "persistentVolumeClaim": {}}]),
    pod("bad", container(resources={"requests": {"cpu": "2"}, "limits": {"cpu": "1"}})),
    pod("bad", container(resources={"requests": {"cpu": "lots"}})),
    pod("bad", container(resources={"requests": {"memory": "-1"}})),
    pod("bad", priorityClassName="no-such-class"),
    pod("bad", nodeSelector={"a b": "c"}),
    pod("bad", tolerations=[{"key": "x", "operator": "Near"}]),
    pod("Bad"),
    {"kind": "Pod", "apiVersion": "v1", "metadata": {"name": "bad"}, "spec": "text"},
    {"kind": "Pod", "apiVersion": "v1", "metadata": {"name": "bad"}, "spec": {"containers": "text"}},
    pod("bad", terminationGracePeriodSeconds="soon"),
    pod("bad", hostNetwork="yes"),
]

_SELECTED = (
    "spec.nodeName=n1", "spec.nodeName=", "spec.nodeName!=n1", "status.phase=Pending", "spec.restartPolicy=Never",
    "spec.schedulerName=default-scheduler", "spec.serviceAccountName=", "status.podIP=", "metadata.name=plain",
    "spec.hostNetwork=true", "spec.containers=x", "status.reason=x", "status.nominatedNodeName=",
)  # fmt: skip
NAMES_ONLY = "application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1"

STEPS: list[Step] = [
    post("/api/v1/namespaces", named("Namespace", "pods")),
    *[post(PODS, each) for each in _VALID],
    *[post(PODS, each) for each in _INVALID],
    *[get(PODS, fieldSelector=selector, accept=NAMES_ONLY) for selector in _SELECTED],
    # what may change
    get(f"{PODS}/plain", keep="plain"),
    patch("merge", f"{PODS}/plain", {"metadata": {"labels": {"a": "1"}}}),
    patch("strategic", f"{PODS}/plain", {"spec": {"containers": [{"name": "c", "image": "busybox:2"}]}}),
    patch("strategic", f"{PODS}/plain", {"spec": {"containers": [{"name": "c", "command": ["x"]}]}}),
    patch("strategic", f"{PODS}/plain", {"spec": {"containers": [{"name": "d", "image": "x"}]}}),
    patch("merge", f"{PODS}/plain", {"spec": {"nodeName": "n1"}}),
    patch("merge", f"{PODS}/plain", {"spec": {"restartPolicy": "Never"}}),
    patch("merge", f"{PODS}/plain", {"spec": {"activeDeadlineSeconds": 100}}),
    patch("merge", f"{PODS}/plain", {"spec": {"activeDeadlineSeconds": 200}}),
    patch("merge", f"{PODS}/plain", {"spec": {"terminationGracePeriodSeconds": 1}}),
    patch("merge", f"{PODS}/plain", {"spec": {"tolerations": []}}),
    patch("strategic", f"{PODS}/plain", {"spec": {"tolerations": [{"key": "x", "operator": "Exists"}]}}),
    patch("merge", f"{PODS}/plain", {"status": {"phase": "Running"}}),
    put(f"{PODS}/plain", pod("plain")),
    # status
    patch("merge", f"{PODS}/plain/status", {"status": {"phase": "Running"}}),
    patch("strategic", f"{PODS}/plain/status", {"status": {"conditions": [{"type": "Ready", "status": "True"}]}}),
    patch("strategic", f"{PODS}/plain/status", {"status": {"conditions": [{"type": "Other", "status": "False"}]}}),
    patch("merge", f"{PODS}/plain/status", {"spec": {"nodeName": "n9"}, "metadata": {"labels": {"s": "1"}}}),
    patch("merge", f"{PODS}/plain/status", {"metadata": {"finalizers": ["example.com/x"]}}),
    patch("strategic", f"{PODS}/plain/status", {"status": {"conditions": [{"type": "Ready", "$patch": "delete"}]}}),
    get(f"{PODS}/plain/status"),
    get(f"{PODS}/plain"),
    # binding
    post(f"{PODS}/latest/binding", binding("latest", "n1")),
    get(f"{PODS}/latest"),
    post(f"{PODS}/latest/binding", binding("latest", "n2")),
    post(f"{PODS}/latest/binding", binding("latest", "n1")),
    post(f"{PODS}/none/binding", binding("none", "n1")),
    post(f"{PODS}/digest/binding", binding("digest", "")),
    post(f"{PODS}/digest/binding", named("Binding", "digest", target={"kind": "Pod", "name": "n1"})),
    post(f"{PODS}/digest/binding", binding("other", "n1")),
    post(f"{PODS}/digest/binding", named("Binding", "digest", metadata={"annotations": {"a": "1"}},
                                         target={"name": "n1"})),
    get(f"{PODS}/digest"),
    get(f"{PODS}/latest/binding"),
    # graceful deletion
    delete(f"{PODS}/full"),
    get(f"{PODS}/full"),
    delete(f"{PODS}/latest", {"gracePeriodSeconds": 20}),
    delete(f"{PODS}/latest", {"gracePeriodSeconds": 40}),
    delete(f"{PODS}/latest", {"gracePeriodSeconds": 10}),
    delete(f"{PODS}/latest"),
    patch("merge", f"{PODS}/latest", {"metadata": {"labels": {"still": "here"}}}),
    patch("merge", f"{PODS}/latest/status", {"status": {"phase": "Failed"}}),
    delete(f"{PODS}/latest", {"gracePeriodSeconds": 0, "preconditions": {"uid": "<<plain.metadata.uid>>"}}),
    delete(f"{PODS}/latest", {"gracePeriodSeconds": 0}),
    get(f"{PODS}/latest"),
    delete(f"{PODS}/placed", {"gracePeriodSeconds": -1}),
    delete(f"{PODS}/placed", {"gracePeriodSeconds": 0}, dryRun="All"),
    delete(f"{PODS}/placed", gracePeriodSeconds="0"),
    delete(f"{PODS}/zero"),
    patch("merge", f"{PODS}/digest", {"metadata": {"finalizers": ["example.com/hold"]}}),
    delete(f"{PODS}/digest"),
    delete(f"{PODS}/digest", {"gracePeriodSeconds": 0}),
    get(f"{PODS}/digest"),
    patch("merge", f"{PODS}/digest", {"metadata": {"finalizers": None}}),
    get(f"{PODS}/digest"),
    # eviction
    post(PODS, pod("e1", labels={"app": "e"}, nodeName="n1")),
    post(PODS, pod("e2", labels={"app": "e"}, nodeName="n1")),
    patch("merge", f"{PODS}/e1/status", READY),
    patch("merge", f"{PODS}/e2/status", READY),
    post(f"{PODS}/none/eviction", eviction("none")),
    post(f"{PODS}/e1/eviction", eviction("other")),
    post(f"{PODS}/e1/eviction", eviction("e1", dryRun=["All"])),
    # the script plays the disruption controller: the embedded server counts itself where there is none
    post(BUDGETS, named("PodDisruptionBudget", "b", "policy/v1",
                        spec={"minAvailable": 1, "selector": {"matchLabels": {"app": "e"}}})),
    patch("merge", f"{BUDGETS}/b/status", {"status": {"observedGeneration": 1, "disruptionsAllowed": 1,
          "currentHealthy": 2, "desiredHealthy": 1, "expectedPods": 2}}),
    post(f"{PODS}/e1/eviction", eviction("e1", preconditions={"uid": "<<plain.metadata.uid>>"})),
    post(f"{PODS}/e1/eviction", eviction("e1", gracePeriodSeconds=7)),
    get(f"{PODS}/e1"),
    get(f"{BUDGETS}/b"),
    post(f"{PODS}/e2/eviction", eviction("e2")),
    post(f"{PODS}/e2/eviction", eviction("e2") | {"apiVersion": "policy/v1beta1"}),
    post(BUDGETS, named("PodDisruptionBudget", "c", "policy/v1",
                        spec={"maxUnavailable": 1, "selector": {"matchLabels": {"app": "e"}}})),
    post(f"{PODS}/e2/eviction", eviction("e2")),
    post(BUDGETS, named("PodDisruptionBudget", "d", "policy/v1", spec={"maxUnavailable": 1, "minAvailable": 1})),
    post(BUDGETS, named("PodDisruptionBudget", "d", "policy/v1", spec={"minAvailable": "150%"})),
    delete(f"{BUDGETS}/b"),
    delete(f"{BUDGETS}/c"),
    delete(PODS, {"gracePeriodSeconds": 0}),
    get(PODS),
    # bindings without a pod in their path, and what a watch is told of deletions
    post(PODS, pod("loose", labels={"x": "1"})),
    post(BINDINGS, binding("loose", "n1")),
    post(BINDINGS, binding("loose", "n1")),
    post(BINDINGS, binding("nobody", "n1")),
    post(BINDINGS, binding("", "n1")),
    get(BINDINGS),
    get(f"{PODS}/loose"),
    post(PODS, pod("short", labels={"x": "1"}), keep="short"),
    patch("merge", f"{PODS}/loose", {"metadata": {"labels": {"x": "2"}}}),
    delete(f"{PODS}/short"),
    delete(f"{PODS}/loose", {"gracePeriodSeconds": 5}),
    delete(f"{PODS}/loose", {"gracePeriodSeconds": 0}),
    watch(PODS, resourceVersion="<<short.metadata.resourceVersion>>"),
    watch(PODS, resourceVersion="<<short.metadata.resourceVersion>>", labelSelector="x=1"),
    watch(PODS, resourceVersion="<<short.metadata.resourceVersion>>", fieldSelector="spec.nodeName=n1"),
]  # fmt: skip
