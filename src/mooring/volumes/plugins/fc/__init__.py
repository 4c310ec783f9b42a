"""`kubernetes.io/fc`: the plugin (`plugin`), what its volumes say (`source`, `identity`), the node's ports
and disks (`devices`), and how a disk comes and goes (`connections`, `notes`).

Upstream's plugin of that name is the source of names and meanings; docs/plugins.md says what is otherwise.
"""

from __future__ import annotations

from mooring.volumes.plugins.fc.plugin import FCPlugin, plugin

__all__ = ["FCPlugin", "plugin"]
