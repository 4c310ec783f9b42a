"""The images of a node: folders and OCI layouts below `--images DIR`.

An image's name means the folder DIR/NAME; without its registry, `library/` and tag it is looked for, too. If
DIR is an OCI layout itself, its entries' reference names count. A layout is unpacked once, to
`<root>/images/<digest>`. Nothing is ever fetched.
"""

from __future__ import annotations

import asyncio
import os
import shutil
import sys
from pathlib import Path

from mooring.key_locks import KeyLocks
from mooring.mounts.blocking import blocking, finish
from mooring.mounts.commands import run
from mooring.node.images.layout import ImageProblem, OciImage, is_layout, read_image, verify
from mooring.node.pods.containers import Image


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
        async with self._locks[found.digest]:
            if not self._place(found).is_dir():
                await self._unpack(found)

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
