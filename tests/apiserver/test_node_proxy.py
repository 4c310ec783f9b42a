"""Which container a request for a log means, and who may reach a node."""

from __future__ import annotations

import pytest

from mooring.apiserver import Tokens
from mooring.apiserver.errors import BadRequest
from mooring.apiserver.node_proxy import container_of

PODS = "/api/v1/namespaces/default/pods"


def pod(*containers: str, init: tuple[str, ...] = ()):
    spec = {"containers": [{"name": name} for name in containers], "initContainers": [{"name": name} for name in init]}
    return {"metadata": {"name": "web"}, "spec": spec}


def test_the_only_container_needs_no_name():
    assert container_of(pod("main", init=("first",)), "") == "main"
    assert container_of(pod("main", init=("first",)), "first") == "first"


def test_among_several_one_must_be_named():
    told = (
        r"a container name must be specified for pod web, choose one of: \[a b\] or one of the init containers: \[c\]"
    )
    with pytest.raises(BadRequest, match=told):
        container_of(pod("a", "b", init=("c",)), "")
    with pytest.raises(BadRequest, match="container d is not valid for pod web"):
        container_of(pod("a", "b"), "d")


def test_what_a_nodes_agent_is_shown_opens_nothing_here():
    tokens = Tokens(b"secret")
    assert tokens.endpoint("n1") not in (tokens.node("n1"), tokens.endpoint("n2"), tokens.admin())
