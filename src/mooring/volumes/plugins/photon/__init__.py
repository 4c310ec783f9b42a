"""`kubernetes.io/photon-pd`: the plugin (`plugin`), what its volumes, settings and the answers of Photon
Controller say (`source`), what is asked of that (`controller`), and how a disk comes and goes (`attaching`).

The service has gone. Upstream's plugin of that name, which Kubernetes removed with its cloud provider, is the
source of names and defaults; the fields are in its API still. docs/plugins.md says what is otherwise.
"""

from __future__ import annotations

from mooring.volumes.plugins.photon.plugin import PhotonPlugin, plugin

__all__ = ["PhotonPlugin", "plugin"]
