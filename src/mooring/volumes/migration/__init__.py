"""Volumes of former in-tree plugins (awsElasticBlockStore, gcePersistentDisk, ...), as the CSI volumes that
they are today, and back. Pure.

Kubernetes has removed these plugins. It serves such volumes through CSI drivers, under names and with
attributes that csi-translation-lib makes from the old source; so the volumes of a cluster are the same ones
here and there. `kinds` says what each kind of source is in CSI, `topology` where such a volume is, `classes`
what a StorageClass of a former provisioner asks its driver for, and `translation` puts whole objects
together. The tests play the answers of the library itself.
"""

from __future__ import annotations

from mooring.volumes.migration.classes import class_to_csi
from mooring.volumes.migration.kinds import ONE_NODE_INLINE, Migrated
from mooring.volumes.migration.translation import (
    as_csi,
    csi_source,
    driver_of,
    inline_to_csi,
    migrated,
    migrated_spec,
    to_csi,
    to_in_tree,
)

__all__ = [
    "ONE_NODE_INLINE",
    "Migrated",
    "as_csi",
    "class_to_csi",
    "csi_source",
    "driver_of",
    "inline_to_csi",
    "migrated",
    "migrated_spec",
    "to_csi",
    "to_in_tree",
]
