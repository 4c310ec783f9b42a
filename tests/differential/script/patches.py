"""Patches of each type: merge, JSON, strategic with its directives, and server-side apply with its
conflicts."""

from __future__ import annotations

from typing import Any

from tests.differential.steps import Step, apply, delete, get, named, patch, post

NS = "/api/v1/namespaces/patches"
CMS = f"{NS}/configmaps"
CM = f"{CMS}/cm"
DEPLOYMENTS = "/apis/apps/v1/namespaces/patches/deployments"
WEB = f"{DEPLOYMENTS}/web"
APPLIED = f"{CMS}/applied"
SIDE = f"{DEPLOYMENTS}/side"


def container(name: str, **fields: Any) -> dict[str, Any]:
    return {"name": name, "image": f"{name}:1"} | fields


def deployment(name: str, *containers: dict[str, Any], **spec: Any) -> dict[str, Any]:
    template = {"metadata": {"labels": {"app": name}}, "spec": {"containers": list(containers)}}
    return named(
        "Deployment",
        name,
        "apps/v1",
        spec={"selector": {"matchLabels": {"app": name}}, "template": template} | spec,
    )


def template(**spec: Any) -> dict[str, Any]:
    """A patch of a pod template's spec."""
    return {"spec": {"template": {"spec": spec}}}


def applied(**data: str) -> dict[str, Any]:
    return named("ConfigMap", "applied", data=data)


def replace_data(path: str, value: Any, operation: str = "replace") -> dict[str, Any]:
    return {"op": operation, "path": path, "value": value}


_STRATEGIC = [
    template(containers=[{"name": "a", "image": "a:2"}]),
    template(containers=[{"name": "c", "image": "c:1"}]),
    template(containers=[{"name": "c", "$patch": "delete"}]),
    template(containers=[{"name": "a", "env": [{"name": "X", "value": "1"}, {"name": "Y", "value": "2"}]}]),
    template(containers=[{"name": "a", "env": [{"name": "X", "$patch": "delete"}]}]),
    template(containers=[{"name": "a", "ports": [{"containerPort": 80}, {"containerPort": 81, "name": "two"}]}]),
    template(containers=[{"name": "a", "ports": [{"containerPort": 80, "name": "one"}]}]),
    template(containers=[{"name": "a", "ports": [{"containerPort": 80, "$patch": "delete"}]}]),
    template(containers=[{"name": "a", "args": ["x", "y"]}]),
    template(containers=[{"name": "a", "args": ["z"]}]),
    template(containers=[{"name": "a", "args": None}]),
    template(**{"$setElementOrder/containers": [{"name": "b"}, {"name": "a"}]}),
    template(**{"$setElementOrder/containers": [{"name": "a"}, {"name": "b"}],
                "containers": [{"name": "d", "image": "d:1"}]}),
    template(containers=[{"$patch": "replace"}, {"name": "a", "image": "a:3"}]),
    template(volumes=[{"name": "v", "emptyDir": {}}]),
    template(volumes=[{"name": "v", "hostPath": {"path": "/x"}}]),
    template(volumes=[{"name": "v", "$retainKeys": ["name", "hostPath"], "hostPath": {"path": "/x"}}]),
    template(volumes=[{"name": "v", "$patch": "delete"}]),
    template(tolerations=[{"key": "a", "operator": "Exists"}]),
    template(tolerations=[{"key": "b", "operator": "Exists"}]),
    template(nodeSelector={"a": "1", "b": "2"}),
    template(nodeSelector={"a": None}),
    template(nodeSelector={"$patch": "replace", "c": "3"}),
    template(nodeSelector={"$patch": "delete"}),
    template(nodeSelector=None),
    template(imagePullSecrets=[{"name": "one"}, {"name": "two"}]),
    template(imagePullSecrets=[{"name": "one", "$patch": "delete"}]),
    template(hostAliases=[{"ip": "1.2.3.4", "hostnames": ["x"]}]),
    template(containers=[{"image": "no-name"}]),
    template(containers={"name": "a"}),
    template(containers=[{"name": "a", "$patch": "sideways"}]),
    {"$patch": "sideways"},
    {"spec": {"replicas": 3}},
    {"spec": {"replicas": None}},
    {"spec": {"replicas": "three"}},
    {"spec": {"replicas": -1}},
    {"spec": {"strategy": {"$retainKeys": ["type"], "type": "Recreate"}}},
    {"spec": {"strategy": {"type": "RollingUpdate", "rollingUpdate": {"maxSurge": 1}}}},
    {"spec": {"selector": {"matchLabels": {"app": "other"}}}},
    {"metadata": {"labels": {"a": "1"}, "annotations": {"n": "1"}}},
    {"metadata": {"labels": {"a": None}}},
    {"metadata": {"finalizers": ["example.com/a"]}},
    {"metadata": {"finalizers": ["example.com/b"]}},
    {"metadata": {"$deleteFromPrimitiveList/finalizers": ["example.com/a"]}},
    {"metadata": {"$setElementOrder/finalizers": ["example.com/c", "example.com/b"], "finalizers": ["example.com/c"]}},
    {"metadata": {"finalizers": None}},
    {"metadata": {"name": "other"}},
    {"metadata": {"namespace": "default"}},
    {"metadata": {"uid": "11111111-1111-1111-1111-111111111111"}},
    {"metadata": {"resourceVersion": "1"}},
    {"kind": "Pod"},
    {"apiVersion": "v1"},
    {"status": {"replicas": 5}},
    [],
    "{broken",
    {},
]  # fmt: skip

_JSON: list[Any] = [
    [replace_data("/data/a", "2")],
    [replace_data("/data/b", "1", "add")],
    [replace_data("/data/none", "1")],
    [{"op": "remove", "path": "/data/b"}],
    [{"op": "remove", "path": "/data/b"}],
    [{"op": "test", "path": "/data/a", "value": "2"}, replace_data("/data/a", "3")],
    [{"op": "test", "path": "/data/a", "value": "2"}, replace_data("/data/a", "4")],
    [{"op": "copy", "from": "/data/a", "path": "/data/copied"}],
    [{"op": "move", "from": "/data/copied", "path": "/data/moved"}],
    [{"op": "move", "from": "/data/none", "path": "/data/moved"}],
    [replace_data("/data/x~1y", "1", "add")],
    [replace_data("/data/x.y", "1", "add")],
    [replace_data("/metadata/labels", {"a": "1"}, "add")],
    [replace_data("/metadata/labels/b", "2", "add")],
    [replace_data("/metadata/finalizers", ["example.com/x"], "add")],
    [replace_data("/metadata/finalizers/-", "example.com/y", "add")],
    [replace_data("/metadata/finalizers/0", "example.com/z", "add")],
    [replace_data("/metadata/finalizers/9", "example.com/z", "add")],
    [{"op": "remove", "path": "/metadata/finalizers"}],
    [replace_data("/metadata/name", "other")],
    [replace_data("", {"a": 1})],
    [{"op": "dance", "path": "/data/a"}],
    [{"path": "/data/a"}],
    [{"op": "add"}],
    [replace_data("data/a", "1")],
    {"op": "add"},
    "nonsense",
    [],
]

_MERGE: list[Any] = [
    {"data": {"m": "1"}},
    {"data": {"m": None}},
    {"data": {"m": 1}},
    {"data": None},
    {"data": {"a": "1"}},
    {"data": ["x"]},
    {"data": "x"},
    {},
    [],
    "text",
    "",
    "{",
    {"metadata": {"resourceVersion": "1"}},
    {"metadata": {"resourceVersion": "x"}},
    {"metadata": {"resourceVersion": None}},
    {"metadata": {"uid": "11111111-1111-1111-1111-111111111111"}},
    {"metadata": {"creationTimestamp": None}},
    {"metadata": {"creationTimestamp": "2001-01-01T00:00:00Z"}},
    {"metadata": {"deletionTimestamp": "2001-01-01T00:00:00Z"}},
    {"metadata": {"generation": 9}},
    {"metadata": {"name": "other"}},
    {"metadata": {"name": None}},
    {"metadata": None},
    {"metadata": {"labels": {"x": "!"}}},
    {"metadata": {"ownerReferences": [{"apiVersion": "v1", "kind": "Pod", "name": "p", "uid": "u"}]}},
    {"metadata": {"ownerReferences": [
        {"apiVersion": "v1", "kind": "Pod", "name": "p", "uid": "u", "controller": True},
        {"apiVersion": "v1", "kind": "Pod", "name": "q", "uid": "w", "controller": True},
    ]}},
    {"kind": "Secret"},
    {"apiVersion": "v2"},
    {"unknown": 1},
]  # fmt: skip

STEPS: list[Step] = [
    post("/api/v1/namespaces", named("Namespace", "patches")),
    post(CMS, named("ConfigMap", "cm", data={"a": "1"}), keep="cm"),
    *[patch("merge", CM, body) for body in _MERGE],
    *[patch("json-patch", CM, body) for body in _JSON],
    patch("json", CM, {"data": {"a": "9"}}),
    patch("text/plain", CM, {"data": {"a": "9"}}),
    patch("merge", f"{CMS}/none", {"data": {"a": "9"}}),
    patch("merge", CMS, {"data": {"a": "9"}}),
    patch("merge", CM, {"data": {"a": "9"}}, fieldManager="x" * 129),
    patch("merge", CM, {"data": {"a": "9"}}, force="true"),
    post(DEPLOYMENTS, deployment("web", container("a"), container("b"))),
    *[patch("strategic", WEB, body) for body in _STRATEGIC],
    get(WEB),
    get(f"{WEB}/scale"),
    patch("merge", f"{WEB}/scale", {"spec": {"replicas": 4}}),
    patch("merge", f"{WEB}/status", {"status": {"replicas": 4, "observedGeneration": 1}}),
    delete(WEB),
    # server-side apply
    apply(APPLIED, applied(a="1", b="1")),
    apply(APPLIED, applied(a="1", b="1")),
    apply(APPLIED, applied(a="1")),
    apply(APPLIED, applied(a="2"), manager="two"),
    apply(APPLIED, applied(a="2"), manager="two", force="true"),
    apply(APPLIED, applied(a="1")),
    apply(APPLIED, applied(c="1")),
    apply(APPLIED, applied(d="1"), manager="three"),
    patch("merge", APPLIED, {"data": {"d": "2"}}, fieldManager="updater"),
    apply(APPLIED, applied(d="3"), manager="three"),
    apply(APPLIED, applied(d="3"), manager="three", dryRun="All", force="true"),
    get(APPLIED),
    patch("apply", APPLIED, applied(a="1")),
    apply(APPLIED, named("ConfigMap", "other")),
    apply(APPLIED, {"apiVersion": "v1", "kind": "ConfigMap", "data": {"a": "1"}}),
    apply(APPLIED, {"kind": "ConfigMap", "metadata": {"name": "applied"}}),
    apply(APPLIED, {"apiVersion": "v1", "metadata": {"name": "applied"}}),
    apply(APPLIED, named("Secret", "applied")),
    apply(APPLIED, named("ConfigMap", "applied", metadata={"managedFields": [{"manager": "x"}]})),
    apply(APPLIED, named("ConfigMap", "applied", metadata={"resourceVersion": "1"})),
    apply(APPLIED, applied(a="1") | {"extra": 1}),
    apply(APPLIED, "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: applied}\ndata: {yaml: 'yes'}\n", manager="two"),
    apply(APPLIED, "{nonsense"),
    apply(SIDE, deployment("side", container("a", ports=[{"containerPort": 80}]), container("b"), replicas=2)),
    apply(SIDE, deployment("side", container("a"), container("b"), replicas=2)),
    apply(SIDE, deployment("side", container("b", image="b:2"), replicas=3), manager="two"),
    apply(SIDE, deployment("side", container("b", image="b:2"), replicas=3), manager="two", force="true"),
    apply(SIDE, deployment("side", container("a"))),
    patch("merge", f"{SIDE}/scale", {"spec": {"replicas": 7}}, fieldManager="scaler"),
    apply(SIDE, deployment("side", container("b", image="b:2"), replicas=3), manager="two"),
    get(SIDE),
    apply(f"{SIDE}/status", named("Deployment", "side", "apps/v1", status={"replicas": 1}), manager="status"),
    delete(SIDE),
]  # fmt: skip
