"""The keys of a ConfigMap or Secret as files: which keys, at which paths, with which permissions. Pure."""

from __future__ import annotations

import base64
from collections.abc import Mapping, Sequence

from mooring.kube.objects import ConfigMap, KeyToPath, Secret
from mooring.volumes.errors import ContentMissing, InvalidSpec
from mooring.volumes.payload import Payload, PayloadFile

DEFAULT_MODE = 0o644

Contents = Mapping[str, bytes]


def config_map_contents(config_map: ConfigMap, where: str) -> Contents:
    """Text and binary data by key. Raises InvalidSpec."""
    return {key: text.encode() for key, text in config_map.data.items()} | _decoded(
        config_map.binary_data, where
    )


def secret_contents(secret: Secret, where: str) -> Contents:
    """Returns the data by key. Raises InvalidSpec, whose message contains none of the data."""
    return _decoded(secret.data, where)


def key_files(
    contents: Contents | None,
    items: Sequence[KeyToPath],
    default_mode: int | None,
    optional: bool,
    where: str,
) -> Payload:
    """The files: all keys, or those of `items`. `contents` None: the object does not exist. Raises
    ContentMissing if something that is not optional is missing."""
    if contents is None:
        if optional:
            return {}
        raise ContentMissing(f"{where} does not exist: create it, or mark the volume as optional")
    default = DEFAULT_MODE if default_mode is None else default_mode
    items = tuple(items) or tuple(KeyToPath(key=key, path=key) for key in contents)
    missing = [item.key for item in items if item.key not in contents]
    if missing and not optional:
        raise ContentMissing(
            f"{where} has no key {', '.join(missing)}: add it, or mark the volume as optional"
        )
    return {
        item.path: PayloadFile(contents[item.key], default if item.mode is None else item.mode)
        for item in items
        if item.key in contents
    }


def _decoded(data: Mapping[str, str], where: str) -> dict[str, bytes]:
    found: dict[str, bytes] = {}
    for key, text in data.items():
        try:
            found[key] = base64.b64decode(text, validate=True)
        except ValueError as error:  # binascii.Error, or that it is no ASCII
            raise InvalidSpec(f"{where} has a key {key} that is not base64: {error}") from None
    return found
