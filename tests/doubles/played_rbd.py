"""The kernel's mapped images, and a Ceph cluster, as `rbd.devices.Devices` shows them to a plugin."""

from __future__ import annotations

import errno
import re

from mooring.volumes.plugins.rbd.devices import EXCLUSIVE_LOCK, Mapping, without_key

KEY = "AQAuSQpr61qKGRAAMWahESmYt2SzQCvg+soMoA=="
_ORDER = re.compile(r"(\S+) name=(\S+?),secret=(\S*?),(\S+) (\S+) (\S+)")


class PlayedCluster:
    """Images by pool and name; who has each mapped exclusively. Shared by nodes."""

    def __init__(self) -> None:
        self.features = {("rbd", "one"): 0x3D, ("rbd", "two"): 0x3D, ("rbd", "old"): 0x1}
        self.sizes = dict.fromkeys(self.features, 64 << 20)
        self.holders: dict[tuple[str, str], PlayedDevices] = {}


class PlayedDevices:
    """One node's. `failure`: what the next order to map ends with, though `happens`, perhaps."""

    def __init__(self, cluster: PlayedCluster) -> None:
        self.cluster = cluster
        self.loaded = True
        self.mapped: dict[str, Mapping] = {}
        self.images: dict[str, tuple[str, str]] = {}
        self.used: set[str] = set()
        self.orders: list[str] = []
        self.failure: OSError | None = None
        self.flush_failure: OSError | None = None
        self._next = 0

    def known(self) -> bool:
        return self.loaded

    def mappings(self) -> list[Mapping]:
        return list(self.mapped.values())

    def map(self, order: str) -> None:
        assert self.loaded
        self.orders.append(order)
        if self.failure is not None:
            raise self.failure
        self.do(order)

    def do(self, order: str) -> None:
        """What the kernel does by an order."""
        found = _ORDER.fullmatch(order)
        assert found is not None, order
        image, options = (found[5], found[6]), found[4].split(",")
        if image not in self.cluster.features:
            raise OSError(errno.ENOENT, "")
        features = self.cluster.features[image]
        if "exclusive" in options:
            if not features & EXCLUSIVE_LOCK:
                raise OSError(errno.EINVAL, "")
            if image in self.cluster.holders:
                raise OSError(errno.EROFS, "")
            self.cluster.holders[image] = self
        number, self._next = str(self._next), self._next + 1
        identity = f"fsid/1//{image[1]}-id/-"
        self.images[number] = image
        self.mapped[number] = Mapping(
            number, without_key(order), identity, features, self.cluster.sizes[image]
        )

    def unmap(self, mapping: Mapping) -> None:
        if mapping.number in self.used:
            raise OSError(errno.EBUSY, "")
        image = self.images.pop(mapping.number)
        del self.mapped[mapping.number]
        if self.cluster.holders.get(image) is self:
            del self.cluster.holders[image]

    def path(self, mapping: Mapping) -> str:
        return f"/dev/rbd{mapping.number}"

    def in_use(self, mapping: Mapping) -> bool:
        return mapping.number in self.used

    def flush(self, mapping: Mapping) -> None:
        if self.flush_failure is not None:
            raise self.flush_failure
