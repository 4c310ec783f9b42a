"""Namespaces and configmaps: each verb, names, conflicts, preconditions, selectors, pages, dry run,
finalizers."""

from __future__ import annotations

from tests.differential.steps import Step, delete, get, named, patch, post, put

NS = "/api/v1/namespaces/basics"
CMS = f"{NS}/configmaps"
CM = f"{CMS}/one"


def configmap(name: str, **data: str) -> dict[str, object]:
    return named("ConfigMap", name, data=data)


_LABELLED = [
    post(
        CMS,
        named(
            "ConfigMap", f"page-{n}", metadata={"labels": {"set": "pages", "n": str(n), "odd": str(n % 2)}}
        ),
    )
    for n in range(5)
]

_SELECTORS = (
    "set=pages", "set==pages", "set!=pages", "n in (1,2)", "n notin (1,2),set", "set,!zone", "!set", "odd=1,n=3",
    "n in ()", "n>2", "n<2", "set=pages,", "", "n in (1", "=", "a b", "set=pa ges", "n in (1,2) , odd=1", "-bad-=1",
    "n>x", "x/y/z=1",
)  # fmt: skip

_FIELD_SELECTORS = (
    "metadata.name=page-1", "metadata.name!=page-1", "metadata.namespace=basics", "metadata.namespace=other",
    "metadata.name==page-2,metadata.namespace=basics", "data.x=1", "metadata.labels=1", "metadata.name", "nonsense==",
    "metadata.name=",
)  # fmt: skip

STEPS: list[Step] = [
    post("/api/v1/namespaces", named("Namespace", "basics"), keep="ns"),
    post("/api/v1/namespaces", named("Namespace", "basics")),
    get(NS),
    post("/api/v1/namespaces", named("Namespace", "Not_Good")),
    post("/api/v1/namespaces", named("Namespace", "x" * 64)),
    post("/api/v1/namespaces", {"apiVersion": "v1", "kind": "Namespace"}),
    delete("/api/v1/namespaces/default"),
    delete("/api/v1/namespaces/kube-system"),
    # one object's life
    get(CM),
    post(CMS, configmap("one", a="1"), keep="one"),
    post(CMS, configmap("one", a="2")),
    get(CM),
    get(CM, resourceVersion="0"),
    get(CM, pretty="false"),
    put(CM, configmap("one", a="2")),
    put(CM, configmap("one", a="2")),
    put(CM, named("ConfigMap", "one", metadata={"resourceVersion": "<<one.metadata.resourceVersion>>"})),
    put(CM, named("ConfigMap", "one", metadata={"resourceVersion": "999999999"})),
    put(CM, named("ConfigMap", "one", metadata={"resourceVersion": "zero"})),
    put(CM, named("ConfigMap", "one", metadata={"uid": "11111111-1111-1111-1111-111111111111"})),
    put(CM, configmap("another")),
    put(CM, named("ConfigMap", "one", metadata={"namespace": "default"})),
    put(f"{CMS}/none", configmap("none")),
    put(CM, configmap("one", **{"bad key": "1"})),
    put(CM, named("ConfigMap", "one", data={"a": "1"}, binaryData={"a": "MQ=="})),
    put(CM, named("ConfigMap", "one", data={"a": "1"}, immutable=True)),
    put(CM, named("ConfigMap", "one", data={"a": "2"}, immutable=True)),
    put(CM, named("ConfigMap", "one", data={"a": "1"})),
    put(CM, named("ConfigMap", "one", data={"a": "1"}, immutable=True, metadata={"labels": {"x": "y"}})),
    delete(CM, keep="gone"),
    delete(CM),
    get(CM),
    # names
    post(CMS, configmap("Upper")),
    post(CMS, configmap("")),
    post(CMS, configmap("a" * 254)),
    post(CMS, configmap("with/slash")),
    post(CMS, {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"generateName": "made-"}}, keep="made"),
    post(CMS, {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"generateName": "made-"}}),
    delete(f"{CMS}/<<made.metadata.name>>"),
    post(CMS, {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"generateName": "x" * 70}}),
    post(CMS, {"metadata": {"name": "bare"}}),
    post(CMS, named("ConfigMap", "versioned", metadata={"resourceVersion": "5"})),
    post(CMS, named("ConfigMap", "elsewhere", metadata={"namespace": "default"})),
    post("/api/v1/namespaces/missing/configmaps", configmap("x")),
    post("/api/v1/configmaps", configmap("x")),
    post("/api/v1/configmaps", named("ConfigMap", "x", metadata={"namespace": "basics"})),
    post(CMS, named("Secret", "x")),
    post(CMS, named("ConfigMap", "x", "v2")),
    post(CMS, named("ConfigMap", "x", "apps/v1")),
    post(CM, configmap("one")),
    # metadata
    post(CMS, named("ConfigMap", "bad", metadata={"labels": {"-x": "1"}})),
    post(CMS, named("ConfigMap", "bad", metadata={"labels": {"x": "has space"}})),
    post(CMS, named("ConfigMap", "bad", metadata={"labels": {"x": "v" * 64}})),
    post(CMS, named("ConfigMap", "bad", metadata={"labels": {"UP.example/" + "x" * 64: "1"}})),
    post(CMS, named("ConfigMap", "bad", metadata={"annotations": {"a b": "1"}})),
    post(CMS, named("ConfigMap", "bad", metadata={"annotations": {"big": "x" * 262145}})),
    post(CMS, named("ConfigMap", "bad", metadata={"finalizers": ["noslash"]})),
    post(CMS, named("ConfigMap", "bad", metadata={"finalizers": ["bad name/x"]})),
    post(CMS, named("ConfigMap", "bad", metadata={"ownerReferences": [{"apiVersion": "v1", "kind": "Pod"}]})),
    post(CMS, named("ConfigMap", "bad", metadata={"labels": {"x": 1}})),
    post(CMS, named("ConfigMap", "bad", metadata={"labels": ["x"]})),
    post(CMS, {"metadata": "text"}),
    post(CMS, named("ConfigMap", "set", metadata={
        "uid": "11111111-1111-1111-1111-111111111111", "creationTimestamp": "2001-01-01T00:00:00Z", "generation": 7,
        "deletionTimestamp": "2001-01-01T00:00:00Z", "selfLink": "/x",
    })),
    delete(f"{CMS}/set"),
    # dry run
    post(CMS, configmap("dry"), dryRun="All"),
    get(f"{CMS}/dry"),
    post(CMS, configmap("dry"), dryRun="Some"),
    post(CMS, configmap("kept", a="1")),
    put(f"{CMS}/kept", configmap("kept", a="2"), dryRun="All"),
    patch("merge", f"{CMS}/kept", {"data": {"b": "3"}}, dryRun="All"),
    delete(f"{CMS}/kept", dryRun="All"),
    delete(f"{CMS}/kept", {"dryRun": ["All"]}),
    get(f"{CMS}/kept"),
    # field validation
    post(CMS, configmap("strict") | {"extra": 1}, fieldValidation="Strict"),
    post(CMS, configmap("warned") | {"extra": 1}, fieldValidation="Warn"),
    post(CMS, configmap("ignored") | {"extra": 1}, fieldValidation="Ignore"),
    post(CMS, configmap("x"), fieldValidation="Maybe"),
    post(CMS, '{"metadata":{"name":"twice"},"data":{"a":"1","a":"2"}}', fieldValidation="Strict"),
    post(CMS, '{"metadata":{"name":"twice"},"data":{"a":"1","a":"2"}}'),
    # lists
    *_LABELLED,
    *[get(CMS, labelSelector=selector, accept="application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1")
      for selector in _SELECTORS],
    *[get(CMS, fieldSelector=selector) for selector in _FIELD_SELECTORS],
    get(CMS, labelSelector="set=pages", limit="2", keep="page"),
    get(CMS, labelSelector="set=pages", limit="2", **{"continue": "<<page.metadata.continue>>"}, keep="page"),
    get(CMS, labelSelector="set=pages", limit="2", **{"continue": "<<page.metadata.continue>>"}),
    get(CMS, limit="2", keep="page"),
    get(CMS, limit="100", **{"continue": "<<page.metadata.continue>>"}),
    get(CMS, limit="-1", labelSelector="set=pages"),
    get(CMS, limit="many"),
    get(CMS, limit="1", **{"continue": "nonsense"}),
    get(CMS, limit="1", **{"continue": "<<page.metadata.continue>>"}, resourceVersion="1"),
    get(CMS, resourceVersion="999999999"),
    get(CMS, resourceVersion="x"),
    get(CMS, resourceVersion="0", resourceVersionMatch="Exact"),
    get(CMS, resourceVersionMatch="Exact"),
    get(CMS, resourceVersion="1", resourceVersionMatch="Perhaps"),
    get(CMS, labelSelector="n=1", resourceVersion="<<page.metadata.resourceVersion>>", resourceVersionMatch="Exact"),
    get(CMS, labelSelector="n=1", resourceVersion="<<page.metadata.resourceVersion>>",
        resourceVersionMatch="NotOlderThan"),
    get("/api/v1/configmaps", labelSelector="set=pages", fieldSelector="metadata.name=page-3"),
    get("/api/v1/namespaces/missing/configmaps"),
    # finalizers and preconditions
    post(CMS, named("ConfigMap", "held", metadata={"finalizers": ["example.com/hold"]}), keep="held"),
    delete(f"{CMS}/held", {"preconditions": {"uid": "11111111-1111-1111-1111-111111111111"}}),
    delete(f"{CMS}/held", {"preconditions": {"resourceVersion": "1"}}),
    delete(f"{CMS}/held", {"preconditions": {"uid": "<<held.metadata.uid>>"}}),
    delete(f"{CMS}/held"),
    get(f"{CMS}/held"),
    patch("merge", f"{CMS}/held", {"metadata": {"finalizers": ["example.com/hold", "example.com/more"]}}),
    patch("merge", f"{CMS}/held", {"data": {"still": "here"}}),
    patch("merge", f"{CMS}/held", {"metadata": {"finalizers": None}}),
    get(f"{CMS}/held"),
    post(CMS, configmap("parent"), keep="parent"),
    delete(f"{CMS}/parent", {"propagationPolicy": "Foreground"}),
    get(f"{CMS}/parent"),
    delete(f"{CMS}/parent", {"propagationPolicy": "Orphan"}),
    delete(f"{CMS}/parent", {"propagationPolicy": "Background"}),
    post(CMS, configmap("parent")),
    delete(f"{CMS}/parent", propagationPolicy="Orphan"),
    patch("merge", f"{CMS}/parent", {"metadata": {"finalizers": []}}),
    delete(f"{CMS}/page-0", {"propagationPolicy": "Sideways"}),
    delete(f"{CMS}/page-0", {"orphanDependents": True, "propagationPolicy": "Orphan"}),
    delete(f"{CMS}/page-0", {"orphanDependents": False}),
    delete(f"{CMS}/page-1", "{not json"),
    delete(f"{CMS}/page-1", {"gracePeriodSeconds": 5}),
    delete(f"{CMS}/page-2", gracePeriodSeconds="x"),
    delete(CMS, labelSelector="odd=1"),
    get(CMS, labelSelector="set=pages"),
    delete(CMS, dryRun="All", labelSelector="set=pages"),
    delete(CMS, labelSelector="a b"),
    delete(CMS, labelSelector="set=pages"),
    get(CMS, labelSelector="set=pages"),
    # a namespace that ends
    post("/api/v1/namespaces", named("Namespace", "ending")),
    delete("/api/v1/namespaces/ending"),
    post("/api/v1/namespaces/ending/configmaps", configmap("late")),
    get("/api/v1/namespaces/ending"),
    patch("merge", "/api/v1/namespaces/ending", {"spec": {"finalizers": []}}),
    put("/api/v1/namespaces/ending/finalize", named("Namespace", "ending", spec={"finalizers": []})),
    get("/api/v1/namespaces/ending"),
]  # fmt: skip
