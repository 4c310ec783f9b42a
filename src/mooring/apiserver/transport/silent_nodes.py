"""Why a node's agent does not answer, in a person's words: what the Node says of itself, beside the error of
the connection. Pure. Only what has a fixed form is taken over from the Node: it is text from outside.
"""

from __future__ import annotations

import re

from mooring.apiserver.errors import Internal, Obj
from mooring.apiserver.values.dotted import objects_at, text_at

_TIME = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(?:\.\d{1,9})?Z")
_NO_CONDITION: Obj = {}
_OUT_OF_SERVICE = "node.kubernetes.io/out-of-service"


def silent(name: str, node: Obj, error: Exception) -> Internal:
    """The answer to a request that the agent of this Node would have had to carry out."""
    said = str(error) or type(error).__name__
    return Internal(f'the agent of node "{name}" does not answer{_reason(name, node)}: {said}')


def _reason(name: str, node: Obj) -> str:
    """What is known of the node; "" if it is Ready: then the connection's error is all that there is."""
    conditions = objects_at(node, "status.conditions")
    ready = next((each for each in conditions if text_at(each, "type") == "Ready"), _NO_CONDITION)
    status, since = text_at(ready, "status"), _since(text_at(ready, "lastTransitionTime"))
    if status == "True":
        heard = _since(text_at(ready, "lastHeartbeatTime"), "; its last report was at")
        return f", although the node is still Ready{heard}"
    if status == "False":
        return f"; the node says{since} that it is not ready"
    dead = any(text_at(each, "key") == _OUT_OF_SERVICE for each in objects_at(node, "spec.taints"))
    declared = ", and was declared out of service" if dead else ""
    return (
        f"; the node has been silent{since}{declared}, so that it is not known what still runs there "
        f"(mooring why node/{name})"
    )


def _since(at: str, word: str = " since") -> str:
    return f"{word} {at}" if _TIME.fullmatch(at) else ""
