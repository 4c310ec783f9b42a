"""open-iscsi's text: what a discovery answers, and the lines of its records. Pure, but for `rewrite`.

A record is a file of `name = value` lines between `# BEGIN RECORD` and `# END RECORD`, read by iscsiadm,
which tells iscsid. A secret gets into one by rewriting the file (mode 0600): iscsiadm itself takes values by
its argument list alone (`-v`), which every user of the machine can read.
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from pathlib import Path

from mooring.volumes.errors import InvalidSpec, VolumeError
from mooring.volumes.plugins.iscsi.source import Portal, portal

ROOTS = (Path("/etc/iscsi"), Path("/var/lib/iscsi"))
"""Where open-iscsi keeps its records: Debian; most others."""
MOST_LINES = 4096
LONGEST_VALUE = 255  # bytes, open-iscsi's AUTH_STR_MAX_LEN less its end

_OFFER = re.compile(r"(\S{1,80}),(-?[0-9]{1,10}) (\S{1,223})", re.ASCII)
_GROUPS = 1 << 16
SESSION_AUTH = ("node.session.auth", ("username", "password", "username_in", "password_in"))
DISCOVERY_AUTH = ("discovery.sendtargets.auth", SESSION_AUTH[1])


def offers(text: str, target: str) -> dict[Portal, int]:
    """The portals at which a discovery's answer offers the target, each with its portal group. Lines that are
    not understood are passed over."""
    found: dict[Portal, int] = {}
    for line in text.splitlines()[:MOST_LINES]:
        offer = _OFFER.fullmatch(line.strip())
        if offer is None or offer[3] != target or not 0 <= int(offer[2]) < _GROUPS:
            continue
        try:
            found[portal(offer[1], "a discovery's answer")] = int(offer[2])
        except InvalidSpec:  # a name, or no address at all: no volume has such a portal
            continue
    return found


def chap(secret: Mapping[str, bytes], kind: tuple[str, tuple[str, ...]], where: str) -> dict[str, str]:
    """The lines for a record by which CHAP is used, from the data of a Secret with upstream's keys. Raises
    InvalidSpec, naming the key and never its value."""
    prefix, fields = kind
    lines = {f"{prefix}.authmethod": "CHAP"}
    for field in fields:
        key = f"{prefix}.{field}"
        if key in secret:
            lines[key] = _value(key, secret[key], where)
    for key in (f"{prefix}.username", f"{prefix}.password"):
        if key not in lines:
            raise InvalidSpec(f"{where} has no key {key}: CHAP needs it")
    return lines


def _value(key: str, value: bytes, where: str) -> str:
    """A record has no way to quote: what would end the line, or be trimmed, cannot be written."""
    text = value.decode("ascii", errors="replace")
    if (
        not value
        or len(value) > LONGEST_VALUE
        or not text.isprintable()
        or text.strip() != text
        or "\ufffd" in text
    ):
        raise InvalidSpec(
            f"{key} of {where} must be 1 to {LONGEST_VALUE} printable ASCII characters, without a blank at its ends"
        )
    return text


def changed(record: str, lines: Mapping[str, str]) -> str:
    """The record with these values in the place of its own. Raises VolumeError if it is none."""
    body = record.splitlines()
    if "# END RECORD" not in body:
        raise VolumeError("a record of open-iscsi has no end: remove it, and try again")
    end = body.index("# END RECORD")
    kept = [line for line in body[:end] if line.partition("=")[0].strip() not in lines]
    return "\n".join((*kept, *(f"{name} = {value}" for name, value in lines.items()), *body[end:], ""))


def rewrite(path: Path, lines: Mapping[str, str]) -> None:
    """Changes a record's file, of which no other user can read the new content at any moment. In place:
    beside it, another file would be taken for a record. Blocking. Raises VolumeError."""
    text = changed(path.read_text(errors="replace"), lines)
    with path.open("r+") as file:
        os.fchmod(file.fileno(), 0o600)
        file.truncate()
        file.write(text)


def node_record(roots: tuple[Path, ...], target: str, at: Portal, group: int, interface: str) -> Path | None:
    """The file of a target at one portal; None if there is none."""
    places = (root / "nodes" / target / f"{at.address},{at.port},{group}" / interface for root in roots)
    return next((path for path in places if path.is_file()), None)


def discovery_record(roots: tuple[Path, ...], at: Portal) -> Path | None:
    """The file of the discovery at one portal; None if there is none."""
    places = (root / "send_targets" / f"{at.address},{at.port}" / "st_config" for root in roots)
    return next((path for path in places if path.is_file()), None)
