"""The StatefulSet controller. A key is a StatefulSet.

Creates claims before the pod that uses them, and creates a pod of an identity only after the
former pod's object is gone.
"""

from __future__ import annotations

import asyncio
from collections.abc import Generator
from contextlib import contextmanager
from random import Random
from typing import Any, assert_never

import msgspec

from mooring.controllers.statefulset.decide import (
    POD_NAME,
    Action,
    PodDecision,
    decide,
    ordinal_of,
    ordinals,
    revision_for,
)
from mooring.controllers.statefulset.identity_objects import (
    claim_bodies,
    claim_owners,
    claim_stem,
    identity_labels,
    is_stale,
    ordinal_in,
    pod_body,
    pod_name,
)
from mooring.controllers.statefulset.status import status_of
from mooring.kube.adoption import Adopter, orphaned_in
from mooring.kube.batches import in_growing_batches, in_turn, one_by_one
from mooring.kube.client import Client
from mooring.kube.controller import Controller
from mooring.kube.errors import AlreadyExists, ApiError, Conflict, conflict
from mooring.kube.objects import ControllerRevision, PersistentVolumeClaim, Pod, StatefulSet
from mooring.kube.owners import controller_uid
from mooring.kube.readiness import available_at
from mooring.kube.rests import Rests
from mooring.kube.revisions import REVISION, Revisions, template_of
from mooring.kube.selectors import label_selector_of
from mooring.kube.times import Now

AGAIN_S = 10.0
"""Seconds after which the name of a pod that exists already is tried again."""


class StatefulSetController(Controller[str]):
    """Upstream's statefulset controller: identity first, availability second."""

    name = "statefulset-controller"

    def __init__(self, client: Client, *, now: Now, random: Random) -> None:
        super().__init__(client, now=now, random=random)
        self._sets = self.watch(
            StatefulSet, lambda each: [each.key], indexers={"namespace": lambda each: [each.namespace]}
        )
        self._pods = self.watch(Pod, self._touched, indexers={"owner": controller_uid, "orphan": orphaned_in})
        self._adopter = Adopter(client, self._pods)
        self._claims = self.watch(
            PersistentVolumeClaim,
            self._set_of_claim,
            indexers={"stem": lambda claim: [claim.key.rpartition("-")[0]]},
        )
        self._claims.add_handler(self._claim_gone)
        revisions = self.watch(ControllerRevision, indexers={"owner": controller_uid})
        self._revisions = Revisions(client, revisions)
        self._revisions.call_when_changed(StatefulSet.RESOURCE.kind, self.queue.add)
        self._rests: dict[str, tuple[int, Rests[int]]] = {}
        """By the set's key: its generation, and how often a pod of each ordinal was made for it. Whether one
        was ready tells nothing: it may have been so for an instant."""

    async def reconcile(self, key: str) -> None:
        """Takes one set a step further."""
        stateful_set = self._sets.get(key)
        if stateful_set is None:
            self._rests.pop(key, None)
            return
        revision = await self._revisions.present(stateful_set)
        await self._settle(stateful_set)
        going: set[str] = set()  # uids of the pods that this step deletes: the cache does not show it yet
        failure: ApiError | None = None
        try:
            await self._take_a_step(stateful_set, revision, going)
        except ApiError as error:  # a step that fails must not hide what there is
            failure = error
        await self._update_status(stateful_set, revision, going)
        if failure is not None:
            raise failure
        await self._delete_old_revisions(stateful_set, revision)

    async def _take_a_step(self, stateful_set: StatefulSet, revision: str, going: set[str]) -> None:
        """Each part goes by the pods that are known when it begins: the writes of the part before may have
        taken long, and pods have changed meanwhile. What is refused of one pod or claim keeps no other
        waiting. The set is read live before a pod is scaled away, with
        which its claims may go: a late cache may show what was done long ago, and has been taken back."""
        wanted = ordinals(stateful_set)
        if any(ordinal not in wanted for ordinal in self._pods_of(stateful_set)):
            await self._sets.confirm(stateful_set)
        owned_as_before: set[int] = set()
        await in_turn(
            lambda: self._restore_names(stateful_set, self._pods_of(stateful_set)),
            lambda: self._set_owners_of_claims(stateful_set, self._pods_of(stateful_set), owned_as_before),
            lambda: self._create_missing_claims(stateful_set),
            lambda: self._make_and_delete_pods(stateful_set, revision, going, owned_as_before),
        )

    async def _make_and_delete_pods(
        self, stateful_set: StatefulSet, revision: str, going: set[str], owned_as_before: set[int]
    ) -> None:
        """A pod stays whose claims have not the owners that they are to have: they may go with it, or stay
        for ever."""
        pods = self._pods_of(stateful_set)
        steps = [
            step
            for step in decide(stateful_set, pods, revision, self.now())
            if step.action is not Action.DELETE or step.ordinal not in owned_as_before
        ]
        await in_growing_batches(
            steps, lambda step: self._carry_out(stateful_set, step, pods, revision, going)
        )

    def _pods_of(self, stateful_set: StatefulSet) -> dict[int, Pod]:
        pods = {ordinal_of(stateful_set, pod): pod for pod in self._pods.by_index("owner", stateful_set.uid)}
        return {ordinal: pod for ordinal, pod in pods.items() if ordinal is not None}

    async def _settle(self, stateful_set: StatefulSet) -> None:
        """Adopts pods of the set's identities that no controller owns, and releases those that the selector
        does not match any more."""
        pods = (
            *self._pods.by_index("owner", stateful_set.uid),
            *self._pods.by_index("orphan", stateful_set.namespace),
        )
        named = [pod for pod in pods if ordinal_of(stateful_set, pod) is not None]
        await self._adopter.settle(stateful_set, label_selector_of(stateful_set.spec.selector), named)

    async def _delete_old_revisions(self, stateful_set: StatefulSet, revision: str) -> None:
        status = stateful_set.status
        used = {revision, status.current_revision, status.update_revision}
        used |= {pod.metadata.labels.get(REVISION, "") for pod in self._pods_of(stateful_set).values()}
        await self._revisions.delete_old(stateful_set, used)

    async def _restore_names(self, stateful_set: StatefulSet, pods: dict[int, Pod]) -> None:
        """Gives pods back the labels that name their identity: a pod's own Service selects by them."""

        async def restore(numbered: tuple[int, Pod]) -> None:
            ordinal, pod = numbered
            labels = identity_labels(pod.name, ordinal)
            if not pod.deleting and pod.metadata.labels.get(POD_NAME) != pod.name:
                with self._told(stateful_set, "Update", f"Pod {pod.name}"):
                    self._pods.accept(await self.client.revise(pod, {"metadata": {"labels": labels}}))

        await one_by_one(pods.items(), restore)

    async def _set_owners_of_claims(
        self, stateful_set: StatefulSet, pods: dict[int, Pod], owned_as_before: set[int]
    ) -> None:
        """Sets the owners of claims before a pod is scaled away or the set is deleted: a claim is deleted
        with its owner. Adds the ordinals of which that was refused."""

        async def set_owners(numbered: tuple[int, str]) -> None:
            ordinal, key = numbered
            try:
                await self._set_owners(stateful_set, ordinal, key, pods.get(ordinal))
            except ApiError:
                owned_as_before.add(ordinal)
                raise

        await one_by_one(self._claim_keys(stateful_set), set_owners)

    async def _set_owners(self, stateful_set: StatefulSet, ordinal: int, key: str, pod: Pod | None) -> None:
        claim, condemned = self._claims.get(key), ordinal not in ordinals(stateful_set)
        if claim is None or claim.deleting or (condemned and pod is None):
            return
        owners = claim_owners(stateful_set, claim, pod_name(stateful_set, ordinal), pod, condemned=condemned)
        if owners is not None:
            patch = {"metadata": {"ownerReferences": owners}}
            with self._told(stateful_set, "Update", f"Claim {claim.name}"):
                self._claims.accept(await self.client.revise(claim, patch))

    def _claim_keys(self, stateful_set: StatefulSet) -> list[tuple[int, str]]:
        """The claims that there are of the set's identities, with their ordinals and in their order."""
        stems = (
            f"{stateful_set.namespace}/{claim_stem(stateful_set, each)}"
            for each in stateful_set.spec.volume_claim_templates
        )
        found = [
            (ordinal_in(each.name), each.key)
            for stem in stems
            for each in self._claims.by_index("stem", stem)
        ]
        known = [(ordinal, key) for ordinal, key in found if ordinal is not None]
        return sorted(known, key=lambda each: each[0])

    async def _carry_out(
        self,
        stateful_set: StatefulSet,
        decision: PodDecision,
        pods: dict[int, Pod],
        revision: str,
        going: set[str],
    ) -> None:
        action = decision.action
        self._check_unchanged(stateful_set)
        self.log.info(
            action.value, set=stateful_set.key, ordinal=decision.ordinal, reason=decision.reason.message
        )
        with self._told(stateful_set, action.value, f"Pod {pod_name(stateful_set, decision.ordinal)}"):
            match action:
                case Action.CREATE:
                    await self._create(stateful_set, decision.ordinal, revision)
                case Action.DELETE:
                    await self._delete(stateful_set, decision, pods[decision.ordinal])
                    going.add(pods[decision.ordinal].uid)
                case _:
                    assert_never(action)

    @contextmanager
    def _told(self, stateful_set: StatefulSet, verb: str, what: str) -> Generator[None, None, None]:
        """What is refused becomes an event of the set, in upstream's words."""
        try:
            yield
        except ApiError as error:
            if verb != "Update" or not isinstance(error, Conflict):  # it is updated anew then
                message = f"{verb.lower()} {what} failed: {error}"
                self.recorder.event(stateful_set, "Warning", f"Failed{verb}", message)
            raise

    def _check_unchanged(self, stateful_set: StatefulSet) -> None:
        """Raises Conflict if the set wants something else by now than was decided by, or is another one: a
        pod that goes may take its claim with it, and a claim that is made stays."""
        now = self._sets.get(stateful_set.key)
        if now is None or _wanted_by(now) != _wanted_by(stateful_set):
            raise conflict(f"StatefulSet {stateful_set.key} wants something else than was decided by")

    async def _delete(self, stateful_set: StatefulSet, decision: PodDecision, pod: Pod) -> None:
        await self.client.delete(Pod, pod.name, pod.namespace, uid=pod.uid)
        self.recorder.event(
            stateful_set, "Normal", "SuccessfulDelete", f"delete Pod {pod.name}: {decision.reason.message}"
        )

    async def _create(self, stateful_set: StatefulSet, ordinal: int, revision: str) -> None:
        for body in claim_bodies(stateful_set, ordinal):
            if ordinal in self._pods_of(stateful_set):  # another controller has made it since it was decided
                return
            if not await self._ensure_claim(stateful_set, body, ordinal):
                return
        rests, now = self._rests_of(stateful_set), asyncio.get_running_loop().time()
        if (rest := rests.left([ordinal], now)) > 0:
            self.queue.add_after(stateful_set.key, rest)
            return
        try:
            created = await self.client.create(
                Pod, self._body(stateful_set, ordinal, revision), stateful_set.namespace
            )
        except AlreadyExists:
            # The cache is stale, or a pod of another owner has the name.
            self.queue.add_after(stateful_set.key, AGAIN_S)
            return
        self._pods.accept(created)
        rests.note(ordinal, now)
        message = f"create Pod {created.name} in StatefulSet {stateful_set.name} successful"
        self.recorder.event(stateful_set, "Normal", "SuccessfulCreate", message)

    def _rests_of(self, stateful_set: StatefulSet) -> Rests[int]:
        """Of what the set wants now: what its user has changed is done at once, however often. What this
        controller itself deletes rests as well: another one with another view of the set may make it anew."""
        generation = stateful_set.metadata.generation
        if stateful_set.key not in self._rests or self._rests[stateful_set.key][0] != generation:
            self._rests[stateful_set.key] = generation, Rests()
        return self._rests[stateful_set.key][1]

    def _body(self, stateful_set: StatefulSet, ordinal: int, revision: str) -> dict[str, Any]:
        kept = self._revisions.get(stateful_set.namespace, revision_for(stateful_set, ordinal, revision))
        if kept is None or kept.name == revision:
            return pod_body(stateful_set, ordinal, revision, stateful_set.spec.template)
        return pod_body(stateful_set, ordinal, kept.name, template_of(kept))

    async def _create_missing_claims(self, stateful_set: StatefulSet) -> None:
        """Creates claims that are missing although their pod exists: the claim was being deleted when the pod
        was made, and the cache was stale. The pod would wait for it for ever. For one that ends, or is to
        end, a volume would be made that nothing uses."""
        wanted = () if stateful_set.deleting else ordinals(stateful_set)
        waiting = {o: pod for o, pod in self._pods_of(stateful_set).items() if o in wanted and _waits(pod)}

        async def ensure(missing: tuple[int, Pod, dict[str, Any]]) -> None:
            ordinal, pod, body = missing
            if _waits(self._pods.get(pod.key)):  # to create a claim, another one's as well, takes time
                with self._told(stateful_set, "Create", f"Claim {body['metadata']['name']}"):
                    await self._ensure_claim(stateful_set, body, ordinal)

        claims = (
            (ordinal, pod, body)
            for ordinal, pod in waiting.items()
            for body in claim_bodies(stateful_set, ordinal)
        )
        await one_by_one(claims, ensure)

    async def _ensure_claim(self, stateful_set: StatefulSet, body: dict[str, Any], ordinal: int) -> bool:
        """Whether the claim exists and stays. A claim that is being deleted, or will be with its former pod,
        is waited for: its end marks the set."""
        name = body["metadata"]["name"]
        found = self._claims.get(f"{stateful_set.namespace}/{name}")
        if found is not None:
            pod = self._pods_of(stateful_set).get(ordinal)
            stale = is_stale(found, stateful_set, pod_name(stateful_set, ordinal), pod)
            return not (found.deleting or stale)
        try:
            created = await self.client.create(PersistentVolumeClaim, body, stateful_set.namespace)
        except AlreadyExists:
            return True
        self._claims.accept(created)
        self.recorder.event(stateful_set, "Normal", "SuccessfulCreate", f"create Claim {name} successful")
        return True

    async def _update_status(self, stateful_set: StatefulSet, revision: str, going: set[str]) -> None:
        pods = list(self._pods_of(stateful_set).values())
        now, least = self.now(), stateful_set.spec.min_ready_seconds
        waiting = [
            moment for pod in pods if (moment := available_at(pod, least)) is not None and moment > now
        ]
        if waiting:
            self.look_again(stateful_set.key, (min(waiting) - now).total_seconds())
        wanted = status_of(stateful_set, pods, revision, going, now)
        if wanted != stateful_set.status:
            fields = {each.encode_name: getattr(wanted, each.name) for each in msgspec.structs.fields(wanted)}
            # Of one version: only the status says which revision is the current one, and a status that comes
            # late would bring back a former one.
            answer = await self.client.revise(stateful_set, {"status": fields}, subresource="status")
            self._sets.accept(answer)

    def _set_of_claim(self, claim: PersistentVolumeClaim) -> list[str]:
        """Returns the set of a claim that is being deleted: the set may be waiting for its end."""
        return self._sets_by_name_of(claim) if claim.deleting else []

    def _claim_gone(self, old: PersistentVolumeClaim | None, new: PersistentVolumeClaim | None) -> None:
        """A claim that nothing protects goes without having been shown as being deleted."""
        if old is not None and new is None:
            for key in self._sets_by_name_of(old):
                self.queue.add(key)

    def _sets_by_name_of(self, claim: PersistentVolumeClaim) -> list[str]:
        """A claim has no reference to its set."""
        name = claim.name.rpartition("-")[0]
        sets = self._sets.by_index("namespace", claim.namespace)
        return [each.key for each in sets if name.endswith(f"-{each.name}")]

    def _touched(self, pod: Pod) -> list[str]:
        owner = pod.controller
        if owner is not None:
            return [f"{pod.namespace}/{owner.name}"] if owner.kind == StatefulSet.RESOURCE.kind else []
        sets = self._sets.by_index("namespace", pod.namespace)
        return [each.key for each in sets if ordinal_of(each, pod) is not None]


def _wanted_by(stateful_set: StatefulSet) -> object:
    return stateful_set.uid, stateful_set.metadata.generation, stateful_set.deleting


def _waits(pod: Pod | None) -> bool:
    """Whether the pod may wait for a claim: it has never run, and is to."""
    return pod is not None and pod.status.phase in ("", "Pending") and not pod.deleting
