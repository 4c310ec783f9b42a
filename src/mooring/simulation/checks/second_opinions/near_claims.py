"""Claims and volumes near to those that a run has: of other classes, modes and sizes, of which a user has
written, annotated or deleted something, or another controller has.

A claim's class, the volume that it names, and the claim of a volume are looked up by names and uids, so what
is found changes with these. Only a class that is there is asked for volumes.
"""

from __future__ import annotations

from random import Random
from typing import Any

from msgspec.structs import replace

from mooring.kube.objects import (
    LabelSelector,
    LabelSelectorRequirement,
    ObjectMeta,
    ObjectReference,
    PersistentVolume,
    PersistentVolumeClaim,
    PersistentVolumeSpec,
    PersistentVolumeStatus,
    StorageClass,
)
from mooring.kube.objects.volumes import (
    AWSElasticBlockStoreVolumeSource,
    CSIPersistentVolumeSource,
    GCEPersistentDiskVolumeSource,
)
from mooring.simulation.checks.second_opinions.near import ANOTHER, FAR_OFF, LONG_AGO
from mooring.simulation.checks.second_opinions.near_arguments import (
    Arguments,
    Change,
    Fact,
    at,
    given,
    keyed,
    listed,
    near_to,
    of,
    of_one,
    said,
)
from mooring.volumes.free_volumes import FreeVolumes

IN_TREE, ITS_DRIVER = "kubernetes.io/aws-ebs", "ebs.csi.aws.com"
DEFAULT = "storageclass.kubernetes.io/is-default-class"
BETA_DEFAULT = "storageclass.beta.kubernetes.io/is-default-class"
BOUND = "pv.kubernetes.io/bind-completed"
RWO, ROX, RWX = "ReadWriteOnce", "ReadOnlyMany", "ReadWriteMany"
ACCESS = ((RWO,), (RWO, ROX), (ROX, RWX), (RWO, ROX, RWX))
SIZES = ("1", "1Gi", "1Pi")
MADE_BY, CHOSEN = "pv.kubernetes.io/provisioned-by", "pv.kubernetes.io/bound-by-controller"
SHARE, OF_MANY, OF_FEW = 0.2, 0.05, 1.0
"""Of the times that each is asked: the less, the more often it is, and the less there is to be said of it."""


def _requirement(operator: str, *values: str) -> LabelSelector:
    return LabelSelector(
        match_expressions=(LabelSelectorRequirement(key="zone", operator=operator, values=values),)
    )


SELECTORS = (
    *(None, LabelSelector(match_labels={"zone": "a"}), _requirement("In", "a", "b")),
    *(_requirement("NotIn", "a"), _requirement("Exists"), _requirement("DoesNotExist")),
)
COMMON: tuple[Change, ...] = (
    said("spec.volume_mode", "Filesystem", "Block"),
    said("spec.access_modes", *ACCESS),
    said("spec.volume_attributes_class_name", None, "", ANOTHER),
    said("metadata.deletion_timestamp", None, LONG_AGO),
)
CLAIM: tuple[Change, ...] = (
    *COMMON,
    said("spec.storage_class_name", None, "", ANOTHER),
    said("spec.volume_name", "", ANOTHER),
    said("spec.selector", *SELECTORS),
    said("spec.resources.requests.storage", *SIZES),
    keyed("metadata.annotations", BOUND, "yes"),
    keyed("metadata.annotations", "volume.kubernetes.io/selected-node", ANOTHER),
    keyed("metadata.annotations", "volume.beta.kubernetes.io/storage-class", ""),
)
CLASS: tuple[Change, ...] = (
    said("provisioner", "kubernetes.io/no-provisioner", IN_TREE, ITS_DRIVER, ANOTHER),
    said("volume_binding_mode", "Immediate", "WaitForFirstConsumer"),
)


def reference(chance: Random, named: ObjectReference | None) -> ObjectReference | None:
    """None, or a reservation, or one of another claim."""
    if named is None:
        return ObjectReference(namespace="default", name=ANOTHER, uid=chance.choice(("", ANOTHER)))
    return chance.choice(
        (None, *(replace(named, uid=uid) for uid in ("", ANOTHER)), replace(named, name=ANOTHER))
    )


def _source(chance: Random, spec: PersistentVolumeSpec) -> PersistentVolumeSpec:
    """What a volume of a former in-tree plugin says, or one of a driver: one source, and no other."""
    sources: dict[str, Any] = {
        "aws_elastic_block_store": AWSElasticBlockStoreVolumeSource(volume_id="vol-1"),
        "gce_persistent_disk": GCEPersistentDiskVolumeSource(pd_name="disk"),
        "csi": CSIPersistentVolumeSource(driver=ITS_DRIVER, volume_handle="vol-1"),
    }
    name = chance.choice([*sources])
    return replace(spec, **{each: source if each == name else None for each, source in sources.items()})


VOLUME: tuple[Change, ...] = (
    *COMMON,
    at("spec.claim_ref", reference),
    said("spec.storage_class_name", "", ANOTHER),
    said("spec.capacity.storage", *SIZES),
    said("spec.persistent_volume_reclaim_policy", "Retain", "Delete", "Recycle"),
    said("status.phase", "Pending", "Available", "Bound", "Released", "Failed"),
    said("metadata.labels", {}, {"zone": "a"}, {"zone": "b"}),
    keyed("metadata.annotations", MADE_BY, IN_TREE, ITS_DRIVER, ANOTHER),
    keyed("metadata.annotations", CHOSEN, "yes"),
    listed("metadata.finalizers", "mooring.dev/provisioned"),
    listed("metadata.finalizers", "external-provisioner.volume.kubernetes.io/finalizer"),
)


# --- what a claim gets


def _as_it_asks(chance: Random, claim: PersistentVolumeClaim) -> PersistentVolume:
    """A volume that has what the claim asks for, and is free or of it; or which but for one or two facts is
    so."""
    asked = claim.spec
    its = ObjectReference(namespace=claim.namespace, name=claim.name, uid=chance.choice(("", claim.uid)))
    pv = PersistentVolume(
        metadata=ObjectMeta(name=f"{ANOTHER}-{chance.randrange(10)}", uid=ANOTHER),
        spec=PersistentVolumeSpec(
            capacity=asked.resources.requests,
            access_modes=asked.access_modes,
            storage_class_name=asked.storage_class_name or "",
            volume_mode=asked.volume_mode,
            volume_attributes_class_name=asked.volume_attributes_class_name,
            claim_ref=chance.choice((None, its)),
        ),
        status=PersistentVolumeStatus(phase="Available"),
    )
    for _ in range(chance.randint(0, 2)):
        pv = chance.choice(VOLUME)(chance, pv)
    return pv


def _never_bound(claim: PersistentVolumeClaim, volume: str = "") -> PersistentVolumeClaim:
    annotations = {key: text for key, text in claim.metadata.annotations.items() if key != BOUND}
    metadata = replace(claim.metadata, annotations=annotations)
    return replace(claim, metadata=metadata, spec=replace(claim.spec, volume_name=volume))


def _offered(chance: Random, asked: Arguments) -> Arguments:
    """It has no volume yet, and there are none, or others, of which some may be what it asks for."""
    several = (_as_it_asks(chance, asked["claim"]) for _ in range(chance.randint(0, 3)))
    volumes = {pv.name: pv for pv in several}
    taken = frozenset(name for name in volumes if chance.random() < 0.1)
    return {"claim": _never_bound(asked["claim"]), "free": FreeVolumes(volumes.values()), "taken": taken}


def _names_it(chance: Random, asked: Arguments) -> Arguments:
    """It names such a volume, and is not bound yet."""
    named = _as_it_asks(chance, asked["claim"])
    return {"claim": _never_bound(asked["claim"], named.name), "named": named}


def _default(chance: Random, asked: Arguments) -> Arguments:
    return {"default": chance.choice((None, StorageClass(metadata=ObjectMeta(name=ANOTHER))))}


def _looked_up(asked: Arguments) -> Arguments:
    claim, named, storage_class = asked["claim"], asked["named"], asked["storage_class"]
    if named is not None and named.name != claim.spec.volume_name:
        asked["named"] = None
    if storage_class is not None and storage_class.name != claim.spec.storage_class_name:
        asked["storage_class"] = None
    return asked


_OFTEN: tuple[Fact, ...] = (_offered, _offered, _offered, _names_it, _names_it, _names_it)
OF_CLAIM = near_to(
    (
        *of("claim", *CLAIM),
        *of("storage_class", *CLASS),
        given("storage_class", None),
        _default,
        _default,
        *_OFTEN,
    ),
    SHARE,
    _looked_up,
)


# --- what becomes of a volume


def holder(chance: Random, asked: Arguments) -> Arguments:
    """The claim of the volume's uid: none, or one that names this volume, another one or none yet. If it
    names another, it matters whether the volume was made for the claim, and is to go with it."""
    pv: PersistentVolume = asked["pv"]
    named = pv.spec.claim_ref or ObjectReference(namespace="default", name=ANOTHER, uid=ANOTHER)
    uid = chance.choice((named.uid, named.uid, named.uid, ANOTHER))
    claim = PersistentVolumeClaim(metadata=ObjectMeta(namespace=named.namespace, name=named.name, uid=uid))
    spec = replace(
        claim.spec, volume_name=chance.choice(("", pv.name, ANOTHER)), volume_mode=pv.spec.volume_mode
    )
    pv = replace(pv, spec=replace(pv.spec, claim_ref=named))
    return {"claim": chance.choice((None, replace(claim, spec=spec))), "pv": _of_an_origin(chance, pv)}


def _of_an_origin(chance: Random, pv: PersistentVolume) -> PersistentVolume:
    annotations = chance.choice(({}, {MADE_BY: ANOTHER}, {MADE_BY: ANOTHER, CHOSEN: "yes"}))
    policy = chance.choice(("Retain", "Delete", "Recycle"))
    return replace(
        pv,
        metadata=replace(pv.metadata, annotations=annotations),
        spec=replace(pv.spec, persistent_volume_reclaim_policy=policy),
    )


def _of_its_uid(asked: Arguments) -> Arguments:
    claim, named = asked["claim"], asked["pv"].spec.claim_ref
    if claim is not None and (named is None or not named.uid or named.uid != claim.uid):
        asked["claim"] = None
    return asked


OF_VOLUME = near_to(
    (*of("pv", *VOLUME), *of("claim", *CLAIM), *[holder] * 8),
    SHARE,
    _of_its_uid,
)
OF_RESIZER = near_to(
    (
        *of("claim", said("status.capacity", {"storage": "1"}, {"storage": "1Gi"}, {"storage": "1Pi"}, {})),
        *of("claim", said("spec.resources.requests.storage", *SIZES)),
        *of("pv", at("spec", _source)),
    ),
    OF_MANY,
)
OF_DEFAULT = near_to(
    of_one(
        "classes",
        keyed("metadata.annotations", DEFAULT, "true", "false"),
        keyed("metadata.annotations", BETA_DEFAULT, "true", "false"),
        said("metadata.creation_timestamp", None, LONG_AGO, FAR_OFF),
    ),
    OF_MANY,
)
OF_STATUS = near_to(
    of("pv", *VOLUME, keyed("metadata.annotations", "volume.alpha.kubernetes.io/pre-resize-capacity", "1Mi")),
    OF_FEW,
)
