"""The images of a node: folders and OCI layouts below `--images DIR`.

An image's name means the folder DIR/NAME; without its registry, `library/` and tag it is looked for, too. If
DIR is an OCI layout itself, its entries' reference names count. A layout is unpacked once, to
`<root>/images/<digest>`, and goes from there when no pod has had it for long. Nothing is ever fetched.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import shutil
import sys
from pathlib import Path

from mooring.key_locks import KeyLocks
from mooring.mounts.blocking import blocking, finish
from mooring.mounts.commands import run
from mooring.mounts.holders import mounts_everywhere
from mooring.node.images.layout import ImageProblem, OciImage, is_layout, read_image, verify
from mooring.node.pods.containers import Image

KEPT_S = 24 * 3600.0
"""Seconds after which what no pod was started with, and none has, goes when something else is unpacked."""


def candidates(image: str) -> tuple[str, ...]:
    """The names under which an image may be found, the exact one first; none for a name that is a path
    upwards."""
    if not image or image.startswith("/") or ".." in Path(image).parts:
        return ()
    short, _, _ = image.partition("@")
    first, slash, rest = short.partition("/")
    if slash and ("." in first or ":" in first or first == "localhost"):
        short = rest
    short = short.removeprefix("library/")
    head, colon, tag = short.rpartition(":")
    bare = head if colon and "/" not in tag else short
    return tuple(dict.fromkeys((image, short, bare)))


class ImageStore:
    """What `find` says holds after `prepare` of the same name."""

    def __init__(self, directory: Path | None, root: Path) -> None:
        self._directory = directory
        self._unpacked = root / "images"
        self._locks = KeyLocks()
        self._wanted: dict[str, float] = {}
        """By its name in that directory: when a pod was last to be started with it, or it was first seen (the
        loop's time)."""

    def find(self, image: str) -> Image | None:
        """The image; None if there is none of that name. Raises `ImageProblem`."""
        folder = self._folder(image)
        if folder is not None and not is_layout(folder):
            return Image(str(folder))
        found = self._oci(image, folder)
        if found is None:
            return None
        of = found.config
        env = dict(entry.split("=", 1) for entry in of.env or () if "=" in entry)
        entrypoint, command = tuple(of.entrypoint or ()), tuple(of.cmd or ())
        place = str(self._place(found))
        return Image(place, entrypoint, command, env, of.working_dir, of.user, of.stop_signal)

    async def prepare(self, image: str) -> None:
        """Unpacks the image, if it is one of a layout and not unpacked yet. Raises `ImageProblem`."""
        found = self._oci(image, self._folder(image))
        if found is None:
            return
        place = self._place(found)
        self._wanted[place.name] = asyncio.get_running_loop().time()
        async with self._locks[place.name]:
            if place.is_dir():
                return
            await self._unpack(found)
        await self._remove_unused()

    def _folder(self, image: str) -> Path | None:
        if self._directory is None:
            return None
        folders = (self._directory / name for name in candidates(image))
        return next((folder for folder in folders if folder.is_dir()), None)

    def _oci(self, image: str, folder: Path | None) -> OciImage | None:
        if folder is not None and is_layout(folder):
            tag = image.partition("@")[0].rpartition(":")[2]
            return read_image(folder, (image, tag)) or read_image(folder)
        if (
            folder is None
            and self._directory is not None
            and is_layout(self._directory)
            and candidates(image)
        ):
            return read_image(self._directory, candidates(image))
        return None

    def _place(self, image: OciImage) -> Path:
        return self._unpacked / image.digest.replace(":", "-")

    async def _unpack(self, image: OciImage) -> None:
        """To a directory beside its place, which is then moved there: it is whole, or it is not, also after a
        power loss."""
        place = self._place(image)
        draft = place.with_name(f".{place.name}.new")
        for layer in image.layers:
            await blocking(verify, layer)
        await blocking(shutil.rmtree, draft, ignore_errors=True)
        draft.mkdir(parents=True)
        process = await asyncio.create_subprocess_exec(
            *(sys.executable, "-m", "mooring.node.images.unpack", str(draft), *map(str, image.layers)),
            stdin=asyncio.subprocess.DEVNULL,
            stdout=asyncio.subprocess.DEVNULL,
            stderr=asyncio.subprocess.PIPE,
        )
        _, errors = await finish(asyncio.ensure_future(process.communicate()))
        if process.returncode:
            await blocking(shutil.rmtree, draft, ignore_errors=True)
            raise ImageProblem("ErrImagePull", errors.decode(errors="replace").strip() or "unpacking failed")
        await run("sync", "-f", "--", str(draft))
        os.replace(draft, place)

    async def _remove_unused(self) -> None:
        """An image may be made anew, under its name, many times a day. A draft that a crash has left goes,
        too."""
        now = asyncio.get_running_loop().time()
        there = os.listdir(self._unpacked)
        self._wanted = {name: self._wanted.get(name, now) for name in there}
        if old := [name for name in there if self._is_old(name, now)]:
            mounts = await blocking(mounts_everywhere, list)
            for name in {*old} - {os.path.basename(mount.root) for _, mount in mounts}:
                async with self._locks[name]:
                    if self._is_old(name, now):  # else a pod has come that is to have it
                        await blocking(_remove, self._unpacked / name)

    def _is_old(self, name: str, now: float) -> bool:
        return now - self._wanted.get(name, now) >= KEPT_S


def _remove(place: Path) -> None:
    """What is there counts as whole, so it gets another name first. What fails is tried again."""
    aside = place.with_name(f".{place.name}.old")
    shutil.rmtree(aside, ignore_errors=True)
    with contextlib.suppress(OSError):
        os.replace(place, aside)
    shutil.rmtree(aside, ignore_errors=True)
