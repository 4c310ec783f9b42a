"""What ties an object to the one that made it: the owner reference, the hash of the template it was made
from, and a name that is derived from the owner's."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from typing import Any

import msgspec

from mooring.kube.objects import Object

# Neither vowels nor digits that look like one, as upstream: no hash spells a word.
_ALPHABET = "bcdfghjklmnpqrstvwxz2456789"
LONGEST_NAME = 253
"""Characters: a DNS subdomain's."""


def owner_reference(owner: Object) -> dict[str, Any]:
    """What marks an object as controlled by `owner`, and makes the owner's foreground deletion wait for
    it."""
    return {
        "apiVersion": owner.RESOURCE.api_version,
        "kind": owner.RESOURCE.kind,
        "name": owner.name,
        "uid": owner.uid,
        "controller": True,
        "blockOwnerDeletion": True,
    }


def controller_uid(owned: Object) -> list[str]:
    """For an index: the uid of the object that controls this one, if there is one."""
    return [owned.controller.uid] if owned.controller is not None else []


def derived_name(name: str, suffix: str, longest: int = LONGEST_NAME) -> str:
    """`name`, cut where the whole would be longer than `longest`, and `suffix`, which begins with `-` or `.`:
    neither may follow a dot, nor a dot a dash."""
    return name[: longest - len(suffix)].rstrip("-.") + suffix


def template_hash(template: Mapping[str, Any], salt: int = 0) -> str:
    """Ten characters that name a pod template; `salt` gives another name after a collision."""
    digest = hashlib.sha256(
        msgspec.json.encode(template, order="deterministic") + (b"%d" % salt if salt else b"")
    )
    return "".join(_ALPHABET[byte % len(_ALPHABET)] for byte in digest.digest()[:10])
