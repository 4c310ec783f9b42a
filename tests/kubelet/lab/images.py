"""The images of the lab's pods, as archives that containerd imports: Debian's static busybox, and
beside it what the examples need."""

from __future__ import annotations

import tarfile
from pathlib import Path

from oci_layout import Layout, layer
from tests.e2e.images import libraries

BUSYBOX, CKSUM = Path("/bin/busybox"), Path("/usr/bin/cksum")
PROGRAMS = (
    "sh", "blockdev", "cat", "cut", "date", "dd", "hostname", "id", "ls", "mkdir",
    "mount", "nc", "rm", "sleep", "stat", "sync", "tail", "test", "touch", "true", "wc",
)  # fmt: skip
SHELL, PAUSE = "localhost/busybox:1", "localhost/pause:1"
OF_EXAMPLES = "docker.io/library/debian:stable-slim"


def archives(folder: Path) -> list[Path]:
    """Makes them there."""
    files: dict[str, bytes | str] = {"bin/": "", "etc/": "", "tmp/": "", "data/": "", "dev/": ""}
    files["etc/passwd"] = b"root:x:0:0:root:/root:/bin/sh\n"
    files["bin/busybox"] = BUSYBOX.read_bytes()
    files.update({f"bin/{name}": "/bin/busybox" for name in PROGRAMS})
    linked = {str(path)[1:]: path.read_bytes() for path in (CKSUM, *libraries(CKSUM))}
    content = layer(files, compressed=False)
    return [
        _archive(folder / "busybox.tar", SHELL, content),
        _archive(folder / "examples.tar", OF_EXAMPLES, content, layer(linked, compressed=False)),
        _archive(folder / "pause.tar", PAUSE, content, Entrypoint=["/bin/sleep", "infinity"]),
    ]


def _archive(out: Path, name: str, *layers: bytes, **config: object) -> Path:
    layout = Layout(out.with_suffix(""))
    layout.image(*layers, Env=["PATH=/bin:/usr/bin"], **config)
    layout.name(name)
    with tarfile.open(out, "w") as tar:
        tar.add(layout.directory, arcname=".")
    return out
