"""Which Secret a class's parameters name for an operation of a CSI driver. Pure.

Parameters `csi.storage.k8s.io/<operation>-secret-name` and `-namespace` may contain `${...}`, which is filled
in from the object that is worked on. Any other content of the braces is refused, so that the name of a claim
cannot select a Secret. Rules: the CSI community's "secrets and credentials" pages.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

from mooring.kube.objects import SecretReference
from mooring.volumes.errors import InvalidSpec

PREFIX = "csi.storage.k8s.io/"
"""Prefix of the parameters that are for the controllers, and that no driver gets."""

_HOLE = re.compile(r"\$\{([^}]*)\}")


def secret_reference(
    parameters: Mapping[str, str],
    operation: str,
    values: Mapping[str, str],
    *,
    only_in_name: tuple[str, ...] = (),
) -> SecretReference | None:
    """Returns the Secret for `operation` (provisioner, controller-publish, node-stage, ...), or None
    if none is named. `values` fill the braces; those that `only_in_name` names (with or without a
    [...]) may stand in the name, and not in the namespace. Raises InvalidSpec if only one of name
    and namespace is given, or for unknown braces."""
    keys = [f"{PREFIX}{operation}-secret-{part}" for part in ("name", "namespace")]
    name, namespace = (parameters.get(key, "") for key in keys)
    if not (name or namespace):
        return None
    if not (name and namespace):
        raise InvalidSpec(
            f"the class has one of the parameters {keys[0]} and {keys[1]}: it needs both, or none"
        )
    in_namespace = {
        hole: value for hole, value in values.items() if hole.partition("[")[0] not in only_in_name
    }
    return SecretReference(
        name=_filled(keys[0], name, values), namespace=_filled(keys[1], namespace, in_namespace)
    )


def _filled(key: str, template: str, values: Mapping[str, str]) -> str:
    def fill(hole: re.Match[str]) -> str:
        if hole[1] not in values:
            known = ", ".join(sorted(values))
            raise InvalidSpec(
                f"parameter {key}: ${{{hole[1]}}} is not known there; what can stand there: {known}"
            )
        return values[hole[1]]

    return _HOLE.sub(fill, template)
