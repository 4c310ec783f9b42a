"""The live page beside a whole cluster: at each turn of a story it shows what `mooring why` says."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

from in_process_cluster import InProcessCluster
from tests.cluster.in_process.test_why import snapshot

from mooring.page.following import Following
from mooring.page.life import volume_life
from mooring.page.model import Model
from mooring.simulation.parts.array_plugin import ArrayPlugin
from mooring.volumes.host import ControllerVolumeHost
from mooring.volumes.plugin_manager import PluginManager
from mooring.why.explain import stuck

Play = Callable[[Any], Any]


class Page:
    def __init__(self, cluster: InProcessCluster) -> None:
        self.cluster = cluster
        plugins = PluginManager([ArrayPlugin(cluster.array)], ControllerVolumeHost(cluster.now))
        self.model = Model(plugins, lambda: int(cluster.now().timestamp() * 1000))
        self.following = Following(cluster.api, self.model, lambda batch: None)
        self.task = asyncio.create_task(self.following.run())

    async def agrees(self) -> bool:
        """Whether it says of everything that is stuck what `why` says now; of workloads it has the pods."""
        found = [each for each in stuck(await snapshot(self.cluster)) if not each.about.startswith("sts/")]
        said = {cause.about: cause.reason for cause in found}
        shown = {key: row["chain"][0] for key, row in self.model.tables["stuck"].items()}
        return {about: tuple(reason) for about, reason in said.items()} == {
            key: (link["code"], link["message"]) for key, link in shown.items()
        }

    def phases(self) -> list[str]:
        return [row["phase"] for row in self.model.tables["volumes"].values()]


def test_a_lost_node_is_told_as_why_tells_it_and_the_volume_has_a_life(play: Play):
    async def story(cluster: InProcessCluster):
        await cluster.start()
        page = Page(cluster)
        await page.following.begun.wait()
        await cluster.stateful_set()
        node = await cluster.until(cluster.running)
        await cluster.until(page.agrees)
        assert page.phases() == ["in-use"]
        await cluster.machines[node].power_off()
        await cluster.until(lambda: "pod/default/app-0" in page.model.tables["stuck"])
        await cluster.until(lambda: page.model.tables["nodes"][node]["phase"] == "silent")
        await cluster.until(page.agrees)
        assert page.model.tables["stuck"]["pod/default/app-0"]["chain"][1]["code"] == "NodeNotAnswering"
        await cluster.out_of_service(node)
        await cluster.until(lambda: cluster.running(other_than=node))
        await cluster.until(page.agrees)
        (key,) = page.model.tables["volumes"]
        life = volume_life(key, page.model)
        assert life is not None
        assert all(each["reached"] for each in life["milestones"])
        page.task.cancel()

    play(story)
