"""The reference pages of Python interfaces: mkdocstrings reads the docstrings when the site is built."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

PAGES: Sequence[tuple[str, str, str, Sequence[str]]] = (
    (
        "python-testing.md",
        "mooring.testing",
        "Clusters for tests of your own: [how](../testing.md). `from mooring.testing import ...` has all but the fixtures, "
        "which pytest finds by itself.",
        (
            "mooring.testing.options.Options",
            "mooring.testing.cluster.Cluster",
            "mooring.testing.played_cluster.PlayedCluster",
            "mooring.testing.played_cluster.in_process",
            "mooring.testing.machine_cluster.on_this_machine",
            "mooring.testing.waiting.NotYet",
            "mooring.testing.plugin.mooring_options",
            "mooring.testing.plugin.mooring_api",
            "mooring.testing.plugin.mooring_cluster",
            "mooring.testing.plugin.mooring_nodes",
        ),
    ),
    (
        "python-fence.md",
        "Fence mechanisms",
        "What a mechanism implements: [how, and which there are](../fence-mechanisms.md). It is found by its entry point in the "
        "group `mooring.fence_mechanisms`. The policies that use it: [FencePolicy](fencing-kinds.md#fencepolicy).",
        ("mooring.fence.interface",),
    ),
    (
        "python-volumes.md",
        "Volume plugins",
        "What a plugin implements: [how, and which there are](../plugins.md). It is found by its entry point in the group "
        "`mooring.volume_plugins`.",
        ("mooring.volumes.interfaces.plugins", "mooring.volumes.interfaces.parts", "mooring.volumes.spec", "mooring.volumes.errors"),
    ),
)


def pages() -> Iterator[tuple[str, str]]:
    """File names and texts."""
    for name, title, about, objects in PAGES:
        parts = [f"::: {each}\n" for each in objects]
        yield name, "\n".join([f"# {title}\n", f"{about}\n", *parts])
