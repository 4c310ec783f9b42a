"""What `kubectl explain` says of the kinds of fencing.mooring.dev: a text for each kind and each of their
fields, by the field's path. Facts; what follows from them is in docs/fencing.md.
"""

from __future__ import annotations

from collections.abc import Mapping

_CONDITIONS = {
    "": "What is well and what is not, as conditions have it everywhere.",
    "type": "What the condition is about.",
    "status": "True, False or Unknown.",
    "reason": "A word for programs.",
    "message": "The same for people, with what to do.",
    "lastTransitionTime": "When the status changed last.",
}
_SECRET = {"namespace": "Of the Secret.", "name": "Of the Secret."}


def _below(path: str, texts: Mapping[str, str]) -> dict[str, str]:
    return {f"{path}.{name}" if name else path: text for name, text in texts.items()}


MECHANISM: Mapping[str, str] = {
    "": "One way to cut nodes off (a BMC, a power strip, a storage server), with its parameters.",
    "spec": "How nodes are reached.",
    "spec.type": "Which program: `mooring fence mechanisms` lists the types and their parameters.",
    "spec.parameters": "For all nodes.",
    "spec.secretRef": "A Secret whose keys are further parameters, such as passwords, for all nodes.",
    **_below("spec.secretRef", _SECRET),
    "spec.nodes": "By node: parameters that are laid over those for all. The controller looks at these "
    "nodes only; at all if there are none.",
    "spec.nodeSecretRefs": "By node: a Secret that is laid over the one for all.",
    **_below("spec.nodeSecretRefs", _SECRET),
    "spec.timeoutSeconds": "How long one order may take. Default: 60.",
    "status": "What the controller has seen of it.",
    "status.observedGeneration": "Of the spec that this status is about.",
    "status.scope": "What a fence by it shows. Power: nothing of that boot runs. Storage: its volumes "
    "cannot be written from there. Network: nothing of the machine gets through.",
    **_below("status.conditions", _CONDITIONS),
    "status.nodes": "What it said of each node when it was last looked at, without harm.",
    "status.nodes.name": "Of the node.",
    "status.nodes.nodeUID": "Of the Node object at that time.",
    "status.nodes.bootID": "Of the boot at that time.",
    "status.nodes.state": "Shut (off, or shut out), Open (on, or let in), or Unknown.",
    "status.nodes.reason": "A word for programs.",
    "status.nodes.message": "The same for people.",
    "status.nodes.identity": "What the device says of itself; compared before it is ordered to do anything.",
    "status.nodes.lookedAt": "When that was.",
    "status.nodes.policy": "The FencePolicy that covered it.",
    "status.nodes.providerID": "Of the machine, as its provider names it.",
    "status.nodes.systemUUID": "Of the machine, as its firmware names it.",
    "status.nodes.addresses": "Of the node.",
}

POLICY: Mapping[str, str] = {
    "": "Which nodes are cut off once they are lost: by whose word, how many at once, by which mechanisms "
    "in turn. Nothing that a node had is released before a mechanism has shown that it is cut off.",
    "spec": "What is to be done.",
    "spec.nodeSelector": "The nodes that it covers; all without it. A node that two policies cover is "
    "fenced by neither.",
    "spec.nodeSelector.matchLabels": "Labels that a node must have.",
    "spec.nodeSelector.matchExpressions": "Further requirements, all of which must hold.",
    "spec.nodeSelector.matchExpressions.key": "Of the label.",
    "spec.nodeSelector.matchExpressions.operator": "In, NotIn, Exists or DoesNotExist.",
    "spec.nodeSelector.matchExpressions.values": "For In and NotIn.",
    "spec.detectors": "Who says that a node is lost. Default: Ready alone.",
    "spec.detectors.type": "Ready: its Ready condition is Unknown. Condition: one of its conditions has a "
    "status. Mechanism: one says that it is off; that it is on means nothing. Storage: by what it counts, the node "
    "neither reads nor writes there; that it does keeps it from being fenced, where quorum.veto is set.",
    "spec.detectors.condition": "Of Condition: the type of the node's condition.",
    "spec.detectors.status": "Of Condition: the status that means that the node is lost. Default: True.",
    "spec.detectors.mechanism": "Of Mechanism and Storage: the FenceMechanism that is asked.",
    "spec.detectors.forSeconds": "How long it must have been so. Default: 0.",
    "spec.quorum": "How many detectors must agree.",
    "spec.quorum.required": "So many must say that the node is lost. Default: 1.",
    "spec.quorum.veto": "Whether one that sees it healthy keeps it from being fenced. Default: true.",
    "spec.peers": "What other nodes' agents say of a node that is lost: they ask it over the network. Without "
    "it none is asked. What they say is never evidence.",
    "spec.peers.veto": "Whether one that hears it keeps it from being fenced. Default: true.",
    "spec.peers.required": "So many, of the five that are asked at the most, must not hear it. Default: 0.",
    "spec.peers.expiresSeconds": "How long a statement counts after it has come in; they are asked again at "
    "half of it. Default: 30.",
    "spec.budget": "How many nodes may be fenced at once, those that have not come back included.",
    "spec.budget.maxConcurrent": "So many nodes; 0: any number. Default: 0.",
    "spec.budget.maxShare": "Such a share of the nodes that the policy covers, but at least one. Default: "
    "49%.",
    "spec.budget.maxPerZone": "So many nodes of one zone; 0: any number. Default: 0.",
    "spec.budget.maxControlPlane": "So many nodes of the control plane; 0: any number. Default: 1.",
    "spec.storm": "Many nodes lost at once are the network until proved otherwise.",
    "spec.storm.nodes": "So many are a storm, in which nothing is fenced unless others than Ready agree; "
    "0: none is. Default: 2.",
    "spec.storm.required": "So many detectors other than Ready must agree in a storm. Default: 1.",
    "spec.storm.cooldownSeconds": "How long after a storm it counts as one still. Default: 60.",
    "spec.worth": "For what a node is fenced.",
    "spec.worth.onlyExclusive": "Only if it has an exclusive volume, or a pod of a StatefulSet. Default: "
    "true.",
    "spec.worth.forgiveness": "Honour: waits as long as all its pods tolerate a node that does not answer. "
    "Default: Ignore.",
    "spec.worth.patienceSeconds": "It has so long to come back while no PodDisruptionBudget of its "
    "pods is violated. Default: 0.",
    "spec.ladder": "Mechanisms, one after the other until one has shown that the node is cut off. After "
    "the last one a person is asked, and the ladder is begun again.",
    "spec.ladder.mechanism": "Of this rung: a FenceMechanism.",
    "spec.ladder.confirmWith": "Second sources. None may say otherwise, and at least one has to agree.",
    "spec.ladder.retries": "How often it is ordered again when it has shown nothing. Default: 1.",
    "spec.after": "Leave: the machine stays off. PowerOn: it is switched on when all is released. Default: "
    "Leave.",
    "spec.storageReleasesPods": "Whether pods of a StatefulSet go on the word of a fence of scope Storage "
    "that covers all that they share, ALTHOUGH THEIR PROCESSES MAY STILL RUN. Default: false.",
    "spec.paused": "Why nothing is begun; empty if it is not paused. What a person asks for is done "
    "nevertheless.",
    "status": "What the controller has seen.",
    "status.observedGeneration": "Of the spec that this status is about.",
    **_below("status.conditions", _CONDITIONS),
    "status.nodes": "How many nodes it covers.",
    "status.lost": "Those of them that are lost.",
    "status.fencing": "Those of them whose fence is not over.",
}

FENCE: Mapping[str, str] = {
    "": "One fence of one boot of one node: whom it is about, each order that was given, and what it "
    "showed. It stays as a record. Making one asks for a fence; deleting one that has begun asks for it to "
    "be taken back.",
    "spec": "What is asked for.",
    "spec.nodeName": "Of the node. Never changes.",
    "spec.nodeUID": "Which registration is meant; empty: the one that is there. Never changes.",
    "spec.bootID": "Which boot is meant; empty: the one that is there. Never changes.",
    "spec.requestedBy": "Who asks: a person, or a detector; empty if the controller has begun it.",
    "spec.reason": "Why, for people.",
    "spec.override": "A person's word, which no pause, storm or budget holds.",
    "spec.unfence": "It is to be taken back, as soon as that is safe.",
    "status": "How far it is.",
    "status.phase": "Pending, Fencing, AwaitingPerson, Fenced; or it is over: Unfenced, Cancelled, Refused.",
    "status.reason": "A word for programs.",
    "status.message": "The same for people: what it waits for.",
    "status.waitsUntil": "How long, at the most, the reason holds that keeps it pending; empty: not known.",
    "status.policy": "The FencePolicy by which it goes.",
    "status.target": "Whom it is about, as it was known while it lived. Written once, before anything is "
    "done.",
    "status.target.nodeName": "Of the node.",
    "status.target.nodeUID": "Of the Node object.",
    "status.target.bootID": "Of the boot.",
    "status.target.providerID": "Of the machine, as its provider names it.",
    "status.target.systemUUID": "Of the machine, as its firmware names it.",
    "status.target.addresses": "Of the node.",
    "status.target.identities": "By mechanism: what it had said of the node in this boot.",
    "status.target.absent": "Whether there was no Node object any more when the fence was made.",
    "status.attempts": "The orders, in turn. Each is written before it is given.",
    "status.attempts.round": "Which time the ladder is gone through, from 0.",
    "status.attempts.rung": "Which rung, from 0.",
    "status.attempts.mechanism": "The FenceMechanism that was ordered.",
    "status.attempts.token": "Names the order; one that is given again has the same.",
    "status.attempts.orderedAt": "When it was written, before it was given.",
    "status.attempts.waitsUntil": "When the mechanism is waited for no longer.",
    "status.attempts.answeredAt": "When its answer was there; empty: it may have been carried out or not.",
    "status.attempts.outcome": "Fenced, NotFenced or Unknown; empty until it is answered.",
    "status.attempts.reason": "A word for programs.",
    "status.attempts.message": "The same for people.",
    "status.attempts.before": "What a look just before it found: Shut, Open or Unknown.",
    "status.attempts.scope": "What it shows if it holds: Power, Storage or Network.",
    "status.attempts.evidence": "What was read after the order was answered.",
    "status.attempts.volumes": "Of scope Storage: what it shuts the node out of, VolumeAttachment to "
    "PersistentVolume. Read before the order was given, and never added to.",
    "status.attempts.confirmations": "By mechanism: what a second source said.",
    "status.attempts.renewed": "The last renewal of the node's Lease that the API showed after the answer.",
    "status.attempts.report": "The last report of the node's agent that the API showed after the answer.",
    "status.attempts.absent": "Whether there was no Node object any more when it was given.",
    "status.round": "Which time the ladder is gone through, from 0.",
    "status.roundEndedAt": "When the ladder was last gone through in vain.",
    "status.proof": "The token of the attempt whose evidence counts.",
    "status.releasedAt": "When what the node had was given free.",
    "status.verifiedAt": "When the fence was last seen to hold.",
    "status.powerOnAt": "When the machine was ordered to be switched on again.",
    "status.releasesPods": "Whether its last look went by a policy with storageReleasesPods.",
    "status.lettingIn": "It releases nothing any more, as its node may be let in again in the same boot.",
    "status.letInAt": "When it was shown that nothing of what it is about is left at the node.",
    "status.followedBy": "Another boot of the node that was seen while its orders were heard out.",
    "status.contradicted": "Mechanisms whose word about this boot has turned out to be wrong.",
    **_below("status.conditions", _CONDITIONS),
}

STORAGE: Mapping[str, str] = {
    "": "One volume that an order shuts one boot of one node out of. The controller makes it before it gives "
    "the order; it goes with its NodeFence.",
    "spec": "What it is about.",
    "spec.nodeName": "Of the node. Never changes, like all of the spec.",
    "spec.nodeUID": "Of the Node object.",
    "spec.bootID": "Of the boot.",
    "spec.volume": "The PersistentVolume.",
    "spec.attachment": "The VolumeAttachment by which the node has it.",
    "spec.mechanism": "The FenceMechanism that was ordered.",
    "spec.nodeFence": "The NodeFence whose order it is.",
    "spec.token": "Names the order.",
    "status": "How far it is.",
    "status.phase": "Pending, Fenced; Lifted: the storage was seen to let the node in; or it is over: Unfenced.",
    "status.reason": "A word for programs.",
    "status.message": "The same for people.",
    "status.releasedAt": "When the volume was given free.",
}

REMEDIATION: Mapping[str, str] = {
    "": "The request of an external health check (medik8s' NodeHealthCheck) to fence the node of its name. It is "
    "held by what the FencePolicy says, as any request is; its deletion takes back a fence that has shown "
    "nothing yet.",
    "spec": "What the template says.",
    "spec.reason": "Why, for people.",
    "status": "How far it is.",
    "status.fence": "The NodeFence that was asked for, or that was under way when it came.",
    **_below("status.conditions", _CONDITIONS),
}

TEMPLATE: Mapping[str, str] = {
    "": "What an external health check makes FenceRemediations from.",
    "spec": "Of the template.",
    "spec.template": "The request.",
    "spec.template.spec": "Its spec.",
    "spec.template.spec.reason": "Why, for people.",
}
