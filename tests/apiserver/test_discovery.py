"""Discovery and OpenAPI: what clients read before they do anything."""

from __future__ import annotations

from mooring.apiserver.kinds import KINDS

AGGREGATED = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList"


def test_both_forms_of_discovery_name_every_kind_and_subresource(serve):
    async def story(api):
        legacy, aggregated = set(), set()
        groups = [f"/apis/{group['name']}" for group in (await api.get("/apis"))["groups"]]
        for path in ["/api", *groups]:
            for resource in (await api.get(f"{path}/v1"))["resources"]:
                legacy.add((path.rpartition("/")[2], resource["name"], resource["kind"]))
        for path in ("/api", "/apis"):
            for group in (await api.get(path, accept=f"{AGGREGATED},application/json"))["items"]:
                for resource in group["versions"][0]["resources"]:
                    name = group["metadata"]["name"] or "api"
                    aggregated.add((name, resource["resource"], resource["responseKind"]["kind"]))
                    for sub in resource.get("subresources", ()):
                        aggregated.add(
                            (name, f"{resource['resource']}/{sub['subresource']}", sub["responseKind"]["kind"])
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
            document = await api.get(entry["serverRelativeURL"])
            assert document["openapi"].startswith("3.")
            for operations in document["paths"].values():
                if "patch" in operations:
                    seen.add(tuple(operations["patch"]["x-kubernetes-group-version-kind"].values()))
                    assert [each["name"] for each in operations["patch"]["parameters"]] == ["fieldValidation"]
        assert seen == {(kind.group, kind.version, kind.name) for kind in KINDS}

    serve(story)
