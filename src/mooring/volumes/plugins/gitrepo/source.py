"""What a `gitRepo` source means: checked values, from which argument lists and paths are made. Pure.

Guarantee: every text of a `Checkout` has been looked at, so that none can be taken for an option, names a
transport that runs a program or reads this node's files, carries a password, or leads out of the volume or
into a `.git` of it (CVE-2024-10220).
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from urllib.parse import unquote

from mooring.kube.objects import GitRepoVolumeSource
from mooring.volumes.errors import InvalidSpec
from mooring.volumes.spec import VolumeSpec

PLUGIN_NAME = "kubernetes.io/git-repo"
LONGEST_URL, LONGEST_REVISION, LONGEST_DIRECTORY = 2048, 255, 255
HERE = "."

_URL = re.compile(
    r"(?P<scheme>https?)://(?P<host>[A-Za-z0-9](?:[A-Za-z0-9.-]{0,251}[A-Za-z0-9])?|\[[0-9A-Fa-f:.]{2,45}\])"
    r"(?P<port>:[0-9]{1,5})?(?P<path>/[A-Za-z0-9._~!$&'()*+,;=:@%/-]+)",
    re.ASCII,
)
_REVISION = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_./+@#-]*", re.ASCII)
_ENTRY = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.+-]*", re.ASCII)


@dataclass(frozen=True)
class Checkout:
    """A repository, by its URL; what of it (`revision`, "": its default branch); and where in the volume
    (`directory`, `.`: the volume is the checkout)."""

    repository: str
    host: str
    revision: str
    directory: str


def written(spec: VolumeSpec) -> GitRepoVolumeSource | None:
    """The `gitRepo` source of the spec, unchecked."""
    return spec.volume.git_repo if spec.volume is not None else None


def checkout(spec: VolumeSpec) -> Checkout:
    """Raises InvalidSpec for a spec that is not gitRepo's, or that cannot be meant."""
    source = written(spec)
    if source is None:
        raise InvalidSpec(f"volume {spec.name} has no gitRepo source")
    where = f"gitRepo of volume {spec.name}"
    host = _host(source.repository, where)
    return Checkout(
        repository=source.repository,
        host=host,
        revision=_revision(source.revision, where),
        directory=_directory(source.directory, where) or _name_of(source.repository, where),
    )


def _host(text: str, where: str) -> str:
    """The host of the URL, which is checked."""
    if "@" in text[:LONGEST_URL].partition("//")[2].partition("/")[0]:
        raise InvalidSpec(
            f"repository of {where} has a user or password before its host: every user of the node could read it. "
            f"Clone it in an init container, with a Secret"
        )
    found = _URL.fullmatch(text) if len(text) <= LONGEST_URL else None
    if found is None or not unquote(found["path"]).isprintable():
        raise InvalidSpec(
            f"repository {text[:100]!a} of {where} cannot be used: it has the form https://HOST[:PORT]/PATH, or http"
        )
    return found["host"].lower()


def _revision(text: str, where: str) -> str:
    """A branch, a tag or a commit; no expression."""
    if text and (len(text) > LONGEST_REVISION or not _REVISION.fullmatch(text) or ".." in text):
        raise InvalidSpec(
            f"revision {text[:100]!a} of {where} is not the name of a branch or tag, nor a commit"
        )
    return text


def _directory(text: str, where: str) -> str:
    if text in ("", HERE):
        return text
    entries = text.split("/")
    plain = all(_ENTRY.fullmatch(each) and not _is_gits(each) for each in entries)
    if not plain or len(text) > LONGEST_DIRECTORY:
        raise InvalidSpec(
            f"directory {text[:100]!a} of {where} cannot be used: it is a relative path of plain names, none of which "
            f"begins with a dot or is git's own"
        )
    return text


def _is_gits(entry: str) -> bool:
    """Whether git, or a file system, could take it for the directory of a repository: `.git` in any case, or
    its short name. Names that begin with a dot are refused anyway."""
    return entry.lower().startswith("git") and entry.lower().strip(". ") in ("git", "git~1")


def _name_of(repository: str, where: str) -> str:
    """Where git puts a clone by itself: the last part of the URL."""
    last = repository.rstrip("/").removesuffix("/.git").rpartition("/")[2].removesuffix(".git")
    if not _ENTRY.fullmatch(last) or _is_gits(last):
        raise InvalidSpec(
            f"{where} does not say where in the volume it is to be: add directory, `.` for the volume itself"
        )
    return last
