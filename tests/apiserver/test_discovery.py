"""Discovery and OpenAPI: what clients read before they do anything."""

from __future__ import annotations

import json
import re

from mooring.apiserver.objects.kinds import KINDS

AGGREGATED = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList"


def test_both_forms_of_discovery_name_every_kind_and_subresource(serve):
    async def story(api):
        legacy, aggregated = set(), set()
        groups = (await api.get("/apis"))["groups"]
        preferred = {group["name"]: f"/apis/{group['preferredVersion']['groupVersion']}" for group in groups}
        for group, path in {"api": "/api/v1", **preferred}.items():
            for resource in (await api.get(path))["resources"]:
                legacy.add((group, resource["name"], resource["kind"]))
        for path in ("/api", "/apis"):
            for group in (await api.get(path, accept=f"{AGGREGATED},application/json"))["items"]:
                for resource in group["versions"][0]["resources"]:
                    name = group["metadata"]["name"] or "api"
                    aggregated.add((name, resource["resource"], resource["responseKind"]["kind"]))
                    for sub in resource.get("subresources", ()):
                        aggregated.add(
                            (
                                name,
                                f"{resource['resource']}/{sub['subresource']}",
                                sub["responseKind"]["kind"],
                            )
                        )
        assert legacy == aggregated
        assert {(kind.group or "api", kind.plural, kind.name) for kind in KINDS} <= legacy

    serve(story)


def test_an_aggregated_answer_says_that_it_is_one(serve):
    async def story(api):
        answer = await api.server.call("GET", "/apis", headers={"accept": AGGREGATED} | bearer(api))
        assert answer.headers["content-type"] == AGGREGATED

    serve(story)


def bearer(api):
    return {"authorization": f"Bearer {api.server.tokens.admin()}"}


def test_every_document_of_openapi_says_what_kubectl_asks_for(serve):
    """kubectl applies only if the PATCH of a kind knows `fieldValidation`."""

    async def story(api):
        index = await api.get("/openapi/v3")
        seen = set()
        for entry in index["paths"].values():
            document = await api.get(entry["serverRelativeURL"].partition("?")[0])
            assert document["openapi"].startswith("3.")
            for operations in document["paths"].values():
                if "patch" in operations:
                    seen.add(tuple(operations["patch"]["x-kubernetes-group-version-kind"].values()))
                    assert "fieldValidation" in [each["name"] for each in operations["patch"]["parameters"]]
        assert seen == {(kind.group, kind.version, kind.name) for kind in KINDS}

    serve(story)


def test_openapi_has_the_fields_of_every_kind_and_every_reference_leads_somewhere(serve):
    async def story(api):
        for path, place in (("/openapi/v3/api/v1", "components"), ("/openapi/v2", "")):
            document = await api.get(path, accept="application/json")
            schemas = document[place]["schemas"] if place else document["definitions"]
            named = set(
                re.findall(r'"\$ref": "#/(?:components/schemas|definitions)/([^"]+)"', json.dumps(document))
            )
            assert named <= schemas.keys()
            containers = schemas["io.k8s.api.core.v1.PodSpec"]["properties"]["containers"]
            assert containers["x-kubernetes-patch-merge-key"] == "name"
            assert "csi" in schemas["io.k8s.api.core.v1.Volume"]["properties"]
            assert schemas["io.k8s.api.core.v1.PodSpec"]["required"] == ["containers"]

    serve(story)


def test_an_old_client_that_reads_protobuf_only_gets_an_empty_document(serve):
    async def story(api):
        accept = "application/com.github.proto-openapi.spec.v2.v1.0+protobuf"
        answer = await api.server.call("GET", "/openapi/v2", headers={"accept": accept} | bearer(api))
        assert (answer.status, answer.body) == (200, b"")

    serve(story)
