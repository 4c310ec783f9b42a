"""RuntimeClasses, and the pods that name one; the Services that a kubelet reads."""

from __future__ import annotations

from typing import Any

from tests.differential.steps import Step, delete, get, named, patch, post

CLASSES = "/apis/node.k8s.io/v1/runtimeclasses"
NS = "/api/v1/namespaces/runtimes"
CONTAINERS = [{"name": "c", "image": "busybox:1"}]
TOLERATES = {"key": "sandboxed", "operator": "Exists", "effect": "NoSchedule"}
FIXED = {"podFixed": {"cpu": "250m", "memory": "64Mi"}}


def runtime_class(name: str, handler: Any = "runsc", **fields: Any) -> dict[str, Any]:
    return named("RuntimeClass", name, "node.k8s.io/v1", handler=handler, **fields)


def pod(name: str, of: str | None, **spec: Any) -> dict[str, Any]:
    chosen = {} if of is None else {"runtimeClassName": of}
    return named("Pod", name, spec={"containers": CONTAINERS, **chosen, **spec})


SANDBOXED = {"nodeSelector": {"sandbox": "yes"}, "tolerations": [TOLERATES]}
STEPS: list[Step] = [
    post("/api/v1/namespaces", named("Namespace", "runtimes")),
    post(CLASSES, runtime_class("plain")),
    post(CLASSES, runtime_class("full", overhead=FIXED, scheduling=SANDBOXED)),
    post(CLASSES, runtime_class("bad", "")),
    post(CLASSES, runtime_class("bad", "No.Label")),
    post(CLASSES, runtime_class("bad", 7)),
    post(CLASSES, runtime_class("Bad")),
    post(CLASSES, runtime_class("bad", overhead={"podFixed": {"cpu": "-1"}})),
    post(CLASSES, runtime_class("bad", overhead={"podFixed": {"nothing at all": "1"}})),
    post(CLASSES, runtime_class("bad", scheduling={"nodeSelector": {"a b": "c"}})),
    post(CLASSES, runtime_class("bad", scheduling={"tolerations": [TOLERATES, TOLERATES]})),
    post(CLASSES, runtime_class("bad", scheduling={"tolerations": [{"key": "a", "operator": "Wants"}]})),
    patch("merge", f"{CLASSES}/plain", {"handler": "other"}),
    patch("merge", f"{CLASSES}/plain", {"scheduling": {"nodeSelector": {"a": "b"}}}),
    get(f"{CLASSES}/full"),
    # pods
    post(f"{NS}/pods", pod("whole", "full")),
    post(f"{NS}/pods", pod("same", "full", overhead={"cpu": "0.25", "memory": "64Mi"})),
    post(f"{NS}/pods", pod("other", "full", overhead={"cpu": "1"})),
    post(f"{NS}/pods", pod("own", "plain", overhead={"cpu": "1"})),
    post(f"{NS}/pods", pod("alone", None, overhead={"cpu": "1"})),
    post(f"{NS}/pods", pod("missing", "none")),
    post(f"{NS}/pods", pod("malformed", "No Name")),
    post(f"{NS}/pods", pod("placed", "full", nodeSelector={"sandbox": "no"})),
    post(f"{NS}/pods", pod("agrees", "full", nodeSelector={"sandbox": "yes", "disk": "fast"})),
    post(f"{NS}/pods", pod("tolerates", "full", tolerations=[TOLERATES])),
    post(f"{NS}/pods", pod("more", "full", tolerations=[{"key": "sandboxed", "operator": "Exists"}])),
    post(f"{NS}/pods", pod("all", "full", tolerations=[{"operator": "Exists"}])),
    post(f"{NS}/pods", pod("equal", "full", tolerations=[{"key": "sandboxed", "value": "x", "effect": "NoSchedule"}])),
    patch("merge", f"{NS}/pods/whole", {"spec": {"runtimeClassName": "plain"}}),
    patch("merge", f"{NS}/pods/whole", {"spec": {"overhead": None}}),
    delete(f"{CLASSES}/full"),
    get(f"{NS}/pods/whole"),
    delete(f"{CLASSES}/plain"),
    # what a kubelet asks of Services
    post(f"{NS}/services", named("Service", "headless", spec={"clusterIP": "None", "ports": [{"port": 80}]})),
    post(f"{NS}/services", named("Service", "alias", spec={"type": "ExternalName", "externalName": "a.example"})),
    get(f"{NS}/services", fieldSelector="spec.clusterIP=None"),
    get(f"{NS}/services", fieldSelector="spec.clusterIP!=None"),
    get(f"{NS}/services", fieldSelector="spec.type=ExternalName"),
    get(f"{NS}/services", fieldSelector="spec.ports=80"),
]  # fmt: skip
