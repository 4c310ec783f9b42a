"""`kubernetes.io/glusterfs`: the plugin (`plugin`), what its volumes, servers and logs say (`source`), and
the processes that serve its mounts (`clients`).

Upstream's plugin of that name, which Kubernetes 1.26 removed, is the source of names and defaults; the fields
are in its API still. docs/plugins.md says what is otherwise.
"""

from __future__ import annotations

from mooring.volumes.plugins.glusterfs.plugin import GlusterfsPlugin, plugin

__all__ = ["GlusterfsPlugin", "plugin"]
