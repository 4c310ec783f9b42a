"""What validation does beyond its rules: sizes, and what a refusal says and changes.

That each rule is upstream's is shown by `tests/differential/test_mutations.py`.
"""

from __future__ import annotations

from base64 import b64encode
from typing import Any

import pytest

PODS, NAMESPACE = "/api/v1/namespaces/default/pods", "/api/v1/namespaces/default"
MOST = 1024 * 1024


def pod(**spec: Any) -> dict[str, Any]:
    """A pod of one container."""
    return {"metadata": {"name": "p"}, "spec": {"containers": [{"name": "main", "image": "nginx"}], **spec}}


@pytest.mark.parametrize("field", ["data", "binaryData"])
def test_a_config_map_holds_a_mebibyte_and_no_more(serve: Any, field: str) -> None:
    def made(size: int) -> dict[str, Any]:
        text = "x" * size if field == "data" else b64encode(b"x" * size).decode()
        return {"metadata": {"name": f"c{size}"}, field: {"a": text}}

    async def story(api: Any) -> None:
        await api.create(f"{NAMESPACE}/configmaps", made(MOST))
        await api.refused(422, api.create(f"{NAMESPACE}/configmaps", made(MOST + 1)))

    serve(story)


def test_a_secret_holds_a_mebibyte_in_all_and_no_more(serve: Any) -> None:
    def made(*sizes: int) -> dict[str, Any]:
        data = {f"k{index}": b64encode(b"x" * size).decode() for index, size in enumerate(sizes)}
        return {"metadata": {"name": f"s{len(sizes)}"}, "data": data}

    async def story(api: Any) -> None:
        await api.create(f"{NAMESPACE}/secrets", made(MOST))
        await api.refused(422, api.create(f"{NAMESPACE}/secrets", made(MOST, 1)))

    serve(story)


def test_a_refusal_names_every_cause_and_changes_nothing(serve: Any) -> None:
    async def story(api: Any) -> None:
        wrong = pod(hostname="../x", hostAliases=[{"ip": "10.0.0.1\n6.6.6.6 evil", "hostnames": ["a"]}])
        wrong["spec"]["securityContext"] = {"runAsUser": -1}
        refusal = await api.refused(422, api.create(PODS, wrong))
        fields = {cause["field"] for cause in refusal.status["details"]["causes"]}
        assert fields == {"spec.hostname", "spec.hostAliases[0].ip", "spec.securityContext.runAsUser"}
        assert (await api.get(PODS))["items"] == []

    serve(story)
