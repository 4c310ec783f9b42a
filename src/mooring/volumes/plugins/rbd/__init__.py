"""`kubernetes.io/rbd`: the plugin (`plugin`), what its volumes say (`source`), which images this node uses
(`images`, `notes`), and what it asks of the kernel (`devices`).

Upstream's plugin of that name, which Kubernetes 1.31 removed, is the source of names and defaults; the fields
are in its API still. docs/plugins.md says what is otherwise.
"""

from __future__ import annotations

from mooring.volumes.plugins.rbd.plugin import RBDPlugin, plugin

__all__ = ["RBDPlugin", "plugin"]
