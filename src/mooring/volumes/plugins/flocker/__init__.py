"""`kubernetes.io/flocker`: the plugin (`plugin`), what its volumes and the control service's answers say
(`source`), and what is asked of that service (`control`).

The service has gone with its company. Upstream's plugin of that name, which Kubernetes 1.25 removed, is the
source of names and defaults; the fields are in its API still. docs/plugins.md says what is otherwise.
"""

from __future__ import annotations

from mooring.volumes.plugins.flocker.plugin import FlockerPlugin, plugin

__all__ = ["FlockerPlugin", "plugin"]
