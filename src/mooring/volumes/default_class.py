"""Which StorageClass a claim gets that names none. Pure.

The API server gives it to new claims (admission DefaultStorageClass); the binder to claims that are older
than the default class, as upstream's (`pkg/volume/util/storageclass.go`).
"""

from __future__ import annotations

from collections.abc import Iterable

from mooring.kube.objects import PersistentVolumeClaim, StorageClass

IS_DEFAULT = (
    "storageclass.kubernetes.io/is-default-class",
    "storageclass.beta.kubernetes.io/is-default-class",
)
CLASS_ANNOTATION = "volume.beta.kubernetes.io/storage-class"
"""How claims named their class before the field existed; it may be "", too."""


def is_default(storage_class: StorageClass) -> bool:
    """Whether the class is annotated as a default one."""
    annotations = storage_class.metadata.annotations
    return any(annotations.get(name) == "true" for name in IS_DEFAULT)


def default_class(classes: Iterable[StorageClass]) -> StorageClass | None:
    """Returns the newest default class, the first by name among equals; None without any."""
    defaults = sorted(filter(is_default, classes), key=lambda each: each.name)
    return max(defaults, key=lambda each: each.metadata.creation_timestamp or "", default=None)


def names_no_class(claim: PersistentVolumeClaim) -> bool:
    """Whether the claim leaves its class to the cluster. The class "" is a class: that of volumes without."""
    return claim.spec.storage_class_name is None and CLASS_ANNOTATION not in claim.metadata.annotations
