"""The import contracts themselves are checked by `lint-imports`; here: that no package escapes them."""

from __future__ import annotations

import tomllib
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[2]
EXEMPT = {"mooring.cli", "mooring.cluster", "mooring.simulation", "mooring.testing"}
"""May import everything (docs/architecture.md, rule 4)."""


def contracts() -> list[dict[str, Any]]:
    settings = tomllib.loads((ROOT / "pyproject.toml").read_text())
    return settings["tool"]["importlinter"]["contracts"]


def packages() -> set[str]:
    return {f"mooring.{path.parent.name}" for path in (ROOT / "src/mooring").glob("*/__init__.py")}


def test_every_package_is_the_source_of_a_contract():
    sources = {module for contract in contracts() for module in contract.get("source_modules", ())}
    assert packages() - sources == EXEMPT


def test_a_contract_that_forbids_names_all_packages_but_those_that_the_source_may_import():
    may = {
        "mooring.install": {"mooring.kube"},
        "mooring.why": {"mooring.kube", "mooring.volumes"},
        "mooring.page": {"mooring.kube", "mooring.volumes", "mooring.why"},
        "mooring.kube": set[str](),
        "mooring.mounts": set[str](),
        "mooring.apiserver": set[str](),
        "mooring.csi": set[str](),
        "mooring.fence": set[str](),
        "mooring.pictures": set[str](),
        "mooring.cloud": {"mooring.mounts"},
        "mooring.ebs": {"mooring.csi", "mooring.mounts"},
        "mooring.csi_disk": {"mooring.csi", "mooring.mounts", "mooring.volumes"},
        "mooring.volumes": {"mooring.mounts", "mooring.csi"},
        "mooring.controllers": {"mooring.kube", "mooring.volumes", "mooring.csi", "mooring.fence"},
        "mooring.node": {"mooring.kube", "mooring.volumes", "mooring.csi", "mooring.mounts"},
    }
    for contract in contracts():
        for source in contract.get("source_modules", ()):
            assert packages() - set(contract["forbidden_modules"]) == may[source] | {source}


def test_the_page_of_the_house_has_each_package_and_each_controller():
    page = (ROOT / "docs/architecture.md").read_text()
    folders = [*(ROOT / "src/mooring").iterdir(), *(ROOT / "src/mooring/controllers").iterdir()]
    rooms = [folder.name for folder in folders if (folder / "__init__.py").exists()]
    assert not [room for room in rooms if f"\n  {room}/" not in page and f"\n    {room}/" not in page]
