"""`kubernetes.io/projected`: ConfigMaps, Secrets and the downward API together in one directory, in memory.

A file that two sources make is the later one's. Tokens, trust bundles and pod certificates are refused: the
embedded API server issues none.
"""

from __future__ import annotations

from mooring.kube.objects import Pod, ProjectedVolumeSource, Volume, VolumeProjection
from mooring.volumes.downward_api import downward_files
from mooring.volumes.errors import InvalidSpec
from mooring.volumes.key_files import config_map_contents, key_files, secret_contents
from mooring.volumes.payload import Payload, PayloadFile
from mooring.volumes.plugins.api_content import ContentPlugin

PLUGIN_NAME = "kubernetes.io/projected"


class ProjectedPlugin(ContentPlugin[ProjectedVolumeSource]):
    """The plugin."""

    name = PLUGIN_NAME
    in_memory = True

    def find(self, volume: Volume) -> ProjectedVolumeSource | None:
        return volume.projected

    async def payload(self, source: ProjectedVolumeSource, pod: Pod) -> Payload:
        files: dict[str, PayloadFile] = {}
        for projection in source.sources:
            files |= await self._files(projection, source.default_mode, pod)
        return files

    def stand_in(self, name: str) -> Volume:
        return Volume(name=name, projected=ProjectedVolumeSource())

    async def _files(self, projection: VolumeProjection, mode: int | None, pod: Pod) -> Payload:
        if (wanted := projection.config_map) is not None:
            where = f"ConfigMap {pod.namespace}/{wanted.name}"
            config_map = await self.host.get_config_map(pod.namespace, wanted.name)
            contents = config_map_contents(config_map, where) if config_map is not None else None
            return key_files(contents, wanted.items, mode, wanted.optional, where)
        if (wanted := projection.secret) is not None:
            where = f"Secret {pod.namespace}/{wanted.name}"
            secret = await self.host.get_secret(pod.namespace, wanted.name)
            contents = secret_contents(secret, where) if secret is not None else None
            return key_files(contents, wanted.items, mode, wanted.optional, where)
        if projection.downward_api is not None:
            return downward_files(projection.downward_api.items, mode, pod, self.host.allocatable)
        raise InvalidSpec(_refusal(projection))


def _refusal(projection: VolumeProjection) -> str:
    if projection.service_account_token is not None:
        return (
            "projected serviceAccountToken is not supported: no tokens are issued to pods here. Remove the source, or "
            "set automountServiceAccountToken: false where an API server adds it"
        )
    return "a projected source must be a configMap, a secret or downwardAPI: nothing else is supported"


def plugin() -> ProjectedPlugin:
    """The factory that the entry point names."""
    return ProjectedPlugin()
