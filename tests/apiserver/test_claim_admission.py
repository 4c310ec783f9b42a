"""Claims are admitted as the quotas of their namespace allow."""

from __future__ import annotations

import asyncio

CLAIMS = "/api/v1/namespaces/default/persistentvolumeclaims"
QUOTAS = "/api/v1/namespaces/default/resourcequotas"
DRY = [("dryRun", "All")]


def claim(name, size="1Gi", storage_class="fast"):
    spec = {
        "accessModes": ["ReadWriteOnce"],
        "storageClassName": storage_class,
        "resources": {"requests": {"storage": size}},
    }
    return {"metadata": {"name": name}, "spec": spec}


async def quota(api, name="q", **hard):
    hard = {key.replace("_", "."): amount for key, amount in hard.items()}
    return await api.create(QUOTAS, {"metadata": {"name": name}, "spec": {"hard": hard}})


async def used(api, name="q"):
    return (await api.get(f"{QUOTAS}/{name}"))["status"].get("used")


def test_a_claim_beyond_the_quota_is_forbidden_in_upstreams_words(serve):
    async def story(api):
        await quota(api, requests_storage="3Gi")
        await api.create(CLAIMS, claim("a", "2Gi"))
        refusal = await api.refused(403, api.create(CLAIMS, claim("b", "2Gi")))
        assert refusal.message == (
            'persistentvolumeclaims "b" is forbidden: exceeded quota: q, '
            "requested: requests.storage=2Gi, used: requests.storage=2Gi, limited: requests.storage=3Gi"
        )
        await api.create(CLAIMS, claim("c", "1Gi"))
        assert await used(api) == {"requests.storage": "3Gi"}

    serve(story)


def test_claims_that_come_together_do_not_get_the_same_room(serve):
    async def story(api):
        await quota(api, persistentvolumeclaims="2")
        made = [api.create(CLAIMS, claim(name)) for name in "abcdef"]
        answers = await asyncio.gather(*made, return_exceptions=True)
        assert sum(isinstance(each, dict) for each in answers) == 2
        assert await used(api) == {"persistentvolumeclaims": "2"}

    serve(story)


def test_claims_that_were_there_before_the_quota_count(serve):
    async def story(api):
        await api.create(CLAIMS, claim("before", "2Gi"))
        await quota(api, requests_storage="2Gi")
        await api.refused(403, api.create(CLAIMS, claim("a", "1Gi")))

    serve(story)


def test_growth_is_counted_by_what_it_adds(serve):
    async def story(api):
        await quota(api, requests_storage="3Gi")
        grows = {
            "metadata": {"name": "fast"},
            "provisioner": "example.com/disk",
            "allowVolumeExpansion": True,
        }
        await api.create("/apis/storage.k8s.io/v1/storageclasses", grows)
        await api.create(CLAIMS, claim("a", "1Gi"))
        await api.patch(f"{CLAIMS}/a/status", {"status": {"phase": "Bound", "capacity": {"storage": "1Gi"}}})
        grow = {"spec": {"resources": {"requests": {"storage": "4Gi"}}}}
        refusal = await api.refused(403, api.patch(f"{CLAIMS}/a", grow))
        assert "requested: requests.storage=3Gi, used: requests.storage=1Gi" in refusal.message
        grow["spec"]["resources"]["requests"]["storage"] = "3Gi"
        await api.patch(f"{CLAIMS}/a", grow)
        assert await used(api) == {"requests.storage": "3Gi"}
        await api.patch(f"{CLAIMS}/a", {"metadata": {"labels": {"full": "yes"}}})

    serve(story)


def test_a_quota_of_one_class_does_not_count_others(serve):
    async def story(api):
        hard = {"fast.storageclass.storage.k8s.io/persistentvolumeclaims": "0"}
        await api.create(QUOTAS, {"metadata": {"name": "q"}, "spec": {"hard": hard}})
        await api.refused(403, api.create(CLAIMS, claim("a")))
        await api.create(CLAIMS, claim("a", storage_class="slow"))

    serve(story)


def test_a_dry_run_is_refused_and_takes_nothing(serve):
    async def story(api):
        await quota(api, persistentvolumeclaims="1")
        await api.create(CLAIMS, claim("a"), *DRY)
        assert await used(api) is None
        await api.create(CLAIMS, claim("a"))
        await api.refused(403, api.create(CLAIMS, claim("b"), *DRY))

    serve(story)


def test_quotas_of_other_namespaces_do_not_count(serve):
    async def story(api):
        await api.create("/api/v1/namespaces", {"metadata": {"name": "other"}})
        hard = {"spec": {"hard": {"persistentvolumeclaims": "0"}}}
        await api.create("/api/v1/namespaces/other/resourcequotas", {"metadata": {"name": "q"}, **hard})
        await api.create(CLAIMS, claim("a"))

    serve(story)
