"""ConfigMaps and Secrets with `immutable: true` keep their data, and the mark."""

from __future__ import annotations

import pytest

KINDS = {
    "configmaps": ({"data": {"a": "1"}}, {"data": {"a": "2"}}),
    "secrets": ({"stringData": {"a": "1"}}, {"stringData": {"a": "2"}}),
}
SAID = "field is immutable when `immutable` is set"


@pytest.mark.parametrize("kind", KINDS)
def test_what_is_immutable_can_change_by_no_verb(serve, kind):
    async def story(api):
        path = f"/api/v1/namespaces/default/{kind}"
        first, other = KINDS[kind]
        made = await api.create(path, {"metadata": {"name": "a"}, **first})
        marked = await api.patch(f"{path}/a", {"immutable": True})
        for change in (other, {"data": None}, {"immutable": False}, {"immutable": None}):
            refusal = await api.refused(422, api.patch(f"{path}/a", change))
            assert SAID in refusal.message
            whole = {**marked, **change}
            refusal = await api.refused(422, api.replace(f"{path}/a", whole))
            assert SAID in refusal.message
        assert (await api.patch(f"{path}/a", {"metadata": {"labels": {"x": "y"}}}))["data"] == made["data"]

    serve(story)
