"""The official Python client against the embedded API server."""

from __future__ import annotations

import gc
from collections.abc import Callable
from typing import Any

import pytest

kubernetes: Any = pytest.importorskip("kubernetes", reason="needs the client: pip install kubernetes")

# This client leaves a connection open when a watch is given up.
pytestmark = pytest.mark.filterwarnings(
    "ignore::ResourceWarning", "ignore::pytest.PytestUnraisableExceptionWarning"
)

Until = Callable[[Callable[[], bool], str], None]


@pytest.fixture
def core(cluster: Any) -> Any:
    from kubernetes import config

    with config.new_client_from_config(str(cluster.kubeconfig)) as client:
        yield kubernetes.client.CoreV1Api(client)
    gc.collect()  # here, where its open connections are forgiven


def config_map(name: str, **data: str) -> dict[str, Any]:
    return {"metadata": {"name": name, "labels": {"test": "yes"}}, "data": data}


def test_create_read_replace_patch_list_delete(core: Any):
    core.create_namespaced_config_map("default", config_map("m", a="1"))
    found = core.read_namespaced_config_map("m", "default")
    found.data["b"] = "2"
    replaced = core.replace_namespaced_config_map("m", "default", found)
    with pytest.raises(kubernetes.client.ApiException) as stale:
        core.replace_namespaced_config_map("m", "default", found)
    assert (stale.value.status, stale.value.reason) == (409, "Conflict")
    assert replaced.data == {"a": "1", "b": "2"}
    patched = core.patch_namespaced_config_map("m", "default", {"data": {"a": None}})
    assert patched.data == {"b": "2"}
    listed = core.list_config_map_for_all_namespaces(label_selector="test=yes", limit=1)
    assert [item.metadata.name for item in listed.items] == ["m"]
    core.delete_namespaced_config_map("m", "default")
    with pytest.raises(kubernetes.client.ApiException) as gone:
        core.read_namespaced_config_map("m", "default")
    assert gone.value.status == 404


def test_a_watch_brings_each_change(core: Any):
    from kubernetes import watch

    version = core.list_namespaced_config_map("default").metadata.resource_version
    core.create_namespaced_config_map("default", config_map("m", a="1"))
    core.patch_namespaced_config_map("m", "default", {"data": {"a": "2"}})
    core.delete_namespaced_config_map("m", "default")
    seen: list[tuple[str, str]] = []
    stream = watch.Watch().stream(
        core.list_namespaced_config_map,
        "default",
        resource_version=version,
        label_selector="test=yes",
        timeout_seconds=30,
    )
    for event in stream:
        seen.append((event["type"], event["object"].data["a"]))
        if event["type"] == "DELETED":
            break
    stream.close()
    assert seen == [("ADDED", "1"), ("MODIFIED", "2"), ("DELETED", "2")]


@pytest.fixture
def watched(core: Any) -> Any:
    from kubernetes import informer

    found = informer.SharedInformer(
        core.list_namespaced_config_map, namespace="default", label_selector="test=yes"
    )
    yield found
    found.stop()


def test_an_informer_survives_a_410(cluster: Any, core: Any, watched: Any, until: Until):
    errors: list[Any] = []
    watched.add_event_handler("ERROR", errors.append)

    def holds(wanted: dict[str, str]) -> bool:
        return {item.metadata.name: item.data["a"] for item in watched.cache.list()} == wanted

    for name in ("kept", "removed"):
        core.create_namespaced_config_map("default", config_map(name, a="1"))
    watched.start()
    until(lambda: holds({"kept": "1", "removed": "1"}), "the first list")
    core.patch_namespaced_config_map("kept", "default", {"data": {"a": "2"}})
    until(lambda: holds({"kept": "2", "removed": "1"}), "the first change")
    # Away for so long that what happened meanwhile has left the history.
    watched.stop()
    cluster._running.server.store.window = 2  # changes that can be watched from
    core.delete_namespaced_config_map("removed", "default")
    for value in range(10):
        core.patch_namespaced_config_map("kept", "default", {"data": {"a": f"x{value}"}})
    watched.start()
    until(lambda: holds({"kept": "x9"}), "the list after the gap")
    assert 410 in [getattr(error, "status", None) for error in errors]
    core.create_namespaced_config_map("default", config_map("new", a="1"))
    until(lambda: holds({"kept": "x9", "new": "1"}), "a change after the gap")
