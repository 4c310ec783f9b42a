"""What each invariant says, in words: for people who look at a violation.

The rules of the checkers are told by their docstrings; the others here.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

from mooring.simulation.checks.invariants import CHECKERS

OTHERS: Mapping[str, str] = {
    "S16": "What was written to a volume is found again.",
    "L1": "Once all is healed, every wanted pod is ready.",
    "L3": "Once all is healed, wanted = recorded = attached = mounted.",
    "L4": "Once all is healed, no other pod exists, and none is still being deleted.",
    "L5": "Once all is healed, every claim is bound.",
    "L7": "In the end no part writes anything but heartbeats.",
    "L6": "Once all is healed, a machine that is lost for good is fenced, and its pods run elsewhere.",
    "L8": "Pods of a machine that is lost, and that no operator has stated to be dead, are shown as not ready.",
    "L9": "Once all is healed, each node has one ready pod of each DaemonSet.",
    "L10": "Once all is healed, a Job is complete, and has succeeded exactly as often as it should.",
    "L11": "Once all is healed, a PodDisruptionBudget's status says what its pods are.",
    "L17": "Once all is healed, the status of a workload says what its pods are, every update is complete, and no more "
    "former templates are kept than its history limit says.",
    "L18": "In the end no controller and no agent remembers anything of an object that is gone.",
    "L19": "Once all is healed, the records of volumes say what is so, and nothing of what is over.",
    "L20": "In the last three minutes no part reads anything live, but for the few that look again and again.",
    "L21": "Once all is healed, what the controllers of workloads have made is as its template says.",
    "L22": "In the end each disk that EC2 has made is what its class, its claim and the driver's operator say.",
    "L23": "In the end each pod that runs sees what its ConfigMaps, Secrets, labels and annotations say.",
    "L24": "In the end what users ask for of snapshots is there, what they have deleted is gone, and nothing is left.",
    "L25": "In the end each volume is like the VolumeAttributesClass says that its claim names, and both say so.",
    "D2": "Caches, and the queues of the controllers of volumes and StatefulSets, are what they would be if they were "
    "made anew.",
    "D3": "Once all is idle, controllers and agents that start anew find nothing to do.",
    "D4": "A cache has what the API server had at the version up to which the cache has read.",
    "D5": "The store holds what its log has made durable, now and at each version in its window, and no more.",
    "D6": "What an agent remembers of a volume, its record on disk, and what is there, agree.",
    "D7": "What is decided is what the rules say, which are written a second time.",
    "D8": "What a reader is answered that asks for a version is what was durable at that version.",
    "Deadlock": "Something is always going to happen.",
    "Livelock": "Time goes on.",
    "Escape": "No part leaves the simulation.",
}


def rule_of(invariant: str) -> str:
    """The rule, as a sentence; "" if the name is not known."""
    for checker in CHECKERS:
        words = " ".join((checker.__doc__ or "").split())
        if found := re.search(
            rf"(?:^|; |and ){re.escape(invariant)}: (.*?)(?:[;,] (?:and )?[SLDP]\d+'?: |$)", words
        ):
            return found[1][0].upper() + found[1][1:].rstrip(".") + "."
    return OTHERS.get(invariant, "")
