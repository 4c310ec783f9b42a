"""Which volume is made for a CreateVolume request, by docs/ebs.md ("Parameters", "Tags"), the EBS User Guide
("Amazon EBS volume types"), EC2's API reference (CreateVolume) and CSI's specification.

Of a request that is refused without a reason nothing is said here: its claim would stay unbound.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from mooring.csi.proto import csi_pb2 as csi
from mooring.ebs.controller_service import controller, provisioning
from mooring.ebs.controller_service.provisioning import Provisioner
from mooring.ebs.controller_service.tags import TagPolicy
from mooring.ebs.controller_service.volume_requests import Wanted
from mooring.ebs.ec2.records import Snapshot, Volume
from mooring.ebs.topology import Place
from mooring.simulation.checks.second_opinions import near_ebs
from mooring.simulation.checks.second_opinions.ebs_descriptions import NAMED
from mooring.simulation.checks.second_opinions.ebs_settling import CHANGES
from mooring.simulation.checks.second_opinions.memories import now
from mooring.simulation.checks.second_opinions.question import Question

GIB = 1 << 30
SIZES = {
    "gp2": (1, 16384), "gp3": (1, 65536), "io1": (4, 16384), "io2": (4, 65536), "st1": (125, 16384),
    "sc1": (125, 16384), "standard": (1, 1024),
}  # fmt: skip
"""GiB."""
IOPS = {"gp3": (3000, 80000, 500), "io1": (100, 64000, 50), "io2": (100, 256000, 1000)}
"""Of types whose IOPS can be chosen: the least, the most, and for each GiB at most."""
ZONE_KEYS = ("topology.kubernetes.io/zone", "topology.ebs.csi.aws.com/zone")
CLAIM_TAGS = ("pvc/name", "pvc/namespace", "pv/name")
OF_A_FORMAT = {
    "blocksize", "inodesize", "bytesperinode", "numberofinodes", "ext4bigalloc", "ext4clustersize",
    "ext4encryptionsupport", "blockattachuntilinitialized",
}  # fmt: skip
TAG = "tagSpecification"
SWITCHES = {"ext4bigalloc", "ext4encryptionsupport", "blockattachuntilinitialized"}


class _Asked:
    """What a request asks for; the parameters of its VolumeAttributesClass go before those of its class."""

    def __init__(self, request: csi.CreateVolumeRequest) -> None:
        given = {
            key.lower(): value for key, value in request.parameters.items() if key[:16] != "tagSpecification"
        }
        mutable = dict(request.mutable_parameters)
        self._given = given | mutable
        self.type = mutable.get("type") or mutable.get("volumeType") or given.get("type") or "gp3"
        texts = (
            value for each in (request.parameters, request.mutable_parameters)
            for key, value in sorted(each.items()) if key.startswith("tagSpecification")
        )  # fmt: skip
        self.tags = {key: value for key, _, value in (text.partition("=") for text in texts)}

    def text(self, key: str) -> str:
        return self._given.get(key, "")

    def number(self, key: str) -> int:
        return int(self.text(key) or 0)

    def flag(self, key: str) -> bool:
        return self.text(key) == "true"

    @property
    def per_gib(self) -> int:
        return 0 if self.number("iops") else self.number("iopspergb")

    @property
    def format(self) -> dict[str, str]:
        """What a node must know of the file system that it makes."""
        named = {key: value for key, value in self._given.items() if key in OF_A_FORMAT}
        return {key: value for key, value in named.items() if key not in SWITCHES or value == "true"}


NUMBERS = {"iops", "iopspergb", "throughput", "volumeinitializationrate"}
FOR_EXT4 = {"ext4bigalloc", "ext4clustersize", "ext4encryptionsupport"}
OF_A_CLASS = NUMBERS | OF_A_FORMAT | {
    "type", "allowautoiopspergbincrease", "allowautoiopsincreaseonmodify", "encrypted", "kmskeyid", "fstype",
    "csi.storage.k8s.io/fstype", "blockexpress", *(f"csi.storage.k8s.io/{each}" for each in CLAIM_TAGS),
}  # fmt: skip
OF_ATTRIBUTES = {"type", "volumeType", "iops", "throughput"}
FILE_SYSTEMS = {"ext2", "ext3", "ext4", "xfs"}


def mistakes(request: csi.CreateVolumeRequest) -> Iterator[str]:
    """What has to be refused: a typing error must not become a volume of another kind."""
    asked, mutable = _Asked(request), request.mutable_parameters
    given = {key.lower(): text for key, text in request.parameters.items() if not key.startswith(TAG)}
    of_attributes = {key for key in mutable if not key.startswith(TAG)}
    yield from sorted({*given} - OF_A_CLASS)
    yield from sorted(of_attributes - OF_ATTRIBUTES)
    yield from (key for key in sorted(NUMBERS) if asked.text(key) and not asked.text(key).isdecimal())
    if given.get("iops") and given.get("iopspergb") and "iops" not in mutable:
        yield "iops and iopsPerGB"
    kinds = {each.mount.fs_type or "ext4" for each in request.volume_capabilities if each.HasField("mount")}
    yield from sorted(kinds - FILE_SYSTEMS)
    yield from sorted(FOR_EXT4 & asked.format.keys() if kinds - {"ext4"} else ())


def of_what_is_wanted(
    answer: Wanted, request: csi.CreateVolumeRequest, policy: TagPolicy, source: Snapshot | Volume | None
) -> Iterator[str]:
    if wrong := [*mistakes(request)]:
        yield f"{request.name} is made, though its classes have mistakes: {', '.join(wrong)}"
        return
    asked = _Asked(request)
    expected = {
        "name": request.name,
        "multi_attach": any(each.access_mode.mode == 5 for each in request.volume_capabilities),
        "snapshot": source.id if isinstance(source, Snapshot) else "",
        "source_volume": source.id if isinstance(source, Volume) else "",
        "context": asked.format,
        "iops": asked.number("iops") or _in_proportion(asked, answer.size),
        "places": _places(request.accessibility_requirements),
    }
    yield from _unlike(answer, expected, request.name)
    parameters = {
        "type": asked.type,
        "iops": asked.number("iops"),
        "throughput": asked.number("throughput"),
        "initialization_rate": asked.number("volumeinitializationrate"),
        "kms_key_id": asked.text("kmskeyid"),
        "encrypted": asked.flag("encrypted") or asked.text("kmskeyid") != "",
        "wait_initialized": asked.flag("blockattachuntilinitialized"),
    }
    yield from _unlike(answer.parameters, parameters, request.name)
    yield from _of_size(answer.size, request, asked.type, source.size if source else 0)
    yield from _of_tags(answer.tags, request.name, asked, policy)


def _unlike(record: Any, expected: Mapping[str, Any], name: str) -> Iterator[str]:
    for field, value in expected.items():
        if getattr(record, field) != value:
            yield f"{name}: {field} is {getattr(record, field)!r}, and {value!r} is asked for"


def _of_size(size: int, request: csi.CreateVolumeRequest, kind: str, of_source: int) -> Iterator[str]:
    """Whole GiB, no fewer than are asked for, than the type has and than the source has, and no more than
    these; 100 if nothing says how many; within the limit."""
    smallest, largest = SIZES.get(kind, (1, 65536))
    wanted, limit = request.capacity_range.required_bytes, request.capacity_range.limit_bytes
    otherwise = 0 if wanted or limit or of_source else 100
    enough = (size * GIB >= wanted, size >= smallest, size >= of_source, size >= otherwise)
    less = size - 1
    still = (less * GIB >= wanted, less >= smallest, less >= of_source, less >= otherwise)
    if not all(enough) or all(still) or size > largest or 0 < limit < size * GIB:
        yield f"{request.name}: {size} GiB of type {kind} are to do for {wanted} to {limit or 'any'} bytes"


def _in_proportion(asked: _Asked, size: int) -> int:
    """So many for each GiB, within what the type can have; none where they cannot be chosen."""
    if not asked.per_gib or asked.type not in IOPS:
        return 0
    least, most, for_each = IOPS[asked.type]
    return sorted((least, asked.per_gib * size, max(least, min(most, for_each * size))))[1]


def _places(wanted: csi.TopologyRequirement) -> list[Place]:
    """The preferred zones in their order, then the others; each once."""
    found: list[Place] = []
    for each in (*wanted.preferred, *wanted.requisite):
        names = [each.segments[key] for key in ZONE_KEYS if each.segments.get(key)]
        place = Place(names[0] if names else "", each.segments.get("topology.k8s.aws/zone-id", ""))
        if place not in found and place != Place():
            found.append(place)
    return found


def _of_tags(tags: Mapping[str, str], name: str, asked: _Asked, policy: TagPolicy) -> Iterator[str]:
    """The driver's, the operator's and the class's; the later of them count."""
    cluster = policy.cluster_id
    expected = {"CSIVolumeName": name, "ebs.csi.aws.com/cluster": "true"}
    for each in CLAIM_TAGS:
        if value := asked.text(f"csi.storage.k8s.io/{each}"):
            expected[f"kubernetes.io/created-for/{each}"] = value
    if asked.per_gib:
        expected["ebs.csi.aws.com/IOPSPerGb"] = str(asked.per_gib)
    if asked.flag("allowautoiopsincreaseonmodify"):
        expected["ebs.csi.aws.com/AllowAutoIOPSIncreaseOnModify"] = "true"
    if cluster:
        expected |= {
            f"kubernetes.io/cluster/{cluster}": "owned",
            "Name": f"{cluster}-dynamic-{name}",
            "KubernetesCluster": cluster,
            "ebs.csi.aws.com/cluster-name": cluster,
        }
    expected = {key: value[:256] for key, value in expected.items()} | dict(policy.volumes) | asked.tags
    if not policy.warn_on_invalid and dict(tags) != expected:
        other = sorted(key for key in tags.keys() | expected.keys() if tags.get(key) != expected.get(key))
        yield f"{name}: of the tags {', '.join(other)} are others than are asked for"


def of_the_request(
    answer: tuple[str, Mapping[str, Any]], provisioner: Provisioner, wanted: Wanted
) -> Iterator[str]:
    """EC2 is asked for what is wanted, in its own words; what is not wanted is not named. Its tags are part
    of the call that makes it."""
    action, asked = answer
    parameters, place = wanted.parameters, wanted.places[0] if wanted.places else None
    named = {each["Key"]: each["Value"] for one in asked["TagSpecifications"] for each in one["Tags"]}
    expected: dict[str, Any] = {
        "Size": wanted.size, "VolumeType": parameters.type, "Iops": wanted.iops,
        "Throughput": parameters.throughput, "Encrypted": parameters.encrypted, "KmsKeyId": parameters.kms_key_id,
        "MultiAttachEnabled": wanted.multi_attach,
    }  # fmt: skip
    if wanted.source_volume:
        expected["SourceVolumeId"] = wanted.source_volume
    else:
        expected |= {
            "SnapshotId": wanted.snapshot, "VolumeInitializationRate": parameters.initialization_rate,
            "AvailabilityZone": place.zone if place else asked.get("AvailabilityZone"),
            "AvailabilityZoneId": place.zone_id if place and not place.zone else "",
        }  # fmt: skip
    expected = {key: value for key, value in expected.items() if value}
    if {key: asked[key] for key in asked if key != "TagSpecifications"} != expected or named != wanted.tags:
        yield f"{wanted.name}: {expected} is wanted, and {dict(asked)} is asked for"
    if action != ("CopyVolumes" if wanted.source_volume else "CreateVolume"):
        yield f"{wanted.name}: {action} is to make it"


def of_a_conflict(answer: str, volume: Volume, wanted: Wanted) -> Iterator[str]:
    """A volume is the one that is wanted if it has all that was asked for, and is where it may be."""
    parameters, size, limit = wanted.parameters, volume.size * GIB, wanted.capacity.limit_bytes
    zones = [place for place in _places(_binding(wanted.topology)) if _may_be(place, volume)]
    fits = (
        wanted.capacity.required_bytes <= size and (limit == 0 or size <= limit),
        bool(zones) or not _places(_binding(wanted.topology)),
        volume.type == parameters.type,
        parameters.iops in (0, volume.iops),
        parameters.throughput in (0, volume.throughput),
        volume.encrypted or not parameters.encrypted,
        _is_key(volume.kms_key_id, parameters.kms_key_id),
        (volume.snapshot_id, volume.source_id) == (wanted.snapshot, wanted.source_volume),
        volume.multi_attach is wanted.multi_attach,
    )
    if all(fits) is not (answer == ""):
        yield f"{volume.id} for {wanted.name}: {answer or 'nothing'} is said to be in the way; it {fits}"


def _binding(topology: csi.TopologyRequirement) -> csi.TopologyRequirement:
    """What is only preferred binds nothing, if something is required."""
    return csi.TopologyRequirement(requisite=topology.requisite or topology.preferred)


def _may_be(place: Place, volume: Volume) -> bool:
    return place.zone in ("", volume.zone) and (
        "" in (place.zone_id, volume.zone_id) or place.zone_id == volume.zone_id
    )


def _is_key(shown: str, requested: str) -> bool:
    """A key is given by its ARN, its id, or an alias, which EC2 alone can resolve."""
    return not requested or "alias/" in requested or shown.rpartition("/")[2] == requested.rpartition("/")[2]


def of_what_is_created(answer: Volume, provisioner: Provisioner, wanted: Wanted) -> Iterator[str]:
    """A volume that can be used, as EC2 shows it, of that name."""
    if answer.state not in ("available", "in-use") or answer.tags.get("CSIVolumeName") != wanted.name:
        yield f"{wanted.name} is answered with {answer.id}, which is {answer.state}"


def before_a_look_up(provisioner: Any, name: str) -> None:
    """What was shown before is none of it."""
    NAMED.of(provisioner._describe).pop(name, None)


def of_a_look_up(answer: Volume | None, before: None, provisioner: Any, name: str) -> Iterator[str]:
    """EC2 is asked. What is deleted is not found any more; what EC2 shows otherwise is."""
    if answer is not None and (answer.name != name or answer.state in ("deleting", "deleted")):
        yield f"for {name} {answer.id} is found, which is {answer.state}"
    shown = NAMED.of(provisioner._describe).get(name)
    if shown is None:
        yield f"for {name} {answer} is found, and EC2 was not asked"
    for each in shown or () if answer is None else ():
        known = CHANGES.of_this_process()
        recent = known.noted.get(f"delete {each.id}", float("-inf")) + known.settle_s > now()
        if each.state in ("creating", "available", "in-use", "error") and not recent:
            yield f"for {name} nothing is found, and EC2 shows {each.id}, which is {each.state}"


def of_a_message(
    answer: csi.Volume, volume: Volume, context: Mapping[str, str] | None = None
) -> Iterator[str]:
    """CSI's words for it: its bytes, and the zone from which alone it can be reached."""
    segments = [dict(each.segments) for each in answer.accessible_topology]
    if answer.volume_id != volume.id or answer.capacity_bytes != volume.size * GIB:
        yield f"{volume.id} of {volume.size} GiB is told as {answer.volume_id} of {answer.capacity_bytes} bytes"
    if segments != [{ZONE_KEYS[0]: volume.zone}] or dict(answer.volume_context) != dict(context or {}):
        yield f"{volume.id} in {volume.zone} is told as in {segments}, with {dict(answer.volume_context)}"


def of_an_entry(answer: csi.ListVolumesResponse.Entry, volume: Volume) -> Iterator[str]:
    """All instances where it is, whatever the state of its attachment there."""
    nodes = {each.instance_id for each in volume.attachments} - {""}
    if {*answer.status.published_node_ids} != nodes or answer.volume.volume_id != volume.id:
        yield f"{volume.id} on {sorted(nodes)} is listed as {answer.volume.volume_id} on {answer.status}"


QUESTIONS = (
    Question(controller, "wanted_volume", of_what_is_wanted),
    Question(controller, "volume_message", of_a_message),
    Question(controller, "entry", of_an_entry),
    Question(Provisioner, "_request", of_the_request),
    Question(Provisioner, "_lookup", of_a_look_up, before=before_a_look_up),
    Question(Provisioner, "create", of_what_is_created),
    Question(provisioning, "conflict", of_a_conflict, near=near_ebs.OF_A_CONFLICT),
)
