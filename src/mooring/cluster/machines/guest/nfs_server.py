"""The program of an NFS server's machine: the kernel's nfsd, NFS 4.2 alone, and who may use it.

`serve DIRECTORY PARTS` runs until SIGUSR1; DIRECTORY is on the machine's own disk, PARTS are those of the
clients' addresses that are let in, as 10.88.1.0/24,10.88.2.0/24. `allow DIRECTORY PARTS`: from now on these
and no others. It takes the export away, then ends the others' state, which the kernel answers only when no
request of such a client is in progress (`ctl` of nfsd's clients): nothing of it is written later.
`connected` prints the addresses of the clients that the kernel knows.

Which clients were there is on the disk (nfsdcld), so they reclaim their locks when the machine boots again.
Runs in a machine; standard library only.
"""

from __future__ import annotations

import contextlib
import os
import re
import signal
import subprocess
import time
from ipaddress import IPv4Address, IPv4Network
from pathlib import Path

EXPORT, CLIENTS_KNOWN = "export", "nfsdcld"
"""Below DIRECTORY: what is exported, and nfsdcld's records."""
OPTIONS = "rw,sync,no_subtree_check,no_root_squash,fsid=0"
THREADS = 8
BLOCK_BYTES = 1 << 20
"""The most of a read or write."""
LEASE_S = 10
"""So long does the kernel wait for a client that says nothing, and for clients of before after its boot."""
NFSD = Path("/proc/fs/nfsd")
PIPES = Path("/run/rpc_pipefs")
EXPORTS = Path("/etc/exports")


def exports(directory: Path, parts: list[IPv4Network]) -> str:
    """What exports(5) takes."""
    return "".join(f"{directory / EXPORT} {part}({OPTIONS})\n" for part in parts)


def address_of(info: str) -> IPv4Address | None:
    """A client's address, from its `info` in nfsd's clients; None if it has none of IPv4."""
    match = re.search(r'^address: "([0-9.]{7,15}):[0-9]{1,5}"$', info, re.MULTILINE | re.ASCII)
    try:
        return IPv4Address(match[1]) if match else None
    except ValueError:
        return None


def parse_parts(text: str) -> list[IPv4Network]:
    """Raises ValueError."""
    return [IPv4Network(part) for part in text.split(",") if part]


def allow(directory: Path, parts: list[IPv4Network]) -> None:
    """These, and no others. Idempotent. Raises OSError and CalledProcessError."""
    EXPORTS.write_text(exports(directory, parts))
    _run("exportfs", "-ra")
    _run("exportfs", "-f")
    for client, address in _clients():
        if address is None or not any(address in part for part in parts):
            with contextlib.suppress(FileNotFoundError):  # it has just ended
                (client / "ctl").write_text("expire\n")


def connected() -> list[str]:
    """The addresses of clients that the kernel knows."""
    return sorted({str(address) for _, address in _clients() if address is not None})


def _clients() -> list[tuple[Path, IPv4Address | None]]:
    found: list[tuple[Path, IPv4Address | None]] = []
    for client in sorted((NFSD / "clients").glob("*")):
        with contextlib.suppress(FileNotFoundError):
            found.append((client, address_of((client / "info").read_text())))
    return found


def serve(directory: Path, parts: list[IPv4Network]) -> None:
    """Until SIGUSR1, which the first process blocks for us. Raises OSError and CalledProcessError."""
    for path in (directory / EXPORT, directory / CLIENTS_KNOWN, PIPES):
        path.mkdir(parents=True, exist_ok=True)
    (directory / EXPORT).chmod(0o777)
    _run("modprobe", "nfsd")
    for kind, where in (("rpc_pipefs", PIPES), ("nfsd", NFSD)):
        if not os.path.ismount(where):
            _run("mount", "-t", kind, kind, str(where))
    tracker = subprocess.Popen(["nfsdcld", "-F", "-p", str(PIPES), "-s", str(directory / CLIENTS_KNOWN)])
    while not (directory / CLIENTS_KNOWN / "main.sqlite").exists() or not _listens(tracker.pid):
        time.sleep(0.02)  # the kernel keeps its records elsewhere if it does not find it
    EXPORTS.write_text(exports(directory, parts))
    Path("/var/lib/nfs").mkdir(parents=True, exist_ok=True)
    _run("exportfs", "-ra")
    mountd = subprocess.Popen(["rpc.mountd", "-F", "-N", "2", "-N", "3"])
    (NFSD / "max_block_size").write_text(str(BLOCK_BYTES))  # by its little memory it would be 32 KiB
    times = ("-G", str(LEASE_S), "-L", str(LEASE_S))
    _run("rpc.nfsd", "-N", "3", "-V", "4.2", *times, str(THREADS))
    signal.sigwait({signal.SIGUSR1})
    _run("rpc.nfsd", "0")
    _run("exportfs", "-ua")
    for program in (mountd, tracker):
        program.kill()
        program.wait()


def _listens(pid: int) -> bool:
    """Whether nfsdcld waits for the kernel's pipe."""
    links = (os.readlink(each) for each in Path(f"/proc/{pid}/fd").iterdir())
    return any("inotify" in link for link in links)


def _run(*words: str) -> None:
    subprocess.run(words, stdin=subprocess.DEVNULL, check=True)


def main(what: str, directory: str = "", parts: str = "") -> None:
    """The command line."""
    if what == "connected":
        print(" ".join(connected()))
    elif what == "allow":
        allow(Path(directory), parse_parts(parts))
    else:
        serve(Path(directory), parse_parts(parts))
