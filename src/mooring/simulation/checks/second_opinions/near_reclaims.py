"""What provisioners might as well be asked of claims and volumes: of others, of other processes, and at other
times of a volume's end.

Of a volume that is to go the claim is the one of that name, whatever its uid.
"""

from __future__ import annotations

from collections.abc import Container
from random import Random

from mooring.kube.objects import (
    EphemeralVolumeSource,
    ObjectMeta,
    PersistentVolumeClaim,
    Pod,
    PodSpec,
    Volume,
)
from mooring.simulation.checks.second_opinions.near import ANOTHER, FAR_OFF, LONG_AGO, Near
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
from mooring.simulation.checks.second_opinions.near_claims import (
    CLAIM,
    CLASS,
    IN_TREE,
    ITS_DRIVER,
    OF_FEW,
    SHARE,
    VOLUME,
    holder,
    reference,
)

MADE, MADE_BY_DRIVER = "mooring.dev/provisioned", "external-provisioner.volume.kubernetes.io/finalizer"
ANOTHER_PLUGIN = "example.com/another"
PROVISIONED_BY = "pv.kubernetes.io/provisioned-by"
ASKED = "volume.kubernetes.io/storage-provisioner"
REQUESTED: tuple[Change, ...] = (
    keyed("metadata.annotations", ASKED, IN_TREE, ITS_DRIVER, ANOTHER),
    said("metadata.annotations", {ASKED: ITS_DRIVER}, {ASKED: ANOTHER}),
    listed("metadata.finalizers", "mooring.dev/provisioning"),
    listed("metadata.finalizers", "mooring.dev/provisioning"),
)
RECLAIMED: tuple[Change, ...] = (
    said("status.phase", "Released", "Failed"),
    said("status.phase", "Released"),
    said("spec.persistent_volume_reclaim_policy", "Retain", "Delete", "Recycle"),
)


def near_volume(*facts: Fact, share: float = OF_FEW) -> Near:
    """What is asked of a volume alone."""
    return near_to((*of("pv", *VOLUME, *RECLAIMED), *facts), share)


# --- what is made, and what goes


def _ours(chance: Random, asked: Arguments) -> Arguments:
    """The process serves others, too, or serves others alone."""
    others: Container[str] = chance.choice(((), (ANOTHER,), (ITS_DRIVER,), (ANOTHER, ITS_DRIVER)))
    return {"provisioners": others}


def _made_here(chance: Random, asked: Arguments) -> Arguments:
    """A plugin or driver of the process has made it, and holds it until its disk is deleted."""
    made = ((IN_TREE, MADE_BY_DRIVER), (ITS_DRIVER, MADE_BY_DRIVER), (ANOTHER_PLUGIN, MADE))
    maker, finalizer = chance.choice(made)
    pv = said("metadata.annotations", {PROVISIONED_BY: maker})(chance, asked["pv"])
    pv = said("metadata.finalizers", (finalizer,))(chance, pv)
    return {"pv": pv, "provisioners": (ITS_DRIVER, ANOTHER_PLUGIN)}


def _written(chance: Random, asked: Arguments) -> Arguments:
    """A user has written it, and a plugin may delete it; its claim is gone."""
    pv = said("metadata.annotations", {})(chance, asked["pv"])
    pv = said("status.phase", "Released", "Failed")(chance, pv)
    return {"pv": pv, "deletable": chance.choice((True, False))}


def _left_behind(chance: Random, asked: Arguments) -> Arguments:
    """A user deletes the PersistentVolume, and its disk is to stay."""
    pv = said("spec.persistent_volume_reclaim_policy", "Retain")(chance, asked["pv"])
    return {"pv": said("metadata.deletion_timestamp", LONG_AGO)(chance, pv)}


OF_REQUEST = near_to(
    (
        *of("claim", *REQUESTED, *CLAIM),
        *of("storage_class", *CLASS),
        *(given("storage_class", None), given("made", True, False), given("made", False), _ours, _ours),
    ),
    SHARE,
)
OF_RECLAIM = near_volume(
    _ours,
    _made_here,
    _written,
    _written,
    _left_behind,
    given("deletable", True, False),
    share=SHARE,
)


# --- who may have a volume that is to go


def _successor(chance: Random, asked: Arguments) -> Arguments:
    """A claim of the same name: the volume's, or one that came later."""
    pods = asked["pods"]
    born = chance.choice([LONG_AGO, FAR_OFF, *(pod.metadata.creation_timestamp for pod in pods)])
    named = asked["pv"].spec.claim_ref
    uid = named.uid if named is not None and chance.random() < 0.3 else ANOTHER
    claim = PersistentVolumeClaim(metadata=ObjectMeta(name=ANOTHER, uid=uid, creation_timestamp=born))
    return {"claim": chance.choice((None, claim))}


def _of_its_own(chance: Random, asked: Arguments) -> Arguments:
    """A pod that has the claim as that of a generic ephemeral volume, `<pod>-<volume>`."""
    namespace, _, claim = asked["key"].partition("/")
    pod, dash, volume = claim.rpartition("-")
    if not dash:
        return {}
    spec = PodSpec(volumes=(Volume(name=volume, ephemeral=EphemeralVolumeSource()),), node_name=ANOTHER)
    owner = Pod(metadata=ObjectMeta(namespace=chance.choice((namespace, ANOTHER)), name=pod), spec=spec)
    return {"pods": [*asked["pods"], owner]}


OF_VOLUME_ALONE = near_volume()
OF_MARK = near_to(of("persistent_volume", *RECLAIMED, *VOLUME), OF_FEW)
OF_USERS = near_to(
    (
        *of_one(
            "pods",
            said("status.phase", "Pending", "Running", "Succeeded", "Failed"),
            said("spec.node_name", "", ANOTHER),
            said("spec.volumes", ()),
            said("metadata.namespace", ANOTHER),
        ),
        _of_its_own,
    ),
    OF_FEW,
)
OF_FORMER_USERS = near_to(
    (
        *of_one("pods", said("metadata.creation_timestamp", LONG_AGO, FAR_OFF)),
        *(_successor, _successor, given("attached", True, False)),
    ),
    OF_FEW,
)
OF_END = near_to(
    (*of("pv", at("spec.claim_ref", reference)), *of("claim", said("spec.volume_name", "", ANOTHER)), holder),
    OF_FEW,
)
