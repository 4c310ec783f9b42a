"""Sources of gitRepo volumes: read, or refused."""

from __future__ import annotations

import contextlib
from pathlib import PurePosixPath

from mooring.kube.objects import GitRepoVolumeSource, Volume
from mooring.volumes.errors import InvalidSpec
from mooring.volumes.plugins.gitrepo.source import Checkout, checkout
from mooring.volumes.spec import VolumeSpec

URL = "https://git.example.com/a/site.git"
SEEDS = [
    URL.encode(),
    b"http://[fd00::1]:3000/~user/a%20b",
    b"--upload-pack=x",
    b"ext::sh -c id",
    b"feature/x",
    b"0123456789abcdef0123456789abcdef01234567",
    b"g/.git",
    b"a/git~1/b",
]


def check(data: bytes) -> None:
    text = data.decode(errors="replace")
    for fields in ((text, "", ""), (text, "", "."), (URL, text, ""), (URL, "", text)):
        source = GitRepoVolumeSource(*fields)
        with contextlib.suppress(InvalidSpec):
            _plain(checkout(VolumeSpec.of_volume(Volume(name="v", git_repo=source))))


def _plain(found: Checkout) -> None:
    assert found.repository.startswith(("https://", "http://"))
    for word in (found.repository, found.revision, found.directory):
        assert word.isprintable() and word.isascii() and " " not in word
        assert not word.startswith("-")
    for part in PurePosixPath(found.directory).parts:
        assert not part.startswith((".", "-", "/"))
        assert part.lower() not in ("git", "git~1")
