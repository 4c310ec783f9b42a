"""Monitors, keys and keyrings of Ceph, sources and paths of its volumes: read, or refused."""

from __future__ import annotations

import contextlib

from mooring.kube.objects import CephFSVolumeSource, RBDVolumeSource, Volume
from mooring.volumes.errors import VolumeError
from mooring.volumes.plugins.ceph.cluster import key_of_file, key_of_secret, monitor
from mooring.volumes.plugins.cephfs import directory_of
from mooring.volumes.plugins.rbd.devices import order_of, without_key
from mooring.volumes.plugins.rbd.source import image, image_at, volume_name
from mooring.volumes.spec import VolumeSpec

KEY = "AQAuSQpr61qKGRAAMWahESmYt2SzQCvg+soMoA=="
SEEDS = [
    b"10.88.0.2:6789",
    b"[fd00::1]:3300",
    b"mon-a.example.com",
    b"[client.pods]\n\tkey = AQAuSQpr61qKGRAAMWahESmYt2SzQCvg+soMoA==\n",
    b"AQAuSQpr61qKGRAAMWahESmYt2SzQCvg+soMoA==\n",
    b"/p/mounts/10.0.0.1:6789/rbd/one",
    b"/shop/data",
]


def check(data: bytes) -> None:
    text = data.decode(errors="replace")
    with contextlib.suppress(VolumeError):
        assert monitor(str(monitor(text, "v")), "v") == monitor(text, "v")
    for read in (lambda: key_of_file(data, "pods", "f"), lambda: key_of_secret({"key": data}, "s")):
        with contextlib.suppress(VolumeError):
            assert not {",", " ", "\n"} & set(read())
    if (found := image_at(text)) is not None:
        assert "/" not in volume_name(found)
    for fields in ({"monitors": (text,)}, {"image": text}, {"pool": text}, {"user": text}):
        source = RBDVolumeSource(**{"monitors": ("m",), "image": "i", **fields})
        with contextlib.suppress(VolumeError):
            order = order_of(
                image(VolumeSpec.of_volume(Volume(name="v", rbd=source))), ["m"], KEY, exclusive=True
            )
            assert len(order.split()) == 4
            assert len(order.split()[1].split(",")) == 5
            assert KEY not in without_key(order)
    with contextlib.suppress(VolumeError):
        made = CephFSVolumeSource(monitors=("m",), path=text)
        assert ".." not in directory_of(VolumeSpec.of_volume(Volume(name="v", cephfs=made)), "ns").path.split(
            "/"
        )
