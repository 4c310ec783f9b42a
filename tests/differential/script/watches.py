"""Watches: from a version, with selectors, initial events, other forms, and versions that no watch can begin
at."""

from __future__ import annotations

from tests.differential.steps import Step, delete, get, named, patch, post, watch

CMS = "/api/v1/namespaces/watches/configmaps"
METADATA = "application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1"
TABLE = "application/json;as=Table;g=meta.k8s.io;v=v1"
SINCE = {"resourceVersion": "<<start.metadata.resourceVersion>>"}

STEPS: list[Step] = [
    post("/api/v1/namespaces", named("Namespace", "watches")),
    get(CMS, keep="start"),
    post(CMS, named("ConfigMap", "a", metadata={"labels": {"x": "1"}})),
    post(CMS, named("ConfigMap", "b", metadata={"labels": {"x": "2"}, "finalizers": ["example.com/hold"]})),
    patch("merge", f"{CMS}/a", {"data": {"k": "1"}}),
    patch("merge", f"{CMS}/a", {"metadata": {"labels": {"x": "2"}}}),
    patch("merge", f"{CMS}/a", {"metadata": {"labels": {"x": "1"}}}),
    delete(f"{CMS}/b"),
    patch("merge", f"{CMS}/b", {"metadata": {"finalizers": None}}),
    delete(f"{CMS}/a"),
    post(CMS, named("ConfigMap", "c")),
    watch(CMS, **SINCE),
    watch(CMS, **SINCE, labelSelector="x=1"),
    watch(CMS, **SINCE, labelSelector="x=2"),
    watch(CMS, **SINCE, fieldSelector="metadata.name=c"),
    watch(CMS, **SINCE, allowWatchBookmarks="true"),
    watch(f"{CMS}/c", **SINCE),
    watch(CMS, METADATA, **SINCE, fieldSelector="metadata.name=c"),
    watch(CMS, TABLE, fieldSelector="metadata.name=c"),
    watch(CMS),
    watch(CMS, resourceVersion="0"),
    watch(CMS, sendInitialEvents="true", resourceVersionMatch="NotOlderThan", allowWatchBookmarks="true"),
    watch(
        CMS,
        sendInitialEvents="false",
        resourceVersionMatch="NotOlderThan",
        allowWatchBookmarks="true",
        **SINCE,
    ),
    watch(CMS, sendInitialEvents="true"),
    watch(CMS, sendInitialEvents="true", resourceVersionMatch="Exact"),
    watch(CMS, resourceVersionMatch="NotOlderThan"),
    watch(CMS, resourceVersion="x"),
    watch(CMS, fieldSelector="data.x=1"),
    get(CMS, watch="maybe", fieldSelector="metadata.name=c", timeoutSeconds="1"),
    get("/api/v1/watch/namespaces/watches/configmaps", timeoutSeconds="1"),
]
