"""The block device of this machine that is an EBS volume. Blocking.

Guarantee: a device is returned only with proof that it is the volume's. The proof is the device's own
identity: the serial number of an NVMe disk, or the file behind a loop device, which is named after a volume.
It overrides names and udev's links, because names are reused and links may be stale (upstream #1224). For a
device without an identity the links are the proof: those that lead to it must name this volume and no other.
Xen disks have neither; only for these, the name under which EC2 attached the volume counts.

The directories of the devices and of sysfs are parameters: `mooring cloud` gives each of its instances a
directory with links of its own.
"""

from __future__ import annotations

import os
import re
import stat
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from mooring.csi.errors import Code, CsiError

BY_ID = "disk/by-id"
LINK = "nvme-Amazon_Elastic_Block_Store_"
_LINKS = ("", "-ns-1", "_1")
"""Suffixes of the links to the only namespace of a disk; they depend on the machine's udev rules (upstream
#1082, #1141)."""

_VOLUME_ID = re.compile(r"vol-[0-9a-z]{1,40}")
_SERIAL = re.compile(r"(vol)-?([0-9a-z]+)")
_BEHIND_LOOP = re.compile(r"(?<![0-9a-z-])vol-[0-9a-f]{8,17}(?![0-9a-z-])")
_NAME = re.compile(r"[A-Za-z0-9]+")
_ATTACHED_NAME = re.compile(r"/dev/([A-Za-z0-9]+)")
_XEN = re.compile(r"xvd[a-z]{1,2}")


@dataclass(frozen=True)
class DeviceFinder:
    """The devices of one instance: device nodes and links below `dev`, sysfs below `sys`."""

    dev: Path = Path("/dev")
    sys: Path = Path("/sys")

    def find(self, volume_id: str, attached_as: str = "", partition: int = 0) -> str:
        """The path of the volume's device, or of its partition. `attached_as` is EC2's name for it, such as
        /dev/xvdba.

        Raises CsiError: NOT_FOUND if the device is not there (yet), FAILED_PRECONDITION if the device in its
        place is, or may be, another volume's, INVALID_ARGUMENT for a malformed volume id or device name.
        """
        check_volume_id(volume_id)
        others: list[str] = []
        for path, named in self._candidates(volume_id, attached_as):
            device = self._device_at(path)
            if device is None:
                continue
            doubt = self.doubt(device, volume_id, named)
            if not doubt:
                return self._partition(device, partition) if partition else device
            others.append(f"{path} leads to {device}, {doubt}")
        if others:
            raise CsiError(
                Code.FAILED_PRECONDITION,
                f"no device is proved to be {volume_id}: {'; '.join(dict.fromkeys(others))}. It is not used. The "
                f"right one may still be on its way; if not, look at the instance's attachments and at udev's links",
            )
        raise CsiError(
            Code.NOT_FOUND,
            f"volume {volume_id} has no device on this node, neither {attached_as or 'by name'} nor a link below "
            f"{self.dev / BY_ID} nor a disk with its serial number: is it attached to this instance?",
        )

    def doubt(self, device: str, volume_id: str, named: bool = False) -> str:
        """Why the device is not proved to be the volume's, as text; empty if it is. `named`: it has the name
        under which the volume was attached."""
        name = Path(device).name
        reported = self._volume_named_by(name)
        if reported:
            return "" if reported == volume_id else f"which is {reported}"
        linked = self._linked_to(device)
        if linked:
            return "" if linked == {volume_id} else f"to which links of {', '.join(sorted(linked))} lead"
        if named and _XEN.fullmatch(name):
            return ""
        return "which does not say what it is, and no link names it"

    def volume_at(self, number: tuple[int, int], volume_id: str) -> str | None:
        """The device with this major and minor number if it is the volume's, or a partition of it; None if it
        has gone or is not proved to be the volume's. A Xen disk, which has no identity, passes: its name
        proved it when it was mounted, and it keeps its number as long as it is mounted."""
        real = self._described(number)
        if real is None or self.doubt(self._disk(real), volume_id, named=True):
            return None
        return self._node(real.name)

    def disk_of(self, number: tuple[int, int]) -> str | None:
        """The whole disk on which the block device with this major and minor number is; None if it has
        gone."""
        real = self._described(number)
        return None if real is None else self._disk(real)

    def _disk(self, real: Path) -> str:
        return self._node(real.parent.name if (real / "partition").exists() else real.name)

    def _described(self, number: tuple[int, int]) -> Path | None:
        directory = self.sys / "dev/block"
        if not directory.is_dir():  # without this check every device would look as if it had gone
            raise CsiError(
                Code.FAILED_PRECONDITION, f"{directory} is not there: the driver needs sysfs at {self.sys}"
            )
        link = directory / f"{number[0]}:{number[1]}"
        return link.resolve() if link.exists() else None

    def _node(self, name: str) -> str:
        """The device node of the name: in `dev`, or in /dev if `dev` has only links into it."""
        own = Path(os.path.realpath(self.dev)) / name
        return str(own) if own.is_block_device() and not own.is_symlink() else f"/dev/{name}"

    # --- candidates

    def _candidates(self, volume_id: str, attached_as: str) -> Iterator[tuple[Path, bool]]:
        """Paths at which the device may be, and whether each is the name under which it was attached."""
        if attached_as:
            match = _ATTACHED_NAME.fullmatch(attached_as)
            if match is None:
                raise CsiError(
                    Code.INVALID_ARGUMENT, f"{attached_as!r} is no name of a device: /dev/xvdba is one"
                )
            yield self.dev / match[1], True
            if match[1].startswith("sd"):
                yield self.dev / f"xvd{match[1][2:]}", True  # what a Xen guest calls it
        for end in _LINKS:
            yield self.dev / BY_ID / f"{LINK}{volume_id.replace('-', '')}{end}", False
        for name in self._disks_saying(volume_id):
            yield self.dev / name, False

    def _disks_saying(self, volume_id: str) -> Iterator[str]:
        """NVMe disks with the volume's serial number: for machines without udev rules that make links."""
        for serial in sorted((self.sys / "block").glob("nvme*/device/serial")):
            name = serial.parent.parent.name
            if self._volume_named_by(name) == volume_id:
                yield name

    def _device_at(self, path: Path) -> str | None:
        """The block device to which the path leads; None if there is none. A device counts only if it lies
        directly in `dev` or /dev: a link to anywhere else is not udev's."""
        real = Path(os.path.realpath(path))
        try:
            status = os.stat(real)
        except (FileNotFoundError, NotADirectoryError):
            return None
        among = real.parent in (Path("/dev"), Path(os.path.realpath(self.dev)))
        return str(real) if stat.S_ISBLK(status.st_mode) and among and _NAME.fullmatch(real.name) else None

    def _partition(self, device: str, number: int) -> str:
        path = f"{device}{'p' if device[-1].isdigit() else ''}{number}"
        if not os.path.exists(path):
            raise CsiError(Code.NOT_FOUND, f"{device} has no partition {number}")
        return path

    # --- proofs

    def _volume_named_by(self, name: str) -> str:
        """The volume that the disk's own identity names; empty if it has none."""
        serial = _read(self.sys / "block" / name / "device/serial")
        behind = _read(self.sys / "block" / name / "loop/backing_file")
        match = _SERIAL.fullmatch(serial.lower())
        if match:
            return f"{match[1]}-{match[2]}"
        return next(reversed(_BEHIND_LOOP.findall(behind)), "")

    def _linked_to(self, device: str) -> set[str]:
        """The volumes whose links lead to the device."""
        found: set[str] = set()
        directory = self.dev / BY_ID
        for name in os.listdir(directory) if directory.is_dir() else []:
            match = _SERIAL.match(name.removeprefix(LINK)) if name.startswith(LINK) else None
            if match and os.path.realpath(directory / name) == device:
                found.add(f"{match[1]}-{match[2]}")
        return found


def check_volume_id(volume_id: str) -> None:
    """Raises CsiError, NOT_FOUND, for what cannot be the id of a volume."""
    if not _VOLUME_ID.fullmatch(volume_id):
        raise CsiError(
            Code.NOT_FOUND, f"{volume_id!r} is no id of an EBS volume, so there is no device of it"
        )


def _read(path: Path) -> str:
    try:
        return path.read_text(errors="replace").strip()
    except OSError:  # no such attribute, or the disk has just gone: it says nothing
        return ""
