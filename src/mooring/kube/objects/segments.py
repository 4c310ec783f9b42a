"""A name becomes a segment of a request's path: the only way for text to get into one.

API servers undo percent-encoding before they split a path, so a "/" that is encoded separates all the same,
and "." and ".." may be resolved on the way. So these are refused (client-go's IsValidPathSegmentName), as is
the empty name, which would turn the path of an object into that of its collection; everything else is escaped
(RFC 3986, section 3.3). No API server has an object whose name is refused here.
"""

from __future__ import annotations

import re
from urllib.parse import quote

from mooring.kube.errors import InvalidRequest

LONGEST_SEGMENT = 1024
"""Bytes. Names of objects have at most 253 characters, but for RBAC's, which have no limit."""
_UNESCAPED = "!$&'()*+,;=:@"  # what a segment may contain beside letters, digits and "-._~"
_PLAIN = re.compile(rf"[-A-Za-z0-9_~{re.escape(_UNESCAPED)}][-.A-Za-z0-9_~{re.escape(_UNESCAPED)}]{{0,252}}")


def segment(name: str) -> str:
    """The name as a segment of a path. Raises InvalidRequest for one that cannot be any object's."""
    if _PLAIN.fullmatch(name):
        return name
    if not name:
        raise InvalidRequest("the name of an object is empty; nothing was sent")
    if name in (".", "..") or "/" in name or "%" in name:
        raise InvalidRequest(
            f"no object is named {_shown(name)}: a name is neither '.' nor '..', and has no '/' or '%'"
        )
    try:
        escaped = quote(name, safe=_UNESCAPED)
    except UnicodeEncodeError:
        raise InvalidRequest(f"no object is named {_shown(name)}: it is not valid Unicode") from None
    if len(escaped) > LONGEST_SEGMENT:
        raise InvalidRequest(f"no object is named {_shown(name)}: it is longer than {LONGEST_SEGMENT} bytes")
    return escaped


def _shown(name: str) -> str:
    return ascii(name if len(name) <= 100 else f"{name[:100]}…")
