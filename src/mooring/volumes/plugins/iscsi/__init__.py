"""`kubernetes.io/iscsi`: the plugin (`plugin`), what its volumes say (`source`), this node's sessions
(`sessions`), and what it asks: open-iscsi (`iscsiadm`, `records`) and the kernel (`devices`).

Upstream's plugin of that name is the source of names, paths and keys of Secrets; docs/plugins.md says what is
otherwise.
"""

from __future__ import annotations

from mooring.volumes.plugins.iscsi.plugin import IscsiPlugin, plugin

__all__ = ["IscsiPlugin", "plugin"]
