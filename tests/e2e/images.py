"""OCI layouts of the images that upstream's end-to-end suite runs, for `mooring up --images`.

Made of what is at hand: agnhost and nnp, built from upstream's module, and Debian's static busybox and bash.
So some are stand-ins: "nginx" serves a page with busybox's httpd, curl is its wget. What a spec needs of an
image beyond this is a reason in `suites.toml`.
"""

from __future__ import annotations

import hashlib
import io
import json
import subprocess
import tarfile
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

BUSYBOX = Path("/bin/busybox")
BASH = Path("/bin/bash-static")
NSENTER = Path("/usr/bin/nsenter")
"""Busybox's would go on to run busybox's own programs in place of the machine's."""
DIRECTORIES = (
    "bin", "dev", "etc", "home", "mnt", "opt", "proc", "root", "run", "sbin", "sys", "usr", "usr/bin", "usr/local",
    "usr/local/bin", "usr/sbin", "var", "var/log", "var/tmp",
)  # fmt: skip
NNP = "usr/local/bin/nnp"
SETUID = {NNP: 0o6755}
IN_USR_BIN = ("env", "head", "id", "tail", "test")
PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
USERS = {
    "etc/passwd": "root:x:0:0:root:/root:/bin/sh\nuser-defined-in-image:x:1000:1000::/home:/bin/sh\n"
    "nobody:x:65534:65534::/:/bin/false\n",
    "etc/group": "root:x:0:\nuser-defined-in-image:x:1000:\ngroup-defined-in-image:x:50000:user-defined-in-image\n"
    "nogroup:x:65534:\n",
}
ROOT_ALONE = {"etc/passwd": "root:x:0:0:root:/root:/bin/sh\n", "etc/group": "root:x:0:\n"}
CURL = {"usr/bin/curl": '#!/bin/sh\nexec wget -q -O - "$@"\n'}
SERVED = {"localhost.crt": "a page for readiness probes, no certificate\n"}
PAGE = {"usr/share/nginx/html/index.html": "<h1>Welcome to nginx!</h1>\n"}


@dataclass(frozen=True)
class Image:
    """What an image has beside busybox, and what it runs."""

    name: str
    programs: Mapping[str, Path] = field(default_factory=dict[str, Path])
    files: Mapping[str, str] = field(default_factory=dict[str, str])
    entrypoint: Sequence[str] = ()
    command: Sequence[str] = ()
    user: str = ""


def images(agnhost: Path, nnp: Path) -> tuple[Image, ...]:
    """The images, by the names that the suite gives them (without registry and tag). Their shell is bash:
    busybox's drops variables that no shell can name, such as those of a ConfigMap's keys."""
    nsenter = {str(path).lstrip("/"): path for path in (NSENTER, *libraries(NSENTER))}
    shell = {"bin/bash": BASH, "bin/sh": BASH}
    tools = {"agnhost": agnhost, "agnhost-2": agnhost, **shell, **nsenter}
    serve = ("httpd", "-f", "-p", "80", "-h", "/usr/share/nginx/html")
    who = ("sh", "-c", "echo uid=$(id -u)")
    return (
        Image("e2e-test-images/agnhost", tools, {**USERS, **CURL, **SERVED}, ("/agnhost",), ("pause",)),
        Image("e2e-test-images/busybox", shell, ROOT_ALONE, (), ("sh",)),
        Image("busybox", shell, ROOT_ALONE, (), ("sh",)),
        Image("pause", {"agnhost": agnhost}, ROOT_ALONE, ("/agnhost", "pause")),
        Image("e2e-test-images/nginx", {}, {**USERS, **PAGE}, serve),
        Image("e2e-test-images/nonroot", shell, ROOT_ALONE, who, (), "1234"),
        Image("e2e-test-images/nonewprivs", {NNP: nnp}, ROOT_ALONE, (), ("nnp",)),
    )


def missing() -> list[str]:
    """The Debian packages that have to be installed first."""
    return [
        name for name, path in {"busybox-static": BUSYBOX, "bash-static": BASH}.items() if not path.exists()
    ]


def write(image: Image, target: Path) -> None:
    """Writes the layout of `image` below `target`."""
    layout = target / image.name
    layer = _layer(image)
    config = {
        "architecture": "amd64",
        "os": "linux",
        "config": {
            "Entrypoint": list(image.entrypoint),
            "Cmd": list(image.command),
            "User": image.user,
            "Env": [f"PATH={PATH}"],
        },
        "rootfs": {"type": "layers", "diff_ids": [f"sha256:{hashlib.sha256(layer).hexdigest()}"]},
    }
    manifest = {
        "schemaVersion": 2,
        "mediaType": "application/vnd.oci.image.manifest.v1+json",
        "config": _blob(layout, json.dumps(config).encode(), "application/vnd.oci.image.config.v1+json"),
        "layers": [_blob(layout, layer, "application/vnd.oci.image.layer.v1.tar")],
    }
    named = _blob(layout, json.dumps(manifest).encode(), str(manifest["mediaType"]))
    (layout / "index.json").write_text(json.dumps({"schemaVersion": 2, "manifests": [named]}))
    (layout / "oci-layout").write_text(json.dumps({"imageLayoutVersion": "1.0.0"}))


def _blob(layout: Path, data: bytes, media_type: str) -> dict[str, Any]:
    digest = hashlib.sha256(data).hexdigest()
    blobs = layout / "blobs/sha256"
    blobs.mkdir(parents=True, exist_ok=True)
    (blobs / digest).write_bytes(data)
    return {"mediaType": media_type, "digest": f"sha256:{digest}", "size": len(data)}


def _layer(image: Image) -> bytes:
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode="w") as archive:
        for name in (*DIRECTORIES, *_parents([*image.files, *image.programs])):
            _add(archive, name, tarfile.DIRTYPE, 0o755)
        _add(archive, "tmp", tarfile.DIRTYPE, 0o1777)
        for name, program in {"bin/busybox": BUSYBOX, **image.programs}.items():
            _add(archive, name, tarfile.REGTYPE, SETUID.get(name, 0o755), program.read_bytes())
        for applet in _applets():
            if not {f"bin/{applet}", f"usr/bin/{applet}"} & image.programs.keys():
                _add(archive, f"bin/{applet}", tarfile.SYMTYPE, 0o777, target="busybox")
        for applet in IN_USR_BIN:
            _add(archive, f"usr/bin/{applet}", tarfile.SYMTYPE, 0o777, target="/bin/busybox")
        for name, text in image.files.items():
            mode = 0o755 if text.startswith("#!") else 0o644
            _add(archive, name, tarfile.REGTYPE, mode, text.encode())
    return packed.getvalue()


def libraries(program: Path) -> list[Path]:
    """What a program of this machine is linked with, by the paths that it looks for."""
    listed = subprocess.run(["ldd", program], capture_output=True, text=True, check=True).stdout
    return [Path(word) for word in listed.split() if word.startswith("/")]


def _parents(files: Iterable[str]) -> list[str]:
    found = {str(parent) for name in files for parent in Path(name).parents}
    return sorted(found - {".", *DIRECTORIES})


def _applets() -> list[str]:
    listed = subprocess.run([BUSYBOX, "--list"], capture_output=True, text=True, check=True).stdout.split()
    return [name for name in listed if name != "busybox"]


def _add(
    archive: tarfile.TarFile, name: str, kind: bytes, mode: int, data: bytes = b"", *, target: str = ""
) -> None:
    entry = tarfile.TarInfo(name)
    entry.type, entry.mode, entry.size, entry.linkname = kind, mode, len(data), target
    archive.addfile(entry, io.BytesIO(data) if data else None)
