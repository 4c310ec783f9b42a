"""Paths, options and addresses of GlusterFS volumes, and what their clients' logs say: read, or refused."""

from __future__ import annotations

import contextlib
from ipaddress import ip_address

from mooring.kube.objects import (
    EndpointAddress,
    Endpoints,
    EndpointSubset,
    GlusterfsVolumeSource,
    ObjectMeta,
    PersistentVolume,
    PersistentVolumeSpec,
)
from mooring.volumes.errors import VolumeError
from mooring.volumes.plugins.glusterfs.source import (
    LINE_CHARACTERS,
    last_line,
    mount_words,
    servers,
    share,
    user_options,
)
from mooring.volumes.spec import VolumeSpec

SEEDS = [
    b"vol/dir",
    b"/snaps/one/vol",
    b"acl,log-level=INFO",
    b"10.0.0.1",
    b"fd00::1",
    b"[2026-01-01 00:00:00.1 +0000] E [m.c:1:f] 0-mgmt: failed to fetch volume file (key:vol)\n",
]


def check(data: bytes) -> None:
    said = last_line(data)
    assert len(said) <= LINE_CHARACTERS and said.isprintable()
    text = data.decode(errors="replace")
    for path, option, address in ((text, "acl", "10.0.0.1"), ("vol", text, "10.0.0.1"), ("vol", "acl", text)):
        with contextlib.suppress(VolumeError):
            words = _mounted(path, option, address)
            assert all(each.isascii() and each.isprintable() for each in words)
            assert not set(" \\*?[\"'") & set(words[-1])
            server, _, volume = words[-1].rpartition(":")
            assert ip_address(server) and volume == path
            assert words[3].startswith("log-file=/l,log-level=ERROR,") and words[3].endswith(",ro")


def _mounted(path: str, option: str, address: str) -> list[str]:
    source = GlusterfsVolumeSource(endpoints="e", path=path, read_only=True)
    spec = PersistentVolumeSpec(glusterfs=source, mount_options=(option,))
    of = VolumeSpec.of_persistent_volume(PersistentVolume(metadata=ObjectMeta(name="pv"), spec=spec))
    found = Endpoints(subsets=(EndpointSubset((EndpointAddress(address),)),))
    return mount_words(share(of, "ns"), servers(found, "ns/e"), "/l", "/m", user_options(of))
