"""Makes, empties and removes directories of an NFS export on the controller's machine.

Each work is one program: a shell in a mount namespace of its own mounts the export, goes to the directory one
name after the other, and works there. Guarantees: the mount is gone with that program, however it ends; a
server that does not answer keeps nothing but it, for no longer than its deadline; no link of the export is
followed, and nothing that is mounted below it is entered; every text from outside is an argument, none is a
part of the script. The controller must run as root, with Debian's nfs-common and util-linux.
"""

from __future__ import annotations

import os
import tempfile
from collections.abc import Sequence

from mooring.mounts.blocking import blocking
from mooring.mounts.commands import find_tool
from mooring.volumes.errors import OutcomeUnknown, VolumeError
from mooring.volumes.plugins.network_mount import advice
from mooring.volumes.plugins.programs import Run

OURS = ("soft", "timeo=100", "retrans=2", "nosuid", "nodev", "noexec")
"""After all other options: the last of a kind counts. A server that has gone ends the program."""
SECONDS, SECONDS_PER_GIB, MOST_SECONDS = 300.0, 30.0, 3600.0
"""How long it may take to empty a directory, as upstream has it, and never longer than an hour."""
MADE_S = 60.0
ASIDE = ".mooring-deleted-"

_WORDS = ("unshare", "--mount", "--propagation", "private", "--", "sh", "-c")
_ENTER = """
set -eu
umask 022
root=$3
mount -t nfs -o "$1" -- "$2" "$root"
cd -P -- "$root"
shift 3
enter() {
  if [ -L "./$1" ] || ! [ -d "./$1" ]; then echo "not a directory: $1" >&2; exit 3; fi
  cd -P -- "./$1"
  root=$root/$1
  if [ "$(pwd -P)" != "$root" ]; then echo "led elsewhere: $1" >&2; exit 3; fi
}
"""
_MAKE = f"""{_ENTER}
mode=$1
shift
while [ $# -gt 1 ]; do
  [ -L "./$1" ] || [ -e "./$1" ] || mkdir -m 0755 -- "./$1" || [ -d "./$1" ]
  enter "$1"
  shift
done
[ -L "./$1" ] || [ -e "./$1" ] || mkdir -m 0700 -- "./$1"
enter "$1"
chmod -- "$mode" .
"""
_EMPTY = f"""{_ENTER}
aside=$(mktemp -d "./{ASIDE}XXXXXXXX")
find . -mindepth 1 -maxdepth 1 ! -name "{ASIDE}*" -exec mv -t "$aside" -- {{}} + || :
for each in "./{ASIDE}"*; do find "$each" -ignore_readdir_race -xdev -delete; done
if [ -n "$(ls -A .)" ]; then echo "it was written to meanwhile" >&2; exit 4; fi
"""
_REMOVE = f"""{_ENTER}
while [ $# -gt 1 ]; do
  if ! [ -L "./$1" ] && ! [ -e "./$1" ]; then exit 0; fi
  enter "$1"
  shift
done
aside={ASIDE}$1
if [ -L "./$1" ]; then echo "not a directory: $1" >&2; exit 3; fi
if [ -e "./$aside" ]; then find "./$aside" -xdev -delete; fi
if [ -e "./$1" ]; then mv -T -- "./$1" "./$aside"; find "./$aside" -xdev -delete; fi
"""
_ADVICE = (
    ("not a directory", "a link or a file of that name is there: nothing was changed, look at the export"),
    ("led elsewhere", "the directory was replaced meanwhile: nothing was changed, look at the export"),
    ("access denied", "the server does not export it to the controllers' machine: let that in"),
    (
        "Operation not permitted",
        "the controllers must run as root, and the server let root write (no_root_squash)",
    ),
    ("Permission denied", "the server does not let this machine's root write: export it with no_root_squash"),
    ("No such file or directory", "the server exports no such path"),
    ("Connection refused", "no NFS server answers there"),
    ("timed out", "the server does not answer this machine"),
    ("unknown filesystem", "this machine's kernel has no NFS: modprobe nfs"),
    ("No such device", "this machine's kernel has no NFS: modprobe nfs"),
)


class Directories:
    """Those of exports, by `SERVER:PATH` as `mount` takes it, and mount options. Names are of one directory
    below the other, each without a slash and neither `.` nor `..`. Everything raises VolumeError, and
    OutcomeUnknown if it may go on at the server; everything is idempotent."""

    def __init__(self, call: Run) -> None:
        self._run = call

    async def make(self, export: str, options: Sequence[str], names: Sequence[str], mode: str) -> None:
        """The directory is there, with that mode; those above it are root's."""
        await self._work(_MAKE, export, options, [mode, *_checked(names)], MADE_S)

    async def empty(self, export: str, options: Sequence[str], size: int) -> None:
        """Nothing is left in the export itself. `size`, in bytes, says how long that may take. All is moved
        aside before anything of it is removed: that may go on when the controller is gone, or has stood
        still, and what is written by the next claim is not there."""
        await self._work(_EMPTY, export, options, [], _patience(size))

    async def remove(self, export: str, options: Sequence[str], names: Sequence[str], size: int) -> None:
        """The directory is not there. It gets another name before anything of it is removed: a volume is
        whole, or is no volume any more."""
        await self._work(_REMOVE, export, options, _checked(names), _patience(size))

    async def _work(
        self, script: str, export: str, options: Sequence[str], words: Sequence[str], deadline_s: float
    ) -> None:
        await blocking(find_tool, "mount.nfs")
        place = await blocking(tempfile.mkdtemp, prefix="mooring-nfs-")
        try:
            given = (",".join([*options, *OURS]), export, place, *words)
            ended = await self._run(*_WORDS, script, "sh", *given, deadline_s=deadline_s)
        finally:
            await blocking(os.rmdir, place)
        if ended.status is None:
            raise OutcomeUnknown(
                f"{export}: the work on it did not end within {deadline_s:g} s: is the server well? It goes "
                f"on from there at the next try"
            )
        if ended.status != 0:
            raise VolumeError(f"{export}: {advice(ended, _ADVICE)}")


def _checked(names: Sequence[str]) -> list[str]:
    """Last of all, whatever was checked before."""
    if not names or any(each in ("", ".", "..") or set("/\0") & set(each) for each in names):
        raise VolumeError(f"{list(names)!a} are no names of directories: nothing was done")
    return list(names)


def _patience(size: int) -> float:
    return min(MOST_SECONDS, SECONDS + SECONDS_PER_GIB * (size >> 30))
