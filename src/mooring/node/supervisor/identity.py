"""The user and groups as which a program of a container runs. Standard library only.

A user is "", "USER" or "USER:GROUP", each a number or a name of the container's own /etc/passwd and
/etc/group, as in an image's config. Without a group it is the user's own one of /etc/passwd, else 0. Has to
be called inside the container's root.
"""

from __future__ import annotations

import os
import stat

from mooring.node.supervisor import syscalls


def take_on(user: str, groups: list[int], env: dict[str, str], *, no_new_privileges: bool) -> None:
    """Gives this process the user, its groups and its HOME. Raises `ValueError` for a name that no user
    has."""
    name, _, group = user.partition(":")
    entry = _entry("/etc/passwd", name or "0")
    uid = int(entry[2]) if entry else _number(name or "0", user)
    gid = _gid(group, user) if group else int(entry[3]) if entry else 0
    env.setdefault("HOME", entry[5] if entry and len(entry) > 5 and entry[5] else "/")
    try:
        _become(uid, gid, sorted({gid, *groups, *_memberships(entry[0] if entry else "")}))
    except OSError as error:
        raise ValueError(f"cannot become user {user!r} with groups {groups}: {error.strerror}") from error
    if no_new_privileges:
        syscalls.set_no_new_privileges()


def _become(uid: int, gid: int, groups: list[int]) -> None:
    if uid:
        _own_standard_streams(uid)
    try:
        os.setgroups(groups)
    except PermissionError:
        if uid or gid:  # root of a user namespace may have no other groups, and needs none
            raise
    if gid:
        os.setgid(gid)
    if uid:
        os.setuid(uid)


def _own_standard_streams(uid: int) -> None:
    """Or /dev/stdout could not be opened by the program."""
    for descriptor in (0, 1, 2):
        if os.isatty(descriptor) or stat.S_ISFIFO(os.fstat(descriptor).st_mode):
            os.fchown(descriptor, uid, -1)


def _gid(group: str, user: str) -> int:
    entry = _entry("/etc/group", group)
    return int(entry[2]) if entry else _number(group, user)


def _number(text: str, user: str) -> int:
    if not text.isdigit():
        raise ValueError(f"user {user!r}: the container's /etc/passwd or /etc/group has no {text!r}")
    return int(text)


def _entry(path: str, key: str) -> list[str] | None:
    """The line of a user or group, by its name or its number."""
    return next((line for line in _lines(path) if len(line) > 3 and key in (line[0], line[2])), None)


def _memberships(name: str) -> list[int]:
    """The groups that list the user."""
    lines = [line for line in _lines("/etc/group") if len(line) > 3]
    return [int(line[2]) for line in lines if name and name in line[3].split(",")]


def _lines(path: str) -> list[list[str]]:
    try:
        with open(path, encoding="utf-8", errors="replace") as file:
            return [line.rstrip("\n").split(":") for line in file]
    except OSError:
        return []
