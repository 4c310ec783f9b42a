"""D7: what production code decides is what the rules say, which are written here a second time.

Whenever production code asks a question of `QUESTIONS`, in any state that a run reaches, the opinion about it
is asked as well, of the same. Where both are wrong in the same way nothing is found.
"""

from __future__ import annotations

from mooring.simulation.checks.second_opinions import (
    adoptions,
    api_words,
    attach_caches,
    attach_states,
    attach_writes,
    attachdetach_acts,
    attacher_acts,
    attacher_definitions,
    attacher_detaches,
    attacher_requests,
    attacher_steps,
    attacher_verifying,
    attacher_writes,
    attaching,
    binding_outcomes,
    binding_writes,
    bindings,
    ebs,
    handshakes,
    identities,
    mounting,
    node_acts,
    node_looks,
    node_operations,
    node_states,
    provisioning_tries,
    provisionings,
    reclaim_reads,
    reclaiming,
    releasing,
    server_requests,
    statefulset_outcomes,
    statefulset_steps,
    statefulsets,
    store,
    store_commits,
    told_pods,
    verifying,
)
from mooring.simulation.checks.second_opinions.listening import SecondOpinions, unheard
from mooring.simulation.checks.second_opinions.memories import forget_all
from mooring.simulation.checks.second_opinions.question import Question

__all__ = ["QUESTIONS", "Question", "SecondOpinions", "forget_all", "unheard"]

QUESTIONS: tuple[Question, ...] = (
    *adoptions.QUESTIONS,
    *api_words.QUESTIONS,
    *attach_caches.QUESTIONS,
    *attach_states.QUESTIONS,
    *attach_writes.QUESTIONS,
    *attachdetach_acts.QUESTIONS,
    *attacher_acts.QUESTIONS,
    *attacher_definitions.QUESTIONS,
    *attacher_detaches.QUESTIONS,
    *attacher_requests.QUESTIONS,
    *attacher_steps.QUESTIONS,
    *attacher_verifying.QUESTIONS,
    *attacher_writes.QUESTIONS,
    *attaching.QUESTIONS,
    *binding_outcomes.QUESTIONS,
    *binding_writes.QUESTIONS,
    *bindings.QUESTIONS,
    *ebs.QUESTIONS,
    *handshakes.QUESTIONS,
    *identities.QUESTIONS,
    *mounting.QUESTIONS,
    *node_acts.QUESTIONS,
    *node_looks.QUESTIONS,
    *node_operations.QUESTIONS,
    *node_states.QUESTIONS,
    *provisioning_tries.QUESTIONS,
    *provisionings.QUESTIONS,
    *reclaim_reads.QUESTIONS,
    *reclaiming.QUESTIONS,
    *releasing.QUESTIONS,
    *server_requests.QUESTIONS,
    *statefulset_outcomes.QUESTIONS,
    *statefulset_steps.QUESTIONS,
    *statefulsets.QUESTIONS,
    *store.QUESTIONS,
    *store_commits.QUESTIONS,
    *told_pods.QUESTIONS,
    *verifying.QUESTIONS,
)
