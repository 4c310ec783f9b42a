"""Stops the instance of EC2 that a node is, by force; of Amazon's, and of `mooring cloud`.

FENCED means that EC2 says `stopped` (or `terminated`) of this instance and this launch, read after it
answered our order. Terminating is opt-in, and refused where a volume beside the root would go with the
instance. A call that was cancelled may still end in its thread, within the order's deadline.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import Any

from botocore.config import Config
from botocore.exceptions import BotoCoreError, ClientError
from botocore.session import Session

from mooring.fence import parameters
from mooring.fence.cloud import instances
from mooring.fence.cloud.instances import BadTarget, Described
from mooring.fence.interface import Answer, Look, Mechanism, Order, Outcome, Parameter, Scope, State
from mooring.fence.moments import moment
from mooring.fence.programs import Deadline

PAUSE_S = 1.0
CALL_S = 10.0
BUSY = {"RequestLimitExceeded", "Throttling", "IncorrectInstanceState"}
"""Codes of a refusal after which the order is given again."""


class Ec2:
    """See `Mechanism`."""

    kind = "ec2"
    scope = Scope.POWER
    summary = "Stops the node's instance of EC2 by force"
    parameters: Mapping[str, Parameter] = {
        "region": Parameter("The region; that of the node's zone"),
        "endpoint": Parameter("EC2's URL; Amazon's"),
        "access_key_id": Parameter(
            "The access key; without it, those of the controller's environment or role"
        ),
        "secret_access_key": Parameter("The access key's secret", secret=True),
        "session_token": Parameter("Of temporary credentials", secret=True),
        "action": Parameter("stop, or terminate: then the node never comes back; stop"),
    }

    def problems(self, order: Order) -> list[str]:
        """See `Mechanism`."""
        given = parameters.given(order)
        found = parameters.problems(self.parameters, order)
        if given.get("action", "stop") not in ("stop", "terminate"):
            found.append(f"action is {given['action']!r}: stop or terminate")
        if ("access_key_id" in given) != ("secret_access_key" in given):
            found.append("access_key_id and secret_access_key go together")
        if not given.get("endpoint", "https://").startswith(("https://", "http://")):
            found.append("endpoint is no URL")
        try:
            instance = instances.instance_of(order.target)
            if not given.get("region") and not instance.region:
                found.append(f"region is missing: the zone of {order.target.provider_id} does not tell it")
        except BadTarget as error:
            found.append(str(error))
        return found

    async def look(self, order: Order) -> Look:
        """See `Mechanism`."""
        if wrong := self.problems(order):
            return Look(State.UNKNOWN, "BadParameter", "; ".join(wrong))
        return (await _Session(order).look())[0]

    async def fence(self, order: Order) -> Answer:
        """See `Mechanism`."""
        if wrong := self.problems(order):
            return Answer(Outcome.NOT_FENCED, "BadParameter", "; ".join(wrong))
        return await _Session(order).shut()

    async def unfence(self, order: Order) -> Answer:
        """See `Mechanism`."""
        if wrong := self.problems(order):
            return Answer(Outcome.UNKNOWN, "BadParameter", "; ".join(wrong))
        return await _Session(order).open()


def mechanism() -> Mechanism:
    """For the registry."""
    return Ec2()


class _Session:
    """One call for one order."""

    def __init__(self, order: Order) -> None:
        self._given = parameters.given(order)
        self._secrets = list(order.secrets.values())
        self._instance = instances.instance_of(order.target)
        self._deadline = Deadline(order.deadline)
        self._session = Session()

    async def look(self) -> tuple[Look, Described | None]:
        """What EC2 says; and the description itself."""
        try:
            answer = await self._call("describe_instances", InstanceIds=[self._instance.id])
        except ClientError as error:
            gone = _code(error) == "InvalidInstanceID.NotFound"
            return Look(State.UNKNOWN, "NotFound" if gone else "Failed", self._clean(error)), None
        except (BotoCoreError, TimeoutError) as error:
            return Look(State.UNKNOWN, "Silent", self._clean(error)), None
        found = instances.described(answer, self._instance.id)
        state, code = instances.judged(self._instance, found)
        if found is None:
            return Look(state, code, f"EC2 does not know {self._instance.id}"), None
        facts = {
            "instance": found.id,
            "launched": found.launched.isoformat() if found.launched else "",
            "instanceState": found.state,
        }
        return Look(state, code, f"{found.id} is {found.state}, launched {facts['launched']}", facts), found

    async def shut(self) -> Answer:
        if self._instance.launched is None:
            message = (
                f"nothing was ordered: when {self._instance.id} was launched is not known, so that its next boot could "
                "be taken for this one. It is noted while the node is ready"
            )
            return Answer(Outcome.NOT_FENCED, "LaunchUnknown", message)
        before, found = await self.look()
        if found is None:
            return Answer(Outcome.UNKNOWN, before.code, f"nothing was ordered: {before.message}")
        if before.code == "AnotherLaunch":
            known = self._instance.launched.isoformat()
            message = f"nothing was done: {before.message}, but the target was launched {known}"
            return Answer(Outcome.NOT_FENCED, "WrongTarget", message, before=before.state)
        terminate = self._given.get("action") == "terminate"
        if terminate and found.lost:
            message = f"nothing was done: {', '.join(found.lost)} would be deleted with {found.id}"
            return Answer(Outcome.NOT_FENCED, "DataVolumeWouldGo", message, before=before.state)
        if terminate:
            return await self._until("terminate_instances", {}, State.SHUT, before.state)
        return await self._until("stop_instances", {"Force": True}, State.SHUT, before.state)

    async def open(self) -> Answer:
        """Starts it; its launch is another one then."""
        before, found = await self.look()
        if found is None:
            return Answer(Outcome.UNKNOWN, before.code, before.message)
        said = ""
        while found is None or found.state != "running":
            try:
                await self._call("start_instances", InstanceIds=[self._instance.id])
            except ClientError as error:
                said = f": {self._clean(error)}"
                if not (_code(error) in BUSY or _may_have_happened(error)):
                    return Answer(Outcome.UNKNOWN, "Refused", self._clean(error))
            except (BotoCoreError, TimeoutError):
                pass  # the next look tells
            if not await self._deadline.pause(PAUSE_S):
                return Answer(Outcome.UNKNOWN, "NotStarted", f"it is not running yet{said}")
            _, found = await self.look()
        return Answer(Outcome.UNFENCED, "Running", f"{found.id} is running", {"readAt": moment()})

    async def _until(self, action: str, more: dict[str, Any], wanted: State, before: State) -> Answer:
        """Orders it until EC2 has answered, and looks until it shows. What is refused after an order that was
        not answered says nothing of that one."""
        ordered, answered, what, unanswered = moment(), "", "EC2 did not answer the order", False
        look = Look(State.UNKNOWN, "NotOrdered", "")
        while True:
            try:
                if not answered:
                    await self._call(action, InstanceIds=[self._instance.id], **more)
                    answered, what = moment(), f"{action} was answered"
            except ClientError as error:
                what = self._clean(error)
                unanswered = unanswered or _may_have_happened(error)
                if not (_code(error) in BUSY or _may_have_happened(error)):
                    outcome = Outcome.UNKNOWN if unanswered else Outcome.NOT_FENCED
                    return Answer(outcome, "Refused", what, before=before)
            except (BotoCoreError, TimeoutError) as error:
                what, unanswered = self._clean(error), True
            if answered:
                look, _ = await self.look()
                if look.state is wanted:
                    times = {"orderedAt": ordered, "answeredAt": answered, "readAt": moment()}
                    facts = {"source": "ec2", "order": action, **times, **look.identity}
                    return Answer(Outcome.FENCED, look.code, look.message, facts, before)
            if not await self._deadline.pause(PAUSE_S):
                return Answer(Outcome.UNKNOWN, look.code, f"{what}; then {look.message}", before=before)

    async def _call(self, action: str, **request: Any) -> Mapping[str, Any]:
        return await asyncio.to_thread(self._blocking, action, request)

    def _blocking(self, action: str, request: dict[str, Any]) -> Mapping[str, Any]:
        left = self._deadline.left()
        if left <= 0:
            raise TimeoutError("the deadline has passed")
        # A connection and an answer each wait so long at most, so together not longer than what is left.
        client = self._made(min(CALL_S, left / 2))
        try:
            return getattr(client, action)(**request)
        finally:
            client.close()

    def _made(self, seconds: float) -> Any:
        return self._session.create_client(
            "ec2",
            region_name=self._given.get("region") or self._instance.region,
            endpoint_url=self._given.get("endpoint") or None,
            aws_access_key_id=self._given.get("access_key_id"),
            aws_secret_access_key=self._given.get("secret_access_key"),
            aws_session_token=self._given.get("session_token"),
            config=Config(
                connect_timeout=seconds,
                read_timeout=seconds,
                retries={"total_max_attempts": 1, "mode": "standard"},
            ),
        )

    def _clean(self, error: Exception) -> str:
        return parameters.without_secrets(f"EC2: {error}", self._secrets)[:500]


def _code(error: ClientError) -> str:
    return str(error.response.get("Error", {}).get("Code", ""))


def _may_have_happened(error: ClientError) -> bool:
    """Whether EC2 itself failed (HTTP 5xx), which says nothing of what it has done."""
    status = error.response.get("ResponseMetadata", {}).get("HTTPStatusCode", 0)
    return _code(error) not in BUSY and status >= 500
