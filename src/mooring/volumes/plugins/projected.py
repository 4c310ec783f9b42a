"""`kubernetes.io/projected`: ConfigMaps, Secrets, the downward API and tokens of the pod's service account
together in one directory, in memory.

A file that two sources make is the later one's. A token is the fsGroup's alone, where there is one. Trust
bundles and pod certificates are refused: the embedded API server issues none.
"""

from __future__ import annotations

from mooring.kube.objects import Pod, ProjectedVolumeSource, Volume, VolumeProjection
from mooring.volumes.downward_api import downward_files
from mooring.volumes.errors import InvalidSpec
from mooring.volumes.key_files import DEFAULT_MODE, config_map_contents, key_files, secret_contents
from mooring.volumes.payload import Payload, PayloadFile
from mooring.volumes.plugins.api_content import ContentPlugin
from mooring.volumes.spec import VolumeSpec

PLUGIN_NAME = "kubernetes.io/projected"

SHARE_OF_LIFE = 0.1
"""Of a token's life: what is left of a token that is shown is never less than a tenth."""

LONGEST_PERIOD_S = 300.0
"""A server may give shorter tokens than were asked for; upstream's shortest are ten minutes."""


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

    def remount_period(self, spec: VolumeSpec) -> float | None:
        """A token is renewed when a fifth of its time is left: the volume is looked at often enough for
        that."""
        source = self.find(spec.volume) if spec.volume is not None else None
        lives = [
            each.service_account_token.expiration_seconds
            for each in (source.sources if source is not None else ())
            if each.service_account_token is not None
        ]
        return min(SHARE_OF_LIFE * min(lives), LONGEST_PERIOD_S) if lives else None

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
        if (asked := projection.service_account_token) is not None:
            token = await self.host.get_token(pod, asked.audience, asked.expiration_seconds)
            return {asked.path: PayloadFile(token.token.encode(), _token_mode(pod, mode))}
        raise InvalidSpec(
            "a projected source must be a configMap, a secret, downwardAPI or a serviceAccountToken: nothing else is "
            "supported"
        )


def _token_mode(pod: Pod, mode: int | None) -> int:
    """As the kubelet's: the group's part of it is added when the files are given to the group."""
    context = pod.spec.security_context
    if context is not None and context.fs_group is not None:
        return 0o600
    return DEFAULT_MODE if mode is None else mode


def plugin() -> ProjectedPlugin:
    """The factory that the entry point names."""
    return ProjectedPlugin()
