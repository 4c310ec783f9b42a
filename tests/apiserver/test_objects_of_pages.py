"""Every object that a page shows can be applied: a strict API server takes it."""

from __future__ import annotations

import re
import textwrap
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from mooring.controllers.fencing.kinds import FENCING_KINDS
from mooring.controllers.snapshots.kinds import DEFINITIONS

ROOT = Path(__file__).parents[2]
PAGES = sorted([ROOT / "README.md", *(ROOT / "docs").glob("**/*.md")])
BLOCK = re.compile(r"^( *)```yaml\n(.*?)^ *```", re.DOTALL | re.MULTILINE)
ELSEWHERE = ("kustomize.config.k8s.io/", "rbac.authorization.k8s.io/")
"""What no API server has, and what this one has not: tests/real/test_page.py has the role."""
QUERY = (("dryRun", "All"), ("fieldValidation", "Strict"))


def objects(page: Path) -> Iterator[dict[str, Any]]:
    for _, block in BLOCK.findall(page.read_text()):
        for each in yaml.safe_load_all(textwrap.dedent(block)):
            if isinstance(each, dict) and "kind" in each and not each["apiVersion"].startswith(ELSEWHERE):
                yield each


SHOWN = {str(page.relative_to(ROOT)): found for page in PAGES if (found := list(objects(page)))}


@pytest.mark.parametrize("page", SHOWN)
def test_the_objects_of_a_page_are_taken(serve, page: str):
    async def story(api):
        for body in (*FENCING_KINDS, *DEFINITIONS):
            await api.create("/apis/apiextensions.k8s.io/v1/customresourcedefinitions", body)
        for name in {each["metadata"].get("namespace", "default") for each in SHOWN[page]} - {"default"}:
            await api.create("/api/v1/namespaces", {"metadata": {"name": name}})
        for each in SHOWN[page]:
            group = each["apiVersion"]
            root = f"/apis/{group}" if "/" in group else f"/api/{group}"
            kinds = {kind["kind"]: kind for kind in reversed((await api.get(root))["resources"])}
            kind = kinds[each["kind"]]
            namespace = each["metadata"].get("namespace", "default")
            where = f"{root}/namespaces/{namespace}" if kind["namespaced"] else root
            await api.create(f"{where}/{kind['name']}", each, *QUERY)

    serve(story)


def test_there_are_some():
    assert "docs/fencing.md" in SHOWN
