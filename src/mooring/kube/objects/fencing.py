"""The group fencing.mooring.dev: which lost nodes are cut off, how, and what came of it.

A `FencePolicy` says which nodes, by whose word, how many at once, and by which mechanisms in turn. A
`FenceMechanism` is one way to cut nodes off, with its parameters. A `NodeFence` is one fence of one boot of
one node: its target is frozen in its status before anything is done, and each order is written there before
it is given. A `StorageFence` is about one volume that an order shuts a node out of. A `FenceRemediation` is
the request of an external health check (medik8s' NodeHealthCheck) about the node of its name.

Times in the API are seconds.
"""

from __future__ import annotations

import msgspec

from mooring.kube.objects.meta import Condition, LabelSelector, Object, Resource, Struct

GROUP = "fencing.mooring.dev"
VERSION = "v1alpha1"


class SecretReference(Struct, frozen=True):
    namespace: str = ""
    name: str = ""


class FenceMechanismSpec(Struct, frozen=True):
    """`nodes` and `node_secret_refs`: by node, laid over `parameters` and `secret_ref`."""

    type: str = ""
    parameters: dict[str, str] = {}
    secret_ref: SecretReference | None = None
    nodes: dict[str, dict[str, str]] = {}
    node_secret_refs: dict[str, SecretReference] = {}
    timeout_seconds: float = 60.0


class MechanismNode(Struct, frozen=True):
    """What the mechanism said of a node when it was last looked at: in that boot, of that uid. With it, what
    a fence has to know of the node and only its Node tells: it stays while the node has something, also when
    its Node is gone. `policy`: the FencePolicy that covered it."""

    name: str = ""
    node_uid: str = msgspec.field(default="", name="nodeUID")
    boot_id: str = msgspec.field(default="", name="bootID")
    state: str = ""
    reason: str = ""
    message: str = ""
    identity: dict[str, str] = {}
    looked_at: str = ""
    policy: str = ""
    provider_id: str = msgspec.field(default="", name="providerID")
    system_uuid: str = msgspec.field(default="", name="systemUUID")
    addresses: tuple[str, ...] = ()


class FenceMechanismStatus(Struct, frozen=True):
    observed_generation: int = 0
    scope: str = ""
    conditions: tuple[Condition, ...] = ()
    nodes: tuple[MechanismNode, ...] = ()


class FenceMechanism(Object, frozen=True):
    RESOURCE = Resource(GROUP, VERSION, "fencemechanisms", "FenceMechanism", namespaced=False)
    spec: FenceMechanismSpec = FenceMechanismSpec()
    status: FenceMechanismStatus = FenceMechanismStatus()


class Rung(Struct, frozen=True):
    """One step of a ladder. `confirm_with`: mechanisms that must agree before the word of this one counts."""

    mechanism: str = ""
    confirm_with: tuple[str, ...] = ()
    retries: int = 1


class Detector(Struct, frozen=True):
    """`type`: Ready, Condition, Mechanism or Storage. For Condition: the node's condition and the status that
    means that the node is lost. For Mechanism: which one is looked at; Shut means lost. For Storage: whose
    storage counts what the node reads and writes; nothing means lost."""

    type: str = "Ready"
    condition: str = ""
    status: str = "True"
    mechanism: str = ""
    for_seconds: float = 0.0


class Quorum(Struct, frozen=True):
    """`veto`: one detector that sees the node healthy keeps it from being fenced."""

    required: int = 1
    veto: bool = True


class Budget(Struct, frozen=True):
    """How many nodes may be fenced at once, those that have not come back included. `max_share`: of the nodes
    of the policy, but at least one; "" and 0: any."""

    max_concurrent: int = 0
    max_share: str = "49%"
    max_per_zone: int = 0
    max_control_plane: int = 1


class Storm(Struct, frozen=True):
    """So many nodes lost at once are the network until proved otherwise: nothing is fenced then unless
    `required` detectors agree, each of them another than Ready. `nodes` 0: never."""

    nodes: int = 2
    required: int = 1
    cooldown_seconds: float = 60.0


class Worth(Struct, frozen=True):
    """For what a node is fenced. `only_exclusive`: only if it has an exclusive volume, or a pod of a
    StatefulSet. `forgiveness`: Honour waits as long as all its pods tolerate a node that does not answer.
    `patience_seconds`: waited beyond that while no PodDisruptionBudget of its pods is violated."""

    only_exclusive: bool = True
    forgiveness: str = "Ignore"
    patience_seconds: float = 0.0


class PeerRules(Struct, frozen=True):
    """What other nodes' agents have to say of a node that is lost. `veto`: one that hears it keeps it from
    being fenced. `required`: so many must not hear it; 0: none need. `expires_seconds`: so long a statement
    counts after it has come in."""

    veto: bool = True
    required: int = 0
    expires_seconds: float = 30.0


class FencePolicySpec(Struct, frozen=True):
    """`node_selector` without requirements: all nodes. `peers`: None, and none is asked. `paused`: why
    nothing is begun; "" if it is not. `after`: Leave the machine off, or PowerOn. `storage_releases_pods`:
    pods of a StatefulSet go on the word of a storage fence that covers all that they share, although their
    processes may still run."""

    node_selector: LabelSelector = LabelSelector()
    detectors: tuple[Detector, ...] = (Detector(),)
    quorum: Quorum = Quorum()
    peers: PeerRules | None = None
    budget: Budget = Budget()
    storm: Storm = Storm()
    worth: Worth = Worth()
    ladder: tuple[Rung, ...] = ()
    after: str = "Leave"
    storage_releases_pods: bool = False
    paused: str = ""


class FencePolicyStatus(Struct, frozen=True):
    observed_generation: int = 0
    conditions: tuple[Condition, ...] = ()
    nodes: int = 0
    lost: tuple[str, ...] = ()
    fencing: tuple[str, ...] = ()


class FencePolicy(Object, frozen=True):
    RESOURCE = Resource(GROUP, VERSION, "fencepolicies", "FencePolicy", namespaced=False)
    spec: FencePolicySpec = FencePolicySpec()
    status: FencePolicyStatus = FencePolicyStatus()


class FenceTarget(Struct, frozen=True):
    """Whom the fence is about, as it was known while it lived. `absent`: there was no Node any more when the
    fence was made."""

    node_name: str = ""
    node_uid: str = msgspec.field(default="", name="nodeUID")
    boot_id: str = msgspec.field(default="", name="bootID")
    provider_id: str = msgspec.field(default="", name="providerID")
    system_uuid: str = msgspec.field(default="", name="systemUUID")
    addresses: tuple[str, ...] = ()
    identities: dict[str, dict[str, str]] = {}
    """By mechanism: what it had said of the node in this boot."""
    absent: bool = False


class NodeFenceSpec(Struct, frozen=True):
    """`node_uid` and `boot_id` say which registration and boot are meant; "" for those that are there.
    `requested_by`: a person, or another's detector; "" if the controller has begun it. `override`: a person's
    word, which no pause, storm or budget holds. `unfence`: it is to be taken back."""

    node_name: str = ""
    node_uid: str = msgspec.field(default="", name="nodeUID")
    boot_id: str = msgspec.field(default="", name="bootID")
    requested_by: str = ""
    reason: str = ""
    override: bool = False
    unfence: bool = False


class FenceAttempt(Struct, frozen=True):
    """One order. Written without an `outcome` before it is given: that means that it may have happened.
    `waits_until`: then the mechanism is waited for no longer. `evidence`: what was read after it. `volumes`:
    of scope Storage, what it shuts the node out of (VolumeAttachment to PersistentVolume), read before it was
    given. `confirmations`: by mechanism, what a second source said. `report`, `renewed`: the last report of
    the node's agent, and renewal of its Lease, that the API showed after the answer. `absent`: the live read
    before it was given found no Node."""

    round: int = 0
    rung: int = 0
    mechanism: str = ""
    token: str = ""
    ordered_at: str = ""
    waits_until: str = ""
    answered_at: str = ""
    outcome: str = ""
    reason: str = ""
    message: str = ""
    before: str = ""
    scope: str = ""
    evidence: dict[str, str] = {}
    volumes: dict[str, str] = {}
    confirmations: dict[str, str] = {}
    report: str = ""
    renewed: str = ""
    absent: bool = False


class NodeFenceStatus(Struct, frozen=True):
    """`proof`: the token of the attempt whose evidence counts. `released_at`: when what the node had was
    given free. `round`: how often the ladder was begun. `verified_at`: when the fence was last seen to
    hold. `waits_until`: so long, at the most, holds the reason that keeps it pending; "" if that is not
    known. `releases_pods`: whether its last look went by a policy with `storageReleasesPods`. `letting_in`:
    nothing is released by it any more, as its node may be let in. `let_in_at`: when it was shown that nothing
    of what it is about is left at the node: from then on the mechanism is ordered to let it in.
    `followed_by`: another boot that was seen while orders were heard out; its Node may go meanwhile."""

    phase: str = ""
    reason: str = ""
    message: str = ""
    waits_until: str = ""
    policy: str = ""
    target: FenceTarget | None = None
    attempts: tuple[FenceAttempt, ...] = ()
    round: int = 0
    round_ended_at: str = ""
    proof: str = ""
    released_at: str = ""
    verified_at: str = ""
    power_on_at: str = ""
    releases_pods: bool = False
    letting_in: bool = False
    let_in_at: str = ""
    followed_by: str = ""
    contradicted: tuple[str, ...] = ()
    """Mechanisms whose word about this boot has turned out to be wrong."""
    conditions: tuple[Condition, ...] = ()


class NodeFence(Object, frozen=True):
    RESOURCE = Resource(GROUP, VERSION, "nodefences", "NodeFence", namespaced=False)
    spec: NodeFenceSpec = NodeFenceSpec()
    status: NodeFenceStatus = NodeFenceStatus()


class StorageFenceSpec(Struct, frozen=True):
    """One volume, of one boot of one node, by one order. `volume`: the PersistentVolume; `attachment`: the
    VolumeAttachment by which the node has it; `node_fence` and `token`: whose order."""

    node_name: str = ""
    node_uid: str = msgspec.field(default="", name="nodeUID")
    boot_id: str = msgspec.field(default="", name="bootID")
    volume: str = ""
    attachment: str = ""
    mechanism: str = ""
    node_fence: str = ""
    token: str = ""


class StorageFenceStatus(Struct, frozen=True):
    """`released_at`: when the volume was given free."""

    phase: str = ""
    reason: str = ""
    message: str = ""
    released_at: str = ""


class StorageFence(Object, frozen=True):
    RESOURCE = Resource(GROUP, VERSION, "storagefences", "StorageFence", namespaced=False)
    spec: StorageFenceSpec = StorageFenceSpec()
    status: StorageFenceStatus = StorageFenceStatus()


class FenceRemediationSpec(Struct, frozen=True):
    """`reason`: why, for people."""

    reason: str = ""


class FenceRemediationStatus(Struct, frozen=True):
    """`fence`: the NodeFence that was asked for, or that was under way."""

    fence: str = ""
    conditions: tuple[Condition, ...] = ()


class FenceRemediation(Object, frozen=True):
    RESOURCE = Resource(GROUP, VERSION, "fenceremediations", "FenceRemediation", namespaced=True)
    spec: FenceRemediationSpec = FenceRemediationSpec()
    status: FenceRemediationStatus = FenceRemediationStatus()
