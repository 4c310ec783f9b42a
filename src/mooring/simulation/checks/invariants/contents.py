"""The invariant of volumes that show content of the API: ConfigMaps, Secrets, fields of the pod, and tokens.

Written from Kubernetes' documentation of these volumes ("Mounted ConfigMaps are updated automatically", "The
kubelet proactively rotates the token"), and judged by what pods see: the files, as read after each write.
"""

from __future__ import annotations

import base64
import json
import math
from collections.abc import Iterator, Mapping, Sequence
from itertools import pairwise
from typing import Any, NamedTuple

import msgspec

from mooring.apiserver.access.account_claims import ISSUER
from mooring.simulation.checks.faults import Faults
from mooring.simulation.checks.invariants.checker import Checker, Found
from mooring.simulation.checks.invariants.objects import (
    CONFIG_MAPS,
    SECRETS,
    Items,
    ObjectKey,
    PodVolume,
    StoredObject,
    TokenSource,
    decode,
    object_of,
)
from mooring.simulation.engine.trace import Event, Trace

SHOWS_IN_S = 10.0
"""A watch that tells, and reads: each a fraction of a second. The rest is for reads that are tried again."""
LOOKS_S = 5.0
"""How often is looked at what pods see."""
OLDEST, YOUNGEST = 0.9, 0.8
"""Of a token's life: no pod has an older one, and one is kept for as long as this."""
_PODS = "pods"
_FOLLOWED = (CONFIG_MAPS, SECRETS, _PODS)

Files = Mapping[str, str]


class _Data(msgspec.Struct):
    data: dict[str, str] = {}


_data = msgspec.json.Decoder(_Data).decode


class _Edition(NamedTuple):
    """What an object says from a moment on: its keys, of a pod its maps; None: there is none."""

    since: float
    says: Files | None


class Source(NamedTuple):
    """A part of a volume, and what it is of. `paths`: each with its key; none: each key is a file."""

    of: ObjectKey
    paths: tuple[tuple[str, str], ...]

    def files(self, said: Files) -> Files:
        """What a pod sees of it."""
        return {path: said.get(key, "") for path, key in self.paths} if self.paths else said

    def seen(self, shown: Files) -> Files:
        """Its part of what a pod sees."""
        return {path: shown[path] for path, _ in self.paths if path in shown} if self.paths else shown


class _Shown(NamedTuple):
    """What one volume of a pod shows. `editions`: of each source the first that it can be; `tokens`: by their
    paths."""

    node: str
    life: int
    files: Files
    editions: Mapping[Source, int]
    tokens: Mapping[str, Any]


class ShowsWhatIsSo(Checker):
    """S46: a volume of a pod shows what its ConfigMap, its Secret or the pod's labels and annotations say,
    all files of one edition; it follows a change within ten seconds, never shows an older edition after a
    newer one, and stays while a process of the pod runs; a token that it shows is the pod's, as it
    asks for it, and renewed before nine tenths of its life are over, and not before eight tenths are."""

    name = "S46"

    def __init__(self, trace: Trace, found: Found) -> None:
        super().__init__(trace, found)
        self._faults = Faults.of(trace)
        self._editions: dict[ObjectKey, list[_Edition]] = {}
        self._pods: dict[str, tuple[str, StoredObject]] = {}  # uid -> "namespace/name", and the pod
        self._shown: dict[tuple[str, str], _Shown] = {}  # uid and volume
        self._running: dict[str, int] = {}  # uid -> processes
        self._next = 0.0
        trace.listen("store.written", self._written)
        trace.listen("store.deleted", self._deleted)
        trace.listen("truth.shown", self._show)
        trace.listen("truth.hidden", self._hide)
        trace.listen("truth.started", lambda event: self._count(event, 1))
        trace.listen("truth.ended", lambda event: self._count(event, -1))

    # --- what is so

    def _written(self, event: Event) -> None:
        if event.time >= self._next:
            self._look(event)
        resource, name = event.fields["resource"], event.fields["name"]
        if resource not in _FOLLOWED:
            return
        if resource == _PODS:
            pod = object_of(event)
            if not any(each.projections for each in pod.spec.volumes):
                return
            self._pods[pod.metadata.uid] = name, pod
        self._say(event, says(resource, event.fields["_body"]))

    def _deleted(self, event: Event) -> None:
        if event.fields["resource"] in _FOLLOWED and self._key(event) in self._editions:
            self._say(event, None)
        if event.fields["resource"] == _PODS:
            uid = object_of(event).metadata.uid
            self._pods.pop(uid, None)
            self._shown = {key: shown for key, shown in self._shown.items() if key[0] != uid}

    @staticmethod
    def _key(event: Event) -> ObjectKey:
        return event.fields["resource"], event.fields["name"]

    def _say(self, event: Event, said: Files | None) -> None:
        editions = self._editions.setdefault(self._key(event), [])
        if not editions or editions[-1].says != said:
            self._look(event)  # now: what is said again looks as if it had been so all the time
            editions.append(_Edition(event.time, said))

    # --- what is shown

    def _count(self, event: Event, number: int) -> None:
        uid = event.fields["uid"]
        self._running[uid] = self._running.get(uid, 0) + number

    def _hide(self, event: Event) -> None:
        uid, volume = event.fields["uid"], event.fields["volume"]
        self.guarded += 1
        self._shown.pop((uid, volume), None)
        if self._running.get(uid, 0) > 0:
            self.wrong(f"{volume} is taken from pod {uid}, of which a process runs", event)

    def _show(self, event: Event) -> None:
        uid, volume, files = event.fields["uid"], event.fields["volume"], event.fields["_files"]
        if uid not in self._pods:
            return
        self.guarded += 1
        name, pod = self._pods[uid]
        what, before = f"{volume} of pod {name}", self._shown.get((uid, volume))
        described = next(each for each in pod.spec.volumes if each.name == volume)
        known = {path: text for path, text in files.items() if isinstance(text, str)}
        editions = {
            each: self._judge_edition(what, each, known, before.editions[each] if before else 0, event)
            for each in sources(name, described)
        }
        node, life = event.fields["node"], event.fields["life"]
        tokens = {each.path: files.get(each.path) for each in _tokens(described)}
        for asked in _tokens(described):
            if not _is_as_asked(tokens[asked.path], asked, uid):
                self.wrong(f"{what} has no token as it asks for: {asked}, {tokens[asked.path]}", event)
            elif before is not None and before.life == life:
                self._judge_renewal(what, node, before.tokens[asked.path], tokens[asked.path], event)
        self._shown[uid, volume] = _Shown(node, life, known, editions, tokens)

    def _judge_edition(self, what: str, source: Source, files: Files, least: int, event: Event) -> int:
        """The first edition that the files can be, and none before the least one that was shown. One that was
        over when its agent must have followed is none that it has read since, but for faults."""
        can_be = self._can_be(source, files)
        if can_be[-1] < 0:
            self.wrong(f"{what} shows {source.seen(files)}, which {source.of[1]} has never said", event)
        elif can_be[-1] < least:
            self.wrong(f"{what} goes back to what {source.of[1]} said before", event)
        since, editions = event.time - SHOWS_IN_S, self._editions.get(source.of, [])
        late = self._faults.disturbed((event.fields["node"],), since)
        read = (at for at in can_be[:-1] if at >= least and (late or editions[at + 1].since >= since))
        return next(read, can_be[-1])

    def _can_be(self, source: Source, files: Files) -> list[int]:
        """The editions that the files can be: several, if an object says again what it said before, as a pod
        does whose label is taken away, and comes back; -1: none."""
        said, seen = [each.says for each in self._editions.get(source.of, [])], source.seen(files)
        found = (at for at, says in enumerate(said) if says is not None and source.files(says) == seen)
        return [*found] or [-1]

    def _judge_renewal(self, what: str, node: str, former: Any, token: Any, event: Event) -> None:
        if former is None or former.identity == token.identity or self._faults.skew(node, former.since):
            return
        age = (event.time - former.since) / (former.until - former.since)
        if age < YOUNGEST - 0.01:
            self.wrong(f"{what} has another token when {age:.2f} of the life of one is over", event)

    # --- what should be shown

    def _look(self, event: Event) -> None:
        self._next = event.time + LOOKS_S
        for (uid, volume), shown in [*self._shown.items()]:
            name, pod = self._pods[uid]
            if pod.going or pod.ended or self._running.get(uid, 0) < 1:
                continue
            explained = self._faults.disturbed_until((shown.node,))
            age = event.time - max(self._outdated_since(shown), explained)
            if age > SHOWS_IN_S:
                del self._shown[uid, volume]
                self.wrong(f"{volume} of pod {name} has shown what is not so any more for {age:.0f} s", event)

    def _outdated_since(self, shown: _Shown) -> float:
        """Since when it should show something else; infinite: it need not."""
        self.guarded += 1
        since, there = math.inf, -math.inf
        for source in shown.editions:
            editions, shows = self._editions[source.of], self._can_be(source, shown.files)[-1]
            if editions[-1].says is None:
                return math.inf  # it cannot be written without
            there = max(there, _there_since(editions))
            changed = (each.since for each in editions[shows + 1 :] if each.says is not None)
            since = min(since, next(changed, math.inf)) if shows >= 0 else since
        for token in shown.tokens.values():
            if token is not None and not self._faults.skew(shown.node, token.since):
                since = min(since, token.since + OLDEST * (token.until - token.since))
        return max(since, there)


def _there_since(editions: Sequence[_Edition]) -> float:
    """Since when an object is there again that was away."""
    found = -math.inf
    for before, after in pairwise(editions):
        found = after.since if before.says is None else found
    return found


def sources(pod: str, volume: PodVolume) -> Iterator[Source]:
    """What the volume shows, but for tokens. `pod`: its "namespace/name"."""
    namespace = pod.partition("/")[0]
    for each in volume.projections:
        for resource, items in ((CONFIG_MAPS, each.config_map), (SECRETS, each.secret)):
            if items is not None:
                yield Source((resource, f"{namespace}/{items.name}"), _paths(items))
        if each.downward_api is not None:
            yield Source((_PODS, pod), _paths(each.downward_api))


def _paths(items: Items) -> tuple[tuple[str, str], ...]:
    return tuple((each.path, each.key or each.field_ref.field_path) for each in items.items)


def _tokens(volume: PodVolume) -> list[TokenSource]:
    asked = (each.service_account_token for each in volume.projections)
    return [each for each in asked if each is not None]


def _is_as_asked(token: Any, asked: TokenSource, uid: str) -> bool:
    """Whether it is the pod's, for whom the pod says (or for the API server), and for as long."""
    if token is None or (token.pod_uid, token.until - token.since) != (uid, asked.expiration_seconds):
        return False
    return token.audiences == (asked.audience or ISSUER,)


def _lines(values: Mapping[str, str]) -> str:
    """Labels or annotations, as the downward API shows them: one to a line, escaped, sorted."""
    return "\n".join(
        f"{key}={json.dumps(value, ensure_ascii=False)}" for key, value in sorted(values.items())
    )


def says(resource: str, body: bytes) -> Files:
    """What a stored ConfigMap, Secret or pod says: its keys, or its fields."""
    if resource == _PODS:
        about = decode(body).metadata
        fields = {"metadata.labels": about.labels, "metadata.annotations": about.annotations}
        return {field: _lines(values) for field, values in fields.items()}
    data = _data(body).data
    if resource == SECRETS:
        return {key: base64.b64decode(text).decode() for key, text in data.items()}
    return data
