"""Makes OCI image layouts for tests."""

from __future__ import annotations

import gzip
import hashlib
import io
import json
import tarfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

INDEX = "application/vnd.oci.image.index.v1+json"
MANIFEST = "application/vnd.oci.image.manifest.v1+json"
CONFIG = "application/vnd.oci.image.config.v1+json"
LAYER = "application/vnd.oci.image.layer.v1.tar"
GZIP = b"\x1f\x8b"


def layer(files: Mapping[str, bytes | str], *, compressed: bool = True) -> bytes:
    """A layer: contents by path; a text is where a symbolic link leads; a path that ends with / is a
    directory."""
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w") as tar:
        for path, content in files.items():
            member = tarfile.TarInfo(path.rstrip("/"))
            member.mode = 0o755
            if path.endswith("/"):
                member.type = tarfile.DIRTYPE
            elif isinstance(content, str):
                member.type, member.linkname = tarfile.SYMTYPE, content
            else:
                member.size = len(content)
            tar.addfile(member, io.BytesIO(content) if isinstance(content, bytes) else None)
    return gzip.compress(buffer.getvalue()) if compressed else buffer.getvalue()


class Layout:
    """A layout that is being made."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.entries: list[dict[str, Any]] = []
        (directory / "blobs" / "sha256").mkdir(parents=True)

    def blob(self, data: bytes | dict[str, Any]) -> dict[str, Any]:
        content = data if isinstance(data, bytes) else json.dumps(data).encode()
        digest = hashlib.sha256(content).hexdigest()
        (self.directory / "blobs" / "sha256" / digest).write_bytes(content)
        return {"digest": f"sha256:{digest}", "size": len(content)}

    def image(
        self, *layers: bytes, ref: str = "", platform: dict[str, str] | None = None, **config: Any
    ) -> str:
        """Adds an image; the digest of its manifest."""
        made = {
            "architecture": "amd64",
            "os": "linux",
            "config": config,
            "rootfs": {"type": "layers", "diff_ids": [_diff_id(each) for each in layers]},
        }
        manifest = {
            "schemaVersion": 2,
            "mediaType": MANIFEST,
            "config": {**self.blob(made), "mediaType": CONFIG},
            "layers": [{**self.blob(each), "mediaType": _kind(each)} for each in layers],
        }
        entry = {**self.blob(manifest), "mediaType": MANIFEST}
        if ref:
            entry["annotations"] = {"org.opencontainers.image.ref.name": ref}
        if platform:
            entry["platform"] = platform
        self.entries.append(entry)
        self.write()
        return str(entry["digest"])

    def name(self, name: str) -> None:
        """Names the last image as containerd's import has it."""
        self.entries[-1]["annotations"] = {"io.containerd.image.name": name}
        self.write()

    def nest(self) -> None:
        """Puts what is there so far into an index of its own."""
        self.entries = [{**self.blob({"manifests": self.entries}), "mediaType": INDEX}]
        self.write()

    def write(self) -> None:
        (self.directory / "index.json").write_text(
            json.dumps({"schemaVersion": 2, "manifests": self.entries})
        )
        (self.directory / "oci-layout").write_text('{"imageLayoutVersion": "1.0.0"}')


def _kind(content: bytes) -> str:
    return f"{LAYER}+gzip" if content.startswith(GZIP) else LAYER


def _diff_id(content: bytes) -> str:
    """The digest of a layer's tar."""
    tar = gzip.decompress(content) if content.startswith(GZIP) else content
    return f"sha256:{hashlib.sha256(tar).hexdigest()}"
