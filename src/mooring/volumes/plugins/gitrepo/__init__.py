"""`kubernetes.io/git-repo`: the plugin (`plugin`), what its volumes say (`source`), how git is run (`clone`),
and what of a clone becomes the volume (`tree`).

Upstream deprecates such volumes and has locked them off: git has run what repositories said, as root, on
nodes. Here they are off, too, unless the node's operator switches them on (docs/plugins.md).
"""

from __future__ import annotations

from mooring.volumes.plugins.gitrepo.plugin import GitRepoPlugin, plugin

__all__ = ["GitRepoPlugin", "plugin"]
