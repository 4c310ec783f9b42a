"""Images of Ceph as the kernel has them: mapped, listed and unmapped by its own files (/sys/bus/rbd), without
the program `rbd`.

Guarantees:
- An image that is to be written is mapped `exclusive`: the cluster lets one client write it, refuses every
  other while that one answers, and bars it (blocklist) before another gets it.
- The key is in what is written to the kernel, and in nothing that is returned or raised.

Blocking. Everything read is bounded; what has gone while it was looked at is left out.
"""

from __future__ import annotations

import errno
import os
import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from mooring.mounts.holders import in_exclusive_use
from mooring.volumes.plugins.rbd.source import Image
from mooring.volumes.plugins.sysfs import entries, line

SYS, DEV = Path("/sys"), Path("/dev")
MOUNT_TIMEOUT_S, LOCK_TIMEOUT_S = 30, 60
"""The monitors have so long to answer, and the holder of the image to be found dead: its watch lasts 30 s."""
EXCLUSIVE_LOCK = 1 << 2
"""Of the features of an image (librbd: RBD_FEATURE_EXCLUSIVE_LOCK)."""

_NUMBER = re.compile(r"[0-9]{1,6}", re.ASCII)
_SECRET = re.compile(r"\bsecret=[^,\s]*", re.ASCII)


@dataclass(frozen=True)
class Mapping:
    """A mapped image: /dev/rbdNUMBER. `order` is by which it was mapped, without the key; `identity` what the
    cluster calls the image, `size` in bytes."""

    number: str
    order: str
    identity: str
    features: int
    size: int

    @property
    def refuses(self) -> bool:
        """Whether the cluster keeps other clients from writing it."""
        return bool(self.features & EXCLUSIVE_LOCK)


def order_of(image: Image, addresses: Sequence[str], key: str, *, exclusive: bool) -> str:
    """What the kernel is told. Texts of an `Image` have no blank and no comma."""
    how = "ro" if image.read_only else f"exclusive,lock_timeout={LOCK_TIMEOUT_S}" if exclusive else "rw"
    options = f"name={image.cluster.user},secret={key},{how},mount_timeout={MOUNT_TIMEOUT_S}"
    return f"{','.join(addresses)} {options} {image.pool} {image.name}"


def without_key(order: str) -> str:
    return _SECRET.sub("secret=", order)


class Devices:
    """What `sys` and `dev` show."""

    def __init__(self, sys: Path = SYS, dev: Path = DEV) -> None:
        self._bus = sys / "bus/rbd"
        self._sys = sys
        self._dev = dev

    def known(self) -> bool:
        """Whether the kernel has its driver."""
        return self._bus.is_dir()

    def mappings(self) -> list[Mapping]:
        """All images that are mapped here, by whomever."""
        found = [self._mapping(each) for each in entries(self._bus / "devices", _NUMBER)]
        return [each for each in found if each is not None]

    def _mapping(self, directory: Path) -> Mapping | None:
        features, size = line(directory / "features"), line(directory / "size")
        try:
            bits, length = int(features, 16), int(size)
        except ValueError:
            return None
        names = ("cluster_fsid", "pool_id", "pool_ns", "image_id", "snap_id")
        identity = "/".join(line(directory / name) for name in names)
        return Mapping(directory.name, without_key(line(directory / "config_info")), identity, bits, length)

    def map(self, order: str) -> None:
        """Raises OSError; ends in the end, and may take as long as the cluster."""
        self._tell("add", order)

    def unmap(self, mapping: Mapping) -> None:
        """Raises OSError: EBUSY if anything has it open."""
        self._tell("remove", mapping.number)

    def _tell(self, file: str, text: str) -> None:
        single = self._bus / f"{file}_single_major"
        descriptor = os.open(single if single.exists() else self._bus / file, os.O_WRONLY | os.O_CLOEXEC)
        try:
            os.write(descriptor, text.encode())
        finally:
            os.close(descriptor)

    def path(self, mapping: Mapping) -> str:
        return str(self._dev / f"rbd{mapping.number}")

    def in_use(self, mapping: Mapping) -> bool:
        """Whether it is mounted anywhere, or claimed; one that cannot be opened any more is not."""
        try:
            return in_exclusive_use(self.path(mapping))
        except OSError as error:
            if error.errno in (errno.ENXIO, errno.ENODEV, errno.ENOENT):
                return False
            raise

    def flush(self, mapping: Mapping) -> None:
        """Has all that was written to it on the cluster. Raises OSError."""
        descriptor = os.open(self.path(mapping), os.O_RDONLY | os.O_CLOEXEC)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)


WHY = {
    errno.ENOENT: "the cluster has no such pool or image: correct rbd.pool and rbd.image, or create it",
    errno.EACCES: "the monitors refuse the user or its key: compare both with `ceph auth get`",
    errno.EPERM: "the user has no right to it: `ceph auth caps` gives it `profile rbd` for monitors and pool",
    errno.ETIMEDOUT: "no Ceph monitor answers there: look at the cluster, at the network, and at monitors",
    errno.EROFS: "another client has it, and answers: end what uses it there (`rbd status` shows where)",
    errno.EBUSY: "another client has it: `rbd status` shows which",
    errno.ENXIO: "the image has features that this node's kernel does not know: `rbd feature disable`",
    errno.EINVAL: "this node's kernel does not understand the order: is the key one of Ceph, is the kernel too old?",
}


def why(error: OSError) -> str:
    """What the kernel's answer means, and what can be done."""
    text = os.strerror(error.errno) if error.errno else str(error)
    return f"{WHY[error.errno]} ({text})" if error.errno in WHY else text
