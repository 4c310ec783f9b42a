"""Volumes, claims, classes and attachments: defaults, validation, immutability, what admission adds."""

from __future__ import annotations

import pytest

CLAIMS = "/api/v1/namespaces/default/persistentvolumeclaims"
VOLUMES = "/api/v1/persistentvolumes"
CLASSES = "/apis/storage.k8s.io/v1/storageclasses"
ATTACHMENTS = "/apis/storage.k8s.io/v1/volumeattachments"
CSINODES = "/apis/storage.k8s.io/v1/csinodes"
STATEFULSETS = "/apis/apps/v1/namespaces/default/statefulsets"


async def storage_class(api, name, default=False, **more):
    annotations = {"storageclass.kubernetes.io/is-default-class": "true"} if default else {}
    body = {"metadata": {"name": name, "annotations": annotations}, "provisioner": "d", **more}
    return await api.create(CLASSES, body)


def test_a_claim_begins_pending_and_protected(serve):
    async def story(api):
        sent = api.new_claim() | {"status": {"phase": "Bound"}}
        made = await api.create(CLAIMS, sent)
        assert made["status"] == {"phase": "Pending"}
        assert made["spec"]["volumeMode"] == "Filesystem"
        assert made["metadata"]["finalizers"] == ["kubernetes.io/pvc-protection"]

    serve(story)


OF_SNAPSHOT = {"apiGroup": "snapshot.storage.k8s.io", "kind": "VolumeSnapshot", "name": "s"}


@pytest.mark.parametrize("given", ["dataSource", "dataSourceRef"])
def test_a_claims_data_source_is_said_by_both_names(serve, given):
    """KEP-1495: who looks at one of them only must not make an empty volume."""

    async def story(api):
        claim = api.new_claim()
        claim["spec"][given] = OF_SNAPSHOT
        made = await api.create(CLAIMS, claim)
        assert made["spec"]["dataSource"] == made["spec"]["dataSourceRef"] == OF_SNAPSHOT
        del made["spec"][given]
        path = f"{CLAIMS}/{made['metadata']['name']}"
        again = await api.replace(path, made)
        assert again["spec"][given] == OF_SNAPSHOT, "an older client may know one name only"

    serve(story)


def test_a_data_source_in_another_namespace_has_one_name(serve):
    async def story(api):
        claim = api.new_claim()
        claim["spec"]["dataSourceRef"] = OF_SNAPSHOT | {"namespace": "other"}
        made = await api.create(CLAIMS, claim)
        assert "dataSource" not in made["spec"], "it cannot name a namespace, so it would mean another source"

    serve(story)


def test_a_volume_begins_pending_and_protected(serve):
    async def story(api):
        made = await api.create(VOLUMES, api.new_volume())
        assert made["status"] == {"phase": "Pending", "lastPhaseTransitionTime": "2030-01-01T00:00:00Z"}
        assert made["spec"]["persistentVolumeReclaimPolicy"] == "Retain"
        assert made["spec"]["volumeMode"] == "Filesystem"
        assert made["metadata"]["finalizers"] == ["kubernetes.io/pv-protection"]

    serve(story)


def test_a_claim_without_a_class_gets_the_default_one(serve):
    async def story(api):
        made = await api.create(CLAIMS, api.new_claim("early"))
        assert "storageClassName" not in made["spec"]
        await storage_class(api, "slow")
        await storage_class(api, "fast", default=True)
        assert (await api.create(CLAIMS, api.new_claim("a")))["spec"]["storageClassName"] == "fast"
        made = await api.create(CLAIMS, api.new_claim("b", storageClassName=""))
        assert made["spec"]["storageClassName"] == "", "an empty class means no class"
        made = await api.create(CLAIMS, api.new_claim("c", storageClassName="slow"))
        assert made["spec"]["storageClassName"] == "slow"
        await api.patch(f"{CLAIMS}/early", {"spec": {"storageClassName": "fast"}})

    serve(story)


@pytest.mark.parametrize(
    ("spec", "message"),
    [
        ({"accessModes": []}, "spec.accessModes: Required value: at least 1 access mode is required"),
        ({"accessModes": ["Sometimes"]}, 'spec.accessModes: Unsupported value: "Sometimes"'),
        (
            {"accessModes": ["ReadWriteOncePod", "ReadWriteOnce"]},
            "may not use ReadWriteOncePod with other access modes",
        ),
        ({"volumeMode": "Tape"}, 'spec.volumeMode: Unsupported value: "Tape"'),
        ({"resources": {}}, "spec.resources[storage]: Required value"),
        ({"resources": {"requests": {"storage": "0"}}}, "must be greater than zero"),
    ],
)
def test_a_claim_that_asks_for_the_impossible_is_refused(serve, spec, message):
    async def story(api):
        refusal = await api.refused(422, api.create(CLAIMS, api.new_claim(**spec)))
        assert message in refusal.message

    serve(story)


@pytest.mark.parametrize(
    ("spec", "message"),
    [
        ({"csi": None}, "spec: Required value: must specify a volume type"),
        ({"hostPath": {"path": "/x"}}, "may not specify more than 1 volume type"),
        ({"csi": {"driver": "d"}}, "spec.csi.volumeHandle: Required value"),
        (
            {"csi": None, "local": {"path": "/x"}},
            "spec.nodeAffinity: Required value: Local volume requires node affinity",
        ),
        ({"capacity": {}}, "spec.capacity: Required value"),
        (
            {"persistentVolumeReclaimPolicy": "Burn"},
            'spec.persistentVolumeReclaimPolicy: Unsupported value: "Burn"',
        ),
    ],
)
def test_a_volume_that_makes_no_sense_is_refused(serve, spec, message):
    async def story(api):
        refusal = await api.refused(422, api.create(VOLUMES, api.new_volume(**spec)))
        assert message in refusal.message

    serve(story)


def test_a_bound_claim_grows_and_nothing_else(serve):
    async def story(api):
        await storage_class(api, "grows", allowVolumeExpansion=True)
        await api.create(CLAIMS, api.new_claim(size="2Gi", storageClassName="grows"))
        path, size = f"{CLAIMS}/data", {"resources": {"requests": {"storage": "3Gi"}}}
        await api.refused(422, api.patch(path, {"spec": size}))
        await api.patch(path, {"spec": {"volumeName": "pv"}})
        await api.patch(f"{path}/status", {"status": {"phase": "Bound", "capacity": {"storage": "2Gi"}}})
        await api.patch(path, {"spec": size})
        for change in (
            {"volumeName": "other"},
            {"accessModes": ["ReadOnlyMany"]},
            {"storageClassName": None, "volumeMode": "Block"},
        ):
            refusal = await api.refused(422, api.patch(path, {"spec": change}))
            assert "spec is immutable after creation except resources.requests" in refusal.message
        too_small = {"resources": {"requests": {"storage": "2Gi"}}}
        refusal = await api.refused(422, api.patch(path, {"spec": too_small}))
        assert "field can not be less than status.capacity" in refusal.message
        await api.patch(path, {"spec": {"resources": {"requests": {"storage": "2.5Gi"}}}})

    serve(story)


@pytest.mark.parametrize("allowed", [{"allowVolumeExpansion": False}, {}, None])
def test_a_bound_claim_does_not_grow_if_its_class_forbids_it_or_is_gone(serve, allowed):
    async def story(api):
        if allowed is not None:
            await storage_class(api, "fixed", **allowed)
        await api.create(CLAIMS, api.new_claim(storageClassName="fixed", volumeName="pv"))
        path = f"{CLAIMS}/data"
        await api.patch(f"{path}/status", {"status": {"phase": "Bound", "capacity": {"storage": "1Gi"}}})
        growth = {"spec": {"resources": {"requests": {"storage": "2Gi"}}}}
        refusal = await api.refused(403, api.patch(path, growth))
        assert "the storageclass that provisions the pvc must support resize" in refusal.message

    serve(story)


def test_a_volumes_source_never_changes(serve):
    async def story(api):
        await api.create(VOLUMES, api.new_volume())
        refusal = await api.refused(
            422, api.patch(f"{VOLUMES}/pv", {"spec": {"csi": {"volumeHandle": "other"}}})
        )
        assert "spec.persistentvolumesource is immutable after creation" in refusal.message
        made = await api.patch(f"{VOLUMES}/pv", {"spec": {"claimRef": {"name": "c", "namespace": "n"}}})
        assert made["spec"]["claimRef"] == {"name": "c", "namespace": "n"}

    serve(story)


def test_a_change_of_a_volumes_phase_is_stamped(serve):
    async def story(api):
        import asyncio

        await api.create(VOLUMES, api.new_volume())
        await asyncio.sleep(5)
        made = await api.patch(f"{VOLUMES}/pv/status", {"status": {"phase": "Available"}})
        assert made["status"]["lastPhaseTransitionTime"] == "2030-01-01T00:00:05Z"
        await asyncio.sleep(5)
        made = await api.patch(f"{VOLUMES}/pv/status", {"status": {"message": "x"}})
        assert made["status"]["lastPhaseTransitionTime"] == "2030-01-01T00:00:05Z"

    serve(story)


def test_a_class_has_defaults_and_keeps_what_volumes_were_made_by(serve):
    async def story(api):
        made = await storage_class(api, "fast")
        assert (made["reclaimPolicy"], made["volumeBindingMode"]) == ("Delete", "Immediate")
        await api.patch(f"{CLASSES}/fast", {"allowVolumeExpansion": True})
        for change in ({"provisioner": "x"}, {"parameters": {"a": "b"}}, {"reclaimPolicy": "Retain"}):
            refusal = await api.refused(422, api.patch(f"{CLASSES}/fast", change))
            assert "field is immutable" in refusal.message
        refusal = await api.refused(
            422, api.patch(f"{CLASSES}/fast", {"volumeBindingMode": "WaitForFirstConsumer"})
        )
        assert "field is immutable" in refusal.message
        await api.refused(422, api.create(CLASSES, {"metadata": {"name": "x"}}))

    serve(story)


def test_an_attachment_names_what_where_and_who_and_never_changes(serve):
    async def story(api):
        made = await api.create(ATTACHMENTS, api.new_attachment() | {"status": {"attached": True}})
        assert made["status"] == {"attached": False}
        refusal = await api.refused(422, api.patch(f"{ATTACHMENTS}/va", {"spec": {"nodeName": "other"}}))
        assert "spec: Invalid value" in refusal.message and "field is immutable" in refusal.message
        refusal = await api.refused(422, api.create(ATTACHMENTS, {"metadata": {"name": "x"}, "spec": {}}))
        assert [cause["field"] for cause in refusal.status["details"]["causes"]] == [
            "spec.attacher", "spec.source", "spec.nodeName",
        ]  # fmt: skip

    serve(story)


def test_a_drivers_entry_on_a_node_comes_and_goes_but_never_changes(serve):
    async def story(api):
        await api.create(
            CSINODES, {"metadata": {"name": "n"}, "spec": {"drivers": [{"name": "d", "nodeID": "1"}]}}
        )
        await api.refused(
            422, api.patch(f"{CSINODES}/n", {"spec": {"drivers": [{"name": "d", "nodeID": "2"}]}})
        )
        made = await api.patch(
            f"{CSINODES}/n", {"spec": {"drivers": [{"name": "e", "nodeID": "2"}]}}, "strategic"
        )
        assert [driver["name"] for driver in made["spec"]["drivers"]] == ["e", "d"]

    serve(story)


def test_a_statefulset_is_completed_and_mostly_fixed(serve):
    async def story(api):
        asked = {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}}
        template = {"metadata": {"name": "data"}, "spec": asked}
        made = await api.create(STATEFULSETS, api.new_statefulset(volumeClaimTemplates=[template]))
        spec = made["spec"]
        assert spec["replicas"] == 1
        assert spec["podManagementPolicy"] == "OrderedReady"
        assert spec["updateStrategy"] == {"type": "RollingUpdate", "rollingUpdate": {"partition": 0}}
        assert spec["persistentVolumeClaimRetentionPolicy"] == {
            "whenDeleted": "Retain",
            "whenScaled": "Retain",
        }
        assert spec["volumeClaimTemplates"][0]["kind"] == "PersistentVolumeClaim"
        assert spec["template"]["spec"]["restartPolicy"] == "Always"
        await api.patch(f"{STATEFULSETS}/web", {"spec": {"replicas": 3, "minReadySeconds": 2}})
        refusal = await api.refused(422, api.patch(f"{STATEFULSETS}/web", {"spec": {"serviceName": "x"}}))
        assert "updates to statefulset spec for fields other than" in refusal.message

    serve(story)


def test_a_selector_must_match_its_template(serve):
    async def story(api):
        sent = api.new_statefulset(selector={"matchLabels": {"app": "other"}})
        refusal = await api.refused(422, api.create(STATEFULSETS, sent))
        assert "`selector` does not match template `labels`" in refusal.message
        await api.refused(422, api.create(STATEFULSETS, api.new_statefulset(selector=None)))

    serve(story)
