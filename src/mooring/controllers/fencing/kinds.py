"""The kinds of fencing.mooring.dev (`mooring.kube.objects.fencing`), for any API server.

The rules in CEL say early what the controller enforces anyway: some servers run none.
"""

from __future__ import annotations

from mooring.controllers.fencing import descriptions
from mooring.controllers.fencing.detection import SHORTEST_S
from mooring.controllers.fencing.ladder import MOST_KEPT, MOST_RETRIES
from mooring.kube.custom_kinds import (
    AGE,
    DATE_TIME,
    FLAG,
    TEXT,
    Schema,
    choice,
    definition,
    fields,
    listed,
    mapped,
    ruled,
    seconds,
    text,
    whole,
)
from mooring.kube.objects.fencing import GROUP, VERSION
from mooring.volumes.peers import MOST_PEERS

MOST_NODES = 5000
_NAME = text(253)
_SECRET = fields("namespace", "name", namespace=_NAME, name=_NAME)
_CONDITIONS = listed(
    fields(
        "type",
        "status",
        type=TEXT,
        status=choice("True", "False", "Unknown"),
        reason=TEXT,
        message=TEXT,
        lastTransitionTime=DATE_TIME,
    ),
    10,
)
_TEXTS = mapped(text(4096))
_SELECTOR = fields(
    matchLabels=mapped(text(63)),
    matchExpressions=listed(
        fields(
            "key",
            "operator",
            key=text(317),
            operator=choice("In", "NotIn", "Exists", "DoesNotExist"),
            values=listed(text(63), 100),
        ),
        20,
    ),
)

_MECHANISM: dict[str, Schema] = {
    "spec": fields(
        "type",
        type=text(63),
        parameters=_TEXTS,
        secretRef=_SECRET,
        nodes=mapped(_TEXTS),
        nodeSecretRefs=mapped(_SECRET),
        timeoutSeconds=seconds(1),
    ),
    "status": fields(
        observedGeneration=whole(),
        scope=TEXT,
        conditions=_CONDITIONS,
        nodes=listed(
            fields(
                name=TEXT,
                nodeUID=TEXT,
                bootID=TEXT,
                state=TEXT,
                reason=TEXT,
                message=TEXT,
                identity=mapped(TEXT),
                lookedAt=DATE_TIME,
                policy=TEXT,
                providerID=TEXT,
                systemUUID=TEXT,
                addresses=listed(TEXT, 100),
            ),
            MOST_NODES,
        ),
    ),
}
_POLICY: dict[str, Schema] = {
    "spec": fields(
        "ladder",
        nodeSelector=_SELECTOR,
        detectors=listed(
            ruled(
                fields(
                    "type",
                    type=choice("Ready", "Condition", "Mechanism", "Storage"),
                    condition=text(316),
                    status=choice("True", "False", "Unknown"),
                    mechanism=_NAME,
                    forSeconds=seconds(),
                ),
                a_Condition_detector_names_its_condition="self.type != 'Condition' || has(self.condition)",
                a_Mechanism_detector_names_its_mechanism="self.type != 'Mechanism' || has(self.mechanism)",
                a_Storage_detector_names_its_mechanism="self.type != 'Storage' || has(self.mechanism)",
            ),
            10,
        ),
        quorum=fields(required=whole(1), veto=FLAG),
        peers=ruled(
            fields(
                veto=FLAG,
                required={**whole(), "maximum": MOST_PEERS},
                expiresSeconds=seconds(SHORTEST_S),
            ),
            peers_that_neither_veto_nor_are_required_say_nothing="!has(self.veto) || self.veto || "
            "(has(self.required) && self.required > 0)",
        ),
        budget=fields(
            maxConcurrent=whole(),
            maxShare={"type": "string", "pattern": "^([0-9]|[1-9][0-9]|100)%$"},
            maxPerZone=whole(),
            maxControlPlane=whole(),
        ),
        storm=fields(nodes=whole(), required=whole(1), cooldownSeconds=seconds()),
        worth=fields(onlyExclusive=FLAG, forgiveness=choice("Ignore", "Honour"), patienceSeconds=seconds()),
        ladder={
            **listed(
                ruled(
                    fields(
                        "mechanism",
                        mechanism=_NAME,
                        confirmWith=listed(_NAME, 5),
                        retries={**whole(), "maximum": MOST_RETRIES},
                    ),
                    a_rung_is_not_confirmed_by_itself="!has(self.confirmWith) || !(self.mechanism in self.confirmWith)",
                ),
                10,
            ),
            "minItems": 1,
        },
        after=choice("Leave", "PowerOn"),
        storageReleasesPods=FLAG,
        paused=text(1024),
    ),
    "status": fields(
        observedGeneration=whole(),
        conditions=_CONDITIONS,
        nodes=whole(),
        lost=listed(TEXT, MOST_NODES),
        fencing=listed(TEXT, MOST_NODES),
    ),
}
_TARGET = fields(
    nodeName=TEXT,
    nodeUID=TEXT,
    bootID=TEXT,
    providerID=TEXT,
    systemUUID=TEXT,
    addresses=listed(TEXT, 100),
    identities=mapped(mapped(TEXT)),
    absent=FLAG,
)
_ATTEMPT = fields(
    round=whole(),
    rung=whole(),
    mechanism=TEXT,
    token=TEXT,
    orderedAt=DATE_TIME,
    waitsUntil=TEXT,
    answeredAt=TEXT,
    outcome=TEXT,
    reason=TEXT,
    message=TEXT,
    before=TEXT,
    scope=TEXT,
    evidence=mapped(TEXT),
    volumes=mapped(TEXT),
    confirmations=mapped(TEXT),
    report=TEXT,
    renewed=TEXT,
    absent=FLAG,
)
_FENCE: dict[str, Schema] = {
    "spec": ruled(
        fields(
            "nodeName",
            nodeName=_NAME,
            nodeUID=text(64),
            bootID=text(128),
            requestedBy=text(1024),
            reason=text(4096),
            override=FLAG,
            unfence=FLAG,
        ),
        whom_a_fence_is_about_never_changes="self.nodeName == oldSelf.nodeName && "
        "(has(self.nodeUID) ? self.nodeUID : '') == (has(oldSelf.nodeUID) ? oldSelf.nodeUID : '') && "
        "(has(self.bootID) ? self.bootID : '') == (has(oldSelf.bootID) ? oldSelf.bootID : '')",
        a_fence_that_is_to_be_taken_back_stays_so="!has(oldSelf.unfence) || !oldSelf.unfence || "
        "(has(self.unfence) && self.unfence)",
    ),
    "status": fields(
        phase=TEXT,
        reason=TEXT,
        message=TEXT,
        waitsUntil=TEXT,
        policy=TEXT,
        target=_TARGET,
        attempts=listed(_ATTEMPT, MOST_KEPT),
        round=whole(),
        roundEndedAt=TEXT,
        proof=TEXT,
        releasedAt=TEXT,
        verifiedAt=TEXT,
        powerOnAt=TEXT,
        releasesPods=FLAG,
        lettingIn=FLAG,
        letInAt=TEXT,
        followedBy=TEXT,
        contradicted=listed(_NAME, 50),
        conditions=_CONDITIONS,
    ),
}

_STORAGE: dict[str, Schema] = {
    "spec": ruled(
        fields(
            "nodeName",
            "volume",
            "attachment",
            "nodeFence",
            "token",
            nodeName=_NAME,
            nodeUID=text(64),
            bootID=text(128),
            volume=_NAME,
            attachment=_NAME,
            mechanism=_NAME,
            nodeFence=_NAME,
            token=text(300),
        ),
        what_a_fence_is_about_never_changes="self == oldSelf",
    ),
    "status": fields(phase=TEXT, reason=TEXT, message=TEXT, releasedAt=TEXT),
}

_REMEDIATION_SPEC = fields(reason=text(4096))
_REMEDIATION: dict[str, Schema] = {
    "spec": _REMEDIATION_SPEC,
    "status": fields(fence=TEXT, conditions=_CONDITIONS),
}
_TEMPLATE: dict[str, Schema] = {"spec": fields("template", template=fields("spec", spec=_REMEDIATION_SPEC))}

FENCING_KINDS = (
    definition(
        GROUP,
        VERSION,
        "FencePolicy",
        "fencepolicies",
        "Cluster",
        _POLICY,
        {
            "Ready": ("string", ".status.conditions[?(@.type=='Ready')].status"),
            "Nodes": ("integer", ".status.nodes"),
            "Ladder": ("string", ".spec.ladder[*].mechanism"),
            "Reason": ("string", ".status.conditions[?(@.type=='Ready')].message"),
            "Age": AGE,
        },
        texts=descriptions.POLICY,
    ),
    definition(
        GROUP,
        VERSION,
        "FenceMechanism",
        "fencemechanisms",
        "Cluster",
        _MECHANISM,
        {
            "Type": ("string", ".spec.type"),
            "Scope": ("string", ".status.scope"),
            "Available": ("string", ".status.conditions[?(@.type=='Available')].status"),
            "Reason": ("string", ".status.conditions[?(@.type=='Available')].message"),
            "Age": AGE,
        },
        texts=descriptions.MECHANISM,
    ),
    definition(
        GROUP,
        VERSION,
        "NodeFence",
        "nodefences",
        "Cluster",
        _FENCE,
        {
            "Node": ("string", ".spec.nodeName"),
            "Phase": ("string", ".status.phase"),
            "Reason": ("string", ".status.reason"),
            "Message": ("string", ".status.message"),
            "Age": AGE,
        },
        texts=descriptions.FENCE,
    ),
    definition(
        GROUP,
        VERSION,
        "StorageFence",
        "storagefences",
        "Cluster",
        _STORAGE,
        {
            "Node": ("string", ".spec.nodeName"),
            "Volume": ("string", ".spec.volume"),
            "Mechanism": ("string", ".spec.mechanism"),
            "Phase": ("string", ".status.phase"),
            "Message": ("string", ".status.message"),
            "Age": AGE,
        },
        texts=descriptions.STORAGE,
    ),
    definition(
        GROUP,
        VERSION,
        "FenceRemediation",
        "fenceremediations",
        "Namespaced",
        _REMEDIATION,
        {
            "Fence": ("string", ".status.fence"),
            "Succeeded": ("string", ".status.conditions[?(@.type=='Succeeded')].status"),
            "Reason": ("string", ".status.conditions[?(@.type=='Succeeded')].message"),
            "Age": AGE,
        },
        texts=descriptions.REMEDIATION,
    ),
    definition(
        GROUP,
        VERSION,
        "FenceRemediationTemplate",
        "fenceremediationtemplates",
        "Namespaced",
        _TEMPLATE,
        {"Age": AGE},
        texts=descriptions.TEMPLATE,
    ),
)
"""Bodies of CustomResourceDefinitions."""
