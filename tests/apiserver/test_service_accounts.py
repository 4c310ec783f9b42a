"""Tokens of service accounts: issued, believed while what they are bound to is there, worth what is bound to
their accounts."""

from __future__ import annotations

import base64
import json
from datetime import datetime, timedelta

import jwt
import pytest

from mooring.apiserver import node_user
from mooring.apiserver.access.account_claims import ISSUER, Named, Subject
from mooring.apiserver.access.account_tokens import AccountTokens
from mooring.apiserver.errors import Unauthorized

NS = "/api/v1/namespaces/default"
ROBOT = f"{NS}/serviceaccounts/robot"
IDENTITY = "/apis/authentication.k8s.io/v1"
RBAC = "/apis/rbac.authorization.k8s.io/v1"
ACCOUNT = Subject("default", Named("robot", "1"))


async def robot(api, name="robot"):
    return await api.create(f"{NS}/serviceaccounts", {"metadata": {"name": name}})


async def token(api, path=ROBOT, **spec):
    return await api.create(f"{path}/token", {"spec": spec})


async def whose(api, text, *audiences):
    """The status of a TokenReview."""
    spec = {"token": text, "audiences": [*audiences]}
    return (await api.create(f"{IDENTITY}/tokenreviews", {"spec": spec}))["status"]


async def as_bearer(api, text, method="GET", path=f"{NS}/pods", body=None):
    """The same client with the token of a service account."""
    plain = api.acting_as(None)
    return await plain.send(method, path, body, authorization=f"Bearer {text}")


async def pod_of_robot(api, name="p", node="n", **source):
    projected = {"sources": [{"serviceAccountToken": {"path": "token", **source}}]}
    body = api.new_pod(name)
    body["spec"] |= {"serviceAccountName": "robot", "volumes": [{"name": "t", "projected": projected}]}
    await api.create(f"{NS}/pods", body)
    await api.create(f"{NS}/pods/{name}/binding", {"target": {"name": node}})
    return await api.get(f"{NS}/pods/{name}")


def to(kind, name):
    return {"boundObjectRef": {"apiVersion": "v1", "kind": kind, "name": name}}


def bound(pod, **more):
    reference = {
        "apiVersion": "v1",
        "kind": "Pod",
        "name": pod["metadata"]["name"],
        "uid": pod["metadata"]["uid"],
    }
    return {"boundObjectRef": {**reference, **more}}


def said(text):
    return jwt.decode(text, options={"verify_signature": False})


def test_a_token_says_upstreams_claims_and_lasts_an_hour_unless_asked_otherwise(serve):
    async def story(api):
        account = await robot(api)
        answer = await token(api)
        claims = said(answer["status"]["token"])
        assert claims["sub"] == "system:serviceaccount:default:robot"
        assert claims["aud"] == [ISSUER] == answer["spec"]["audiences"]
        assert claims["exp"] - claims["iat"] == 3600 == answer["spec"]["expirationSeconds"]
        named = {"name": "robot", "uid": account["metadata"]["uid"]}
        assert claims["kubernetes.io"] == {"namespace": "default", "serviceaccount": named}
        assert (
            said((await token(api, expirationSeconds=600))["status"]["token"])["exp"] == claims["iat"] + 600
        )

    serve(story)


@pytest.mark.parametrize(
    ("spec", "code", "text"),
    [
        ({"expirationSeconds": 599}, 422, "may not specify a duration less than 10 minutes"),
        ({"expirationSeconds": 0}, 422, "may not specify a duration less than 10 minutes"),
        ({"expirationSeconds": (1 << 32) + 1}, 422, "may not specify a duration larger than 2^32 seconds"),
        (
            {"boundObjectRef": {"apiVersion": "v1", "kind": "ConfigMap", "name": "c"}},
            400,
            "cannot bind token to object",
        ),
        (
            {"boundObjectRef": {"apiVersion": "v1", "kind": "Pod", "name": "absent"}},
            404,
            'pods "absent" not found',
        ),
        (
            {"boundObjectRef": {"apiVersion": "v1", "kind": "Pod", "name": "other"}},
            400,
            "different serviceaccount name",
        ),
    ],
)
def test_a_request_that_cannot_be_meant_is_refused(serve, spec, code, text):
    async def story(api):
        await robot(api)
        await api.pod("other")
        assert text in (await api.refused(code, token(api, **spec))).message

    serve(story)


def test_a_token_of_no_account_is_not_issued_and_one_of_another_uid_neither(serve):
    async def story(api):
        await api.refused(404, token(api))
        await robot(api)
        pod = await pod_of_robot(api)
        refusal = await api.refused(409, token(api, **bound(pod, uid="another")))
        assert "the UID in the bound object reference (another)" in refusal.message
        for field in ("name", "namespace", "uid"):
            wrong = {"metadata": {field: "other"}, "spec": {}}
            assert "must match" in (await api.refused(422, api.create(f"{ROBOT}/token", wrong))).message

    serve(story)


def test_who_sends_a_token_is_its_service_account(serve):
    async def story(api):
        await robot(api)
        text = (await token(api))["status"]["token"]
        path = f"{IDENTITY}/selfsubjectreviews"
        user = (await as_bearer(api, text, "POST", path, {}))["status"]["userInfo"]
        assert user["username"] == "system:serviceaccount:default:robot"
        assert user["groups"] == [
            "system:serviceaccounts", "system:serviceaccounts:default", "system:authenticated",
        ]  # fmt: skip
        assert user["extra"]["authentication.kubernetes.io/credential-id"] == [f"JTI={said(text)['jti']}"]

    serve(story)


def test_a_pods_token_names_its_pod_and_node(serve):
    async def story(api):
        await robot(api)
        node = await api.create("/api/v1/nodes", {"metadata": {"name": "n"}})
        pod = await pod_of_robot(api)
        status = await whose(api, (await token(api, **bound(pod)))["status"]["token"])
        extra = {key.partition("/")[2]: value for key, value in status["user"]["extra"].items()}
        assert extra["pod-name"] == ["p"]
        assert extra["pod-uid"] == [pod["metadata"]["uid"]]
        assert extra["node-name"] == ["n"]
        assert extra["node-uid"] == [node["metadata"]["uid"]]

    serve(story)


def test_a_token_is_for_its_audiences_alone(serve):
    async def story(api):
        await robot(api)
        text = (await token(api, audiences=["vault", "bank"]))["status"]["token"]
        await api.refused(401, as_bearer(api, text))
        assert (await whose(api, text))["error"] == "invalid bearer token"
        assert (await whose(api, text, "bank", "mint"))["audiences"] == ["bank"]

    serve(story)


def test_a_token_ends_with_its_pod_its_account_and_its_time(serve):
    async def story(api):
        await robot(api)
        pod = await pod_of_robot(api)
        of_pod = (await token(api, **bound(pod)))["status"]["token"]
        of_account = (await token(api))["status"]["token"]
        assert (await whose(api, of_pod))["authenticated"]
        await api.delete(f"{NS}/pods/p", {"gracePeriodSeconds": 0})
        assert "authenticated" not in await whose(api, of_pod)
        await pod_of_robot(api)  # another pod of the name
        assert "authenticated" not in await whose(api, of_pod)
        assert (await whose(api, of_account))["authenticated"]
        await api.delete(ROBOT)
        await robot(api)
        assert "authenticated" not in await whose(api, of_account)

    serve(story)


@pytest.mark.parametrize("after", [timedelta(hours=1), timedelta(hours=-1)])
def test_a_token_is_not_believed_after_its_time_nor_before(after):
    tokens, now = AccountTokens(bytes(32)), datetime(2026, 1, 1)
    text = tokens.sign(ACCOUNT, [ISSUER], now, now + timedelta(hours=1), "id")
    assert tokens.read(text, [ISSUER], now).subject == ACCOUNT
    with pytest.raises(Unauthorized):
        tokens.read(text, [ISSUER], now + after)


def forged(**changed):
    """A token of our form, with other claims or another signature; None leaves a claim out."""
    tokens, now = AccountTokens(bytes(32)), datetime(2026, 1, 1)
    claims = {**said(tokens.sign(ACCOUNT, [ISSUER], now, now + timedelta(hours=1), "id")), **changed}
    return {key: value for key, value in claims.items() if value is not None}


def public_key():
    key = AccountTokens(bytes(32)).keys()["keys"][0]
    return key["x"] + key["y"]


@pytest.mark.parametrize(
    "text",
    [
        jwt.encode(forged(), "", "none"),
        jwt.encode(forged(), public_key(), "HS256"),
        AccountTokens(b"1" * 32).sign(
            ACCOUNT, [ISSUER], datetime(2026, 1, 1), datetime(2026, 1, 1, 1), "another server's"
        ),
        "ey.ey.ey",
        "eyJ" + "a" * 20_000,
        "",
    ],
    ids=["unsigned", "signed-with-the-public-key", "another-key", "no-token", "long", "empty"],
)
def test_what_this_server_has_not_signed_is_not_believed(text):
    with pytest.raises(Unauthorized):
        AccountTokens(bytes(32)).read(text, [ISSUER], datetime(2026, 1, 1))


@pytest.mark.parametrize(
    "changed",
    [{"iss": "https://other"}, {"exp": None}, {"nbf": None}, {"aud": None}, {"aud": []}, {"jti": None},
     {"kubernetes.io": None}, {"kubernetes.io": {"namespace": "default"}}, {"exp": "soon"}, {"exp": float("nan")}],
    ids=str,
)  # fmt: skip
def test_what_it_has_signed_for_another_purpose_is_not_believed_either(changed):
    tokens = AccountTokens(bytes(32))
    try:
        text = jwt.encode(forged(**changed), tokens._key, "ES256")
    except TypeError:  # PyJWT itself refuses to make one
        return
    with pytest.raises(Unauthorized):
        tokens.read(text, [ISSUER], datetime(2026, 1, 1))


def test_others_can_check_a_token_by_the_published_keys(serve):
    async def story(api):
        await robot(api)
        text = (await token(api, audiences=["vault"]))["status"]["token"]
        keys = (await as_bearer(api, (await token(api))["status"]["token"], path="/openid/v1/jwks"))["keys"]
        found = next(key for key in keys if key["kid"] == jwt.get_unverified_header(text)["kid"])
        options = {"verify_exp": False, "verify_nbf": False, "verify_iat": False}
        read = jwt.decode(
            text, jwt.PyJWK(found).key, [found["alg"]], options, audience="vault", issuer=ISSUER
        )
        assert read["sub"] == "system:serviceaccount:default:robot"
        assert "d" not in found
        document = await api.get("/.well-known/openid-configuration")
        assert document["issuer"] == ISSUER
        assert document["jwks_uri"].endswith("/openid/v1/jwks")

    serve(story)


class TestNodes:
    """A node gets tokens of the pods that run on it, for audiences that they name."""

    def test_of_its_pod_for_what_the_pod_names(self, serve):
        async def story(api):
            await robot(api)
            node = api.acting_as(node_user("n"))
            pod = await pod_of_robot(api, audience="vault")
            assert (await token(node, audiences=["vault"], **bound(pod)))["status"]["token"]
            for asked in ([], ["bank"]):
                refusal = await api.refused(403, token(node, audiences=asked, **bound(pod)))
                assert "not found in pod spec volume" in refusal.message
            refusal = await api.refused(403, token(node, audiences=["vault", "bank"], **bound(pod)))
            assert "0 or 1 audiences" in refusal.message

        serve(story)

    def test_for_what_the_csi_driver_of_its_pods_volume_asks(self, serve):
        async def story(api):
            await robot(api)
            driver = {"metadata": {"name": "d"}, "spec": {"tokenRequests": [{"audience": "storage"}]}}
            await api.create("/apis/storage.k8s.io/v1/csidrivers", driver)
            await api.create("/api/v1/persistentvolumes", api.new_volume("pv"))
            await api.create(f"{NS}/persistentvolumeclaims", api.new_claim("data", volumeName="pv"))
            body = api.new_pod("p")
            volume = {"name": "data", "persistentVolumeClaim": {"claimName": "data"}}
            body["spec"] |= {"serviceAccountName": "robot", "volumes": [volume]}
            await api.create(f"{NS}/pods", body)
            await api.create(f"{NS}/pods/p/binding", {"target": {"name": "n"}})
            pod = await api.get(f"{NS}/pods/p")
            node = api.acting_as(node_user("n"))
            assert await token(node, audiences=["storage"], **bound(pod))
            await api.refused(403, token(node, audiences=["vault"], **bound(pod)))

        serve(story)

    def test_none_that_is_not_bound_to_a_pod_of_its_own(self, serve):
        async def story(api):
            await robot(api)
            await robot(api, "unused")
            pod, other = await pod_of_robot(api), await pod_of_robot(api, "q", node="m")
            node = api.acting_as(node_user("n"))
            for spec, why in (
                ({}, "not bound to a pod"),
                (to("Node", "n"), "not bound to a pod"),
                (bound(pod, uid=""), "without a uid"),
                (bound(pod, uid="x"), "does not match the UID in record"),
                (bound(other), "scheduled on a different node"),
            ):
                assert why in (await api.refused(403, token(node, **spec))).message
            assert await token(node, **bound(pod))
            await api.refused(403, token(node, f"{NS}/serviceaccounts/unused", **bound(pod)))

        serve(story)


def rule(verbs, resources, groups=("",), **more):
    return {"verbs": [*verbs], "resources": [*resources], "apiGroups": [*groups], **more}


async def grant(api, *rules, kind="ClusterRole", binding="RoleBinding", subject=None):
    """Binds rules to the robot, or to another subject."""
    roles = f"{RBAC}/clusterroles" if kind == "ClusterRole" else f"{RBAC}/namespaces/default/roles"
    plural = "clusterrolebindings" if binding == "ClusterRoleBinding" else "namespaces/default/rolebindings"
    await api.create(roles, {"metadata": {"name": "r"}, "rules": [*rules]})
    subject = subject or {"kind": "ServiceAccount", "name": "robot", "namespace": "default"}
    reference = {"apiGroup": "rbac.authorization.k8s.io", "kind": kind, "name": "r"}
    return await api.create(
        f"{RBAC}/{plural}", {"metadata": {"name": "b"}, "roleRef": reference, "subjects": [subject]}
    )


class TestRights:
    """What a service account may do is what is bound to it."""

    def test_nothing_that_is_not_bound_to_it(self, serve):
        async def story(api):
            await robot(api)
            text = (await token(api))["status"]["token"]
            refusal = await api.refused(403, as_bearer(api, text))
            assert refusal.message == (
                'pods is forbidden: User "system:serviceaccount:default:robot" cannot list resource "pods" in API '
                'group "" in the namespace "default"'
            )

        serve(story)

    @pytest.mark.parametrize(
        ("kind", "binding", "there", "elsewhere"),
        [("Role", "RoleBinding", True, False), ("ClusterRole", "RoleBinding", True, False),
         ("ClusterRole", "ClusterRoleBinding", True, True)],
    )  # fmt: skip
    def test_in_the_namespaces_of_the_binding(self, serve, kind, binding, there, elsewhere):
        async def story(api):
            await robot(api)
            text = (await token(api))["status"]["token"]
            await grant(api, rule(["list"], ["pods"]), kind=kind, binding=binding)
            for path, allowed in ((f"{NS}/pods", there), ("/api/v1/pods", elsewhere)):
                if allowed:
                    assert (await as_bearer(api, text, path=path))["items"] == []
                else:
                    await api.refused(403, as_bearer(api, text, path=path))

        serve(story)

    def test_until_the_binding_or_the_role_goes(self, serve):
        async def story(api):
            await robot(api)
            text = (await token(api))["status"]["token"]
            await grant(api, rule(["*"], ["*"], ["*"]))
            assert await as_bearer(api, text)
            await api.delete(f"{RBAC}/clusterroles/r")
            await api.refused(403, as_bearer(api, text))

        serve(story)

    @pytest.mark.parametrize(
        ("subject", "allowed"),
        [
            ({"kind": "Group", "name": "system:serviceaccounts:default"}, True),
            ({"kind": "Group", "name": "system:serviceaccounts:other"}, False),
            ({"kind": "User", "name": "system:serviceaccount:default:robot"}, True),
            ({"kind": "User", "name": "robot"}, False),
            ({"kind": "ServiceAccount", "name": "robot", "namespace": "other"}, False),
        ],
    )
    def test_by_its_name_and_its_groups(self, serve, subject, allowed):
        async def story(api):
            await robot(api)
            text = (await token(api))["status"]["token"]
            if subject["kind"] != "ServiceAccount":
                subject["apiGroup"] = "rbac.authorization.k8s.io"
            await grant(api, rule(["list"], ["pods"]), subject=subject)
            if allowed:
                assert await as_bearer(api, text)
            else:
                await api.refused(403, as_bearer(api, text))

        serve(story)

    def test_on_subresources_and_names_as_the_rule_says(self, serve):
        async def story(api):
            await robot(api)
            await api.pod("mine")
            await api.pod("yours")
            text = (await token(api))["status"]["token"]
            await grant(
                api,
                rule(["get"], ["pods"], resourceNames=["mine"]),
                rule(["patch"], ["*/status"]),
                rule(["create"], ["configmaps"], resourceNames=["named"]),
            )
            assert await as_bearer(api, text, path=f"{NS}/pods/mine")
            await api.refused(403, as_bearer(api, text, path=f"{NS}/pods/yours"))
            await api.refused(403, as_bearer(api, text))
            await api.refused(403, as_bearer(api, text, "PUT", f"{NS}/pods/mine/status", {}))
            made = {"metadata": {"name": "named"}}
            await api.refused(403, as_bearer(api, text, "POST", f"{NS}/configmaps", made))

        serve(story)

    def test_never_to_give_itself_more(self, serve):
        async def story(api):
            await robot(api)
            text = (await token(api))["status"]["token"]
            await grant(api, rule(["*"], ["*"], ["*"]), binding="ClusterRoleBinding")
            more = {"metadata": {"name": "more"}, "rules": []}
            await api.refused(403, as_bearer(api, text, "POST", f"{RBAC}/clusterroles", more))
            assert (await as_bearer(api, text, path=f"{RBAC}/clusterroles"))["items"]

        serve(story)

    def test_to_ask_whose_a_token_is_where_that_is_bound(self, serve):
        async def story(api):
            await robot(api)
            text = (await token(api))["status"]["token"]
            asked = {"spec": {"token": text}}
            path = f"{IDENTITY}/tokenreviews"
            await api.refused(403, as_bearer(api, text, "POST", path, asked))
            await grant(
                api,
                rule(["create"], ["tokenreviews"], ["authentication.k8s.io"]),
                binding="ClusterRoleBinding",
            )
            assert (await as_bearer(api, text, "POST", path, asked))["status"]["authenticated"]

        serve(story)


def test_the_form_of_a_token_is_that_of_json_web_tokens():
    text = AccountTokens(bytes(32)).sign(
        ACCOUNT, [ISSUER], datetime(2026, 1, 1), datetime(2026, 1, 1, 1), "id"
    )
    header = json.loads(base64.urlsafe_b64decode(text.split(".")[0] + "=="))
    assert header["alg"] == "ES256"
    assert header["kid"]
