"""Pages of a describe: a maximum size, and a token for the rest.

Pure. A token names the last id of its page, so that pages neither repeat nor skip lasting records while
others come and go. It is opaque (base64 with a check sum) and valid for one action.
"""

from __future__ import annotations

import base64
import binascii
import zlib
from collections.abc import Iterable
from typing import NamedTuple

from mooring.cloud.errors import Ec2Error
from mooring.cloud.requests.parameters import Request, number, text


class Page(NamedTuple):
    """The part of the answer that a request wants."""

    action: str
    size: int
    """The most records; 0: all."""
    after: str
    """The id before the page; "": from the beginning."""


def page_of(
    action: str,
    request: Request,
    least: int,
    most: int,
    *,
    ids: Iterable[str] = (),
    with_ids: bool,
    caps: bool = False,
) -> Page:
    """The requested page. `with_ids`: whether MaxResults and ids may come together. `caps`: a MaxResults of
    more than `most` counts as `most` (the AWS command line sends 1000 with each describe-volumes).

    Raises Ec2Error: InvalidParameterValue (MaxResults out of range), InvalidParameterCombination (with ids),
    InvalidNextToken.
    """
    size = number(request, "MaxResults")
    token = text(request, "NextToken")
    if size is not None and caps:
        size = min(size, most)
    if size is not None and not least <= size <= most:
        raise Ec2Error(
            "InvalidParameterValue",
            f"Value ( {size} ) for parameter maxResults is invalid. Expecting a value between {least} and {most}.",
        )
    if size is not None and not with_ids and any(True for _ in ids):
        raise Ec2Error(
            "InvalidParameterCombination",
            "The parameter instancesSet cannot be used with the parameter maxResults",
        )
    return Page(action, size or (most if token else 0), _read(action, token) if token else "")


def token_after(action: str, id: str) -> str:
    """The token of the page behind `id`."""
    content = f"{action} {id}".encode()
    return base64.urlsafe_b64encode(zlib.crc32(content).to_bytes(4) + content).decode()


def _read(action: str, token: str) -> str:
    try:
        raw = base64.b64decode(token.encode(), altchars=b"-_", validate=True)
        made_for, _, id = raw[4:].decode().partition(" ")
    except (binascii.Error, UnicodeError) as error:
        raise _bad(token) from error
    if raw[:4] != zlib.crc32(raw[4:]).to_bytes(4) or made_for != action:
        raise _bad(token)
    return id


def _bad(token: str) -> Ec2Error:
    return Ec2Error("InvalidNextToken", f"The token '{token}' is not one that this action has given")
