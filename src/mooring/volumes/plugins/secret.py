"""`kubernetes.io/secret`: a Secret's keys as files in memory, updated together when the Secret changes."""

from __future__ import annotations

from mooring.kube.objects import Pod, SecretVolumeSource, Volume
from mooring.volumes.key_files import key_files, secret_contents
from mooring.volumes.payload import Payload
from mooring.volumes.plugins.api_content import ContentPlugin

PLUGIN_NAME = "kubernetes.io/secret"


class SecretPlugin(ContentPlugin[SecretVolumeSource]):
    """The plugin."""

    name = PLUGIN_NAME
    in_memory = True

    def find(self, volume: Volume) -> SecretVolumeSource | None:
        return volume.secret

    async def payload(self, source: SecretVolumeSource, pod: Pod) -> Payload:
        where = f"Secret {pod.namespace}/{source.secret_name}"
        found = await self.host.get_secret(pod.namespace, source.secret_name)
        contents = secret_contents(found, where) if found is not None else None
        return key_files(contents, source.items, source.default_mode, source.optional, where)

    def stand_in(self, name: str) -> Volume:
        return Volume(name=name, secret=SecretVolumeSource(secret_name=name))


def plugin() -> SecretPlugin:
    """The factory that the entry point names."""
    return SecretPlugin()
