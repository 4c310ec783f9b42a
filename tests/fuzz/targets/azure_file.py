"""Shares, options, Secrets and the server's setting of azureFile volumes: read, or refused."""

from __future__ import annotations

import contextlib

from mooring.kube.objects import AzureFileVolumeSource, ObjectMeta, PersistentVolume, PersistentVolumeSpec
from mooring.volumes.errors import InvalidSpec
from mooring.volumes.plugins.azure_file import ACCOUNT_KEY, ACCOUNT_NAME, credentials, options, share
from mooring.volumes.spec import VolumeSpec

SEEDS = [b"data", b"vers=3.1.1,uid=7", b"c2VjcmV0+/==\n", b"team-1", b'context="a,b"']


def check(data: bytes) -> None:
    text = data.decode(errors="replace")
    with contextlib.suppress(InvalidSpec):
        name = share(_spec(text, ()), "ns").name
        assert name.isascii() and name.isprintable() and not set("/\\, ") & set(name) and name[0] not in "-."
    with contextlib.suppress(InvalidSpec):
        found = options(_spec("data", (text,)), read_only=True, fs_group=1)
        assert found[-1] == "ro" and ",".join(found).isprintable() and found[0].count('"') % 2 == 0
    for account, key in ((data, b"k"), (b"a", data)):
        with contextlib.suppress(InvalidSpec):
            _, file = credentials({ACCOUNT_NAME: account, ACCOUNT_KEY: key}, "Secret a/b")
            lines = file.split("\n")
            assert len(lines) == 3 and lines[2] == "" and file.isascii()
            assert lines[0].startswith("username=") and lines[1].startswith("password=")


def _spec(name: str, given: tuple[str, ...]) -> VolumeSpec:
    source = AzureFileVolumeSource(secret_name="s", share_name=name)
    spec = PersistentVolumeSpec(azure_file=source, mount_options=given)
    return VolumeSpec.of_persistent_volume(PersistentVolume(metadata=ObjectMeta(name="pv"), spec=spec))
