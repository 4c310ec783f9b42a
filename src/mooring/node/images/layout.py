"""Reads an OCI image layout: which manifest a name means on this machine, its layers and its config.

Source: the OCI image specification 1.1 (image-layout, image-index, manifest, config). Docker's media types
are the same documents. Every blob is checked against its digest before it is used.
"""

from __future__ import annotations

import hashlib
from pathlib import Path
from typing import TypeVar

import msgspec

from mooring.node.hardware import this_machine

REF_NAME = "org.opencontainers.image.ref.name"
_DEPTH = 4
"""Indexes within indexes that are followed."""


_T = TypeVar("_T")


class ImageProblem(Exception):
    """An image cannot be used; `reason` is a waiting reason of Kubernetes, the message names image and
    file."""

    def __init__(self, reason: str, message: str) -> None:
        self.reason = reason
        super().__init__(message)


class Platform(msgspec.Struct, frozen=True):
    """What an entry of an index is for."""

    architecture: str = ""
    os: str = ""


class Descriptor(msgspec.Struct, frozen=True, rename="camel"):
    """A reference to a blob."""

    digest: str
    media_type: str = ""
    platform: Platform | None = None
    annotations: dict[str, str] = {}


class _Index(msgspec.Struct, frozen=True):
    manifests: list[Descriptor] = []


class _Manifest(msgspec.Struct, frozen=True):
    config: Descriptor
    layers: list[Descriptor] = []


class Config(msgspec.Struct, frozen=True, rename="pascal"):
    """How the image wants to be run."""

    entrypoint: list[str] | None = None
    cmd: list[str] | None = None
    env: list[str] | None = None
    working_dir: str = ""
    user: str = ""
    stop_signal: str = ""


class _ImageConfig(msgspec.Struct, frozen=True):
    config: Config = Config()


class OciImage(msgspec.Struct, frozen=True):
    """An image of a layout: the digest of its manifest, its layers from the lowest, its config."""

    digest: str
    layers: list[Path]
    config: Config


def is_layout(directory: Path) -> bool:
    """Whether the directory is an OCI image layout."""
    return (directory / "index.json").is_file() and (directory / "blobs").is_dir()


def read_image(directory: Path, names: tuple[str, ...] = ()) -> OciImage | None:
    """The layout's image: the one that has one of `names`, else, without `names`, the only one for this
    machine.

    None if no entry has such a name. Raises `ImageProblem`.
    """
    index = _decode((directory / "index.json").read_bytes(), _Index, directory / "index.json")
    entries = [entry for entry in index.manifests if not names or entry.annotations.get(REF_NAME) in names]
    if not entries:
        return None
    digest = _manifest(directory, entries, _DEPTH).digest
    manifest = _decode(_blob(directory, digest), _Manifest, directory)
    config = _decode(_blob(directory, manifest.config.digest), _ImageConfig, directory).config
    return OciImage(digest, [blob_path(directory, layer.digest) for layer in manifest.layers], config)


def _manifest(directory: Path, entries: list[Descriptor], depth: int) -> Descriptor:
    """The first entry for this machine; an index is looked into."""
    for entry in entries:
        if not _fits(entry.platform):
            continue
        if "index" not in entry.media_type and "manifest.list" not in entry.media_type:
            return entry
        if depth:
            inner = _decode(_blob(directory, entry.digest), _Index, directory)
            return _manifest(directory, inner.manifests, depth - 1)
    found = ", ".join(f"{each.platform.os}/{each.platform.architecture}" for each in entries if each.platform)
    raise ImageProblem(
        "ErrImagePull", f"{directory} has no image for linux/{this_machine().architecture}, only for {found}"
    )


def _fits(wanted: Platform | None) -> bool:
    return wanted is None or (
        wanted.os in ("", "linux") and wanted.architecture in ("", this_machine().architecture)
    )


def blob_path(directory: Path, digest: str) -> Path:
    """Where a blob is kept. Raises `ImageProblem` for what is no digest."""
    algorithm, _, encoded = digest.partition(":")
    if algorithm not in ("sha256", "sha512") or not encoded.isalnum():
        raise ImageProblem("ErrImagePull", f"{directory}: {digest!r} is not a digest")
    return directory / "blobs" / algorithm / encoded


def verify(path: Path) -> None:
    """Compares a blob with its digest, which is its name. Blocks. Raises `ImageProblem`."""
    try:
        with path.open("rb") as file:
            digest = hashlib.file_digest(file, path.parent.name).hexdigest()
    except FileNotFoundError:
        raise ImageProblem("ErrImagePull", f"the blob {path} is missing: copy the whole layout") from None
    if digest != path.name:
        raise ImageProblem("ErrImagePull", f"the blob {path} is damaged: its digest is {digest}")


def _blob(directory: Path, digest: str) -> bytes:
    path = blob_path(directory, digest)
    verify(path)
    return path.read_bytes()


def _decode(data: bytes, kind: type[_T], path: Path) -> _T:
    try:
        return msgspec.json.decode(data, type=kind)
    except msgspec.DecodeError as error:
        raise ImageProblem("ErrImagePull", f"{path} is not as the OCI specification says: {error}") from error
