"""Played in the virtual environment in which the plugin is installed: its volume survives the loss of its
node."""

from __future__ import annotations

import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

from in_process_cluster import InProcessCluster
from tests.conftest import run_in_virtual_time, virtual_now

from mooring.volumes.plugin_manager import PluginManager, load_plugins

SHELF = "example.org/shelf"


async def story(root: Path) -> None:
    def plugins(host: Any) -> PluginManager:
        found = load_plugins(replace(host, plugin_settings={SHELF: {"shelf": str(root / "shelf")}}))
        assert [error.plugin for error in found.errors] == []
        return found

    cluster = InProcessCluster(root, virtual_now, plugins)
    await cluster.start()
    await cluster.storage_class("shelf", SHELF)
    await cluster.stateful_set(storage_class="shelf")
    first = await cluster.until(cluster.running)
    (box,) = (root / "shelf").iterdir()
    assert (box / "holder").read_text() == first
    (link,) = root.glob(f"{first}/pods/*/volumes/example.org~shelf/*")
    (link / "kept").write_text("kept")

    await cluster.machines[first].power_off()

    async def evicted() -> bool:
        pod = await cluster.pod()
        return pod is not None and pod.deleting

    await cluster.until(evicted)
    assert (box / "holder").read_text() == first, "the node has not been confirmed dead"
    await cluster.out_of_service(first)
    second = await cluster.until(lambda: cluster.running(other_than=first))
    assert (box / "holder").read_text() == second
    (link,) = root.glob(f"{second}/pods/*/volumes/example.org~shelf/*")
    assert (link / "kept").read_text() == "kept"


if __name__ == "__main__":
    run_in_virtual_time(story(Path(sys.argv[1])))
    print("played")
