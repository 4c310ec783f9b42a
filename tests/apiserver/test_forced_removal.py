"""A client that removes a pod by force is told what it risks while the pod's node does not answer."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mooring.apiserver.message import ADMIN, Request
from mooring.apiserver.objects.forced_removal import risk

PODS = "/api/v1/namespaces/default/pods"


async def sent(api: Any, method: str, path: str, body: Any, kind: str = "application/json") -> str:
    headers = {"content-type": kind}
    answer = await api.server.handle(
        Request(method, path, (), headers, json.dumps(body).encode(), ADMIN, warnings=[])
    )
    assert answer.status < 300, answer.body
    return answer.headers.get("warning", "")


async def node(api: Any, ready: str) -> None:
    await sent(api, "POST", "/api/v1/nodes", {"kind": "Node", "apiVersion": "v1", "metadata": {"name": "n"}})
    body = {"status": {"conditions": [{"type": "Ready", "status": ready}]}}
    await sent(api, "PATCH", "/api/v1/nodes/n/status", body, "application/merge-patch+json")


async def pod(api: Any, where: str) -> None:
    spec = {"containers": [{"name": "c", "image": "i"}], **({"nodeName": where} if where else {})}
    await sent(
        api, "POST", PODS, {"kind": "Pod", "apiVersion": "v1", "metadata": {"name": "p"}, "spec": spec}
    )


@pytest.mark.parametrize(
    ("ready", "where", "grace", "words"),
    [
        ("Unknown", "n", 0, "its node n does not answer"),
        ("True", "gone", 0, "its node gone does not exist any more"),
        ("True", "n", 0, ""),
        ("False", "n", 0, ""),
        ("Unknown", "", 0, ""),
        ("Unknown", "n", 30, ""),
        ("Unknown", "n", None, ""),
    ],
)
def test_a_removal_by_force_names_the_node_that_does_not_answer_and_the_risk(
    serve: Any, ready: str, where: str, grace: int | None, words: str
):
    async def story(api: Any):
        await node(api, ready)
        await pod(api, where)
        said = await sent(api, "DELETE", f"{PODS}/p", {} if grace is None else {"gracePeriodSeconds": grace})
        assert bool(said) is bool(words)
        assert words in said

    serve(story)


@pytest.mark.parametrize("phase", ["Succeeded", "Failed"])
def test_a_pod_that_has_ended_is_removed_without_a_word(phase: str):
    ended = {"metadata": {"name": "p"}, "spec": {"nodeName": "n"}, "status": {"phase": phase}}
    assert risk(ended, None) is None


anything = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
    max_leaves=10,
)


@given(st.dictionaries(st.sampled_from(["spec", "status"]), st.dictionaries(st.text(), anything)))
def test_whatever_is_stored_it_has_an_answer(stored: dict[str, Any]):
    said = risk({"metadata": {"name": "p"}, **stored}, None)
    assert said is None or "by force" in said
