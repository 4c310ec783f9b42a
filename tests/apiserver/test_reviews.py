"""Questions about access and identity."""

from __future__ import annotations

import pytest

from mooring.apiserver import node_user
from mooring.apiserver.encodings import protobuf

ACCESS, IDENTITY = "/apis/authorization.k8s.io/v1", "/apis/authentication.k8s.io/v1"


def asking(verb, resource, group="", **more):
    return {"spec": {"resourceAttributes": {"verb": verb, "resource": resource, "group": group}, **more}}


@pytest.mark.parametrize(
    ("verb", "resource", "allowed"),
    [("list", "services", True), ("create", "secrets", False), ("list", "nosuch", False)],
)
def test_a_node_learns_what_it_may_do_itself(serve, verb, resource, allowed):
    async def story(api):
        node = api.acting_as(node_user("a"))
        review = await node.create(f"{ACCESS}/selfsubjectaccessreviews", asking(verb, resource))
        assert review["status"]["allowed"] is allowed

    serve(story)


def test_an_administrator_asks_about_others_and_nobody_else_does(serve):
    async def story(api):
        asked = asking("create", "secrets", user="system:node:a", groups=["system:nodes"])
        assert (await api.create(f"{ACCESS}/subjectaccessreviews", asked))["status"]["allowed"] is False
        local = f"{ACCESS}/namespaces/default/localsubjectaccessreviews"
        assert (await api.create(local, asked))["status"]["allowed"] is False
        node = api.acting_as(node_user("a"))
        await api.refused(403, node.create(f"{ACCESS}/subjectaccessreviews", asked))

    serve(story)


def test_who_one_is_and_whose_a_token_is(serve):
    async def story(api):
        review = await api.acting_as(node_user("a")).create(f"{IDENTITY}/selfsubjectreviews", {})
        assert review["status"]["userInfo"]["username"] == "system:node:a"
        token = api.server.tokens.node("b")
        review = await api.create(f"{IDENTITY}/tokenreviews", {"spec": {"token": token}})
        assert (review["status"]["authenticated"], review["status"]["user"]["username"]) == (
            True,
            "system:node:b",
        )
        review = await api.create(f"{IDENTITY}/tokenreviews", {"spec": {"token": "x"}})
        assert "authenticated" not in review["status"]

    serve(story)


def test_the_rules_of_an_administrator_are_that_there_are_none(serve):
    async def story(api):
        body = {"spec": {"namespace": "default"}}
        status = (await api.create(f"{ACCESS}/selfsubjectrulesreviews", body))["status"]
        assert status["resourceRules"] == [{"verbs": ["*"], "apiGroups": ["*"], "resources": ["*"]}]
        node = await api.acting_as(node_user("a")).create(f"{ACCESS}/selfsubjectrulesreviews", body)
        assert node["status"]["incomplete"]
        assert "services" in str(node["status"]["resourceRules"])

    serve(story)


def test_a_review_can_be_asked_in_protobuf(serve):
    async def story(api):
        body = protobuf.encode(
            b'{"kind": "SelfSubjectAccessReview", "apiVersion": "authorization.k8s.io/v1", "spec": {}}'
        )
        headers = {"content-type": protobuf.MEDIA_TYPE, "accept": protobuf.MEDIA_TYPE}
        headers["authorization"] = f"Bearer {api.server.tokens.admin()}"
        answer = await api.server.call(
            "POST", f"{ACCESS}/selfsubjectaccessreviews", headers=headers, body=body
        )
        assert protobuf.decode(answer.body)["status"] == {"allowed": True}

    serve(story)
