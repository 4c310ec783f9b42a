"""Pods: defaults, what may change, binding."""

from __future__ import annotations

PODS = "/api/v1/namespaces/default/pods"
BINDINGS = "/api/v1/namespaces/default/bindings"


def test_a_pod_is_completed_as_upstream_completes_it(serve):
    async def story(api):
        made = await api.pod()
        spec, status = made["spec"], made["status"]
        assert status == {"phase": "Pending", "qosClass": "BestEffort"}
        expected = {
            "restartPolicy": "Always",
            "terminationGracePeriodSeconds": 30,
            "dnsPolicy": "ClusterFirst",
            "schedulerName": "default-scheduler",
            "enableServiceLinks": True,
            "securityContext": {},
            "priority": 0,
            "preemptionPolicy": "PreemptLowerPriority",
        }
        assert expected.items() <= spec.items()
        assert spec["containers"][0] == {
            "name": "c",
            "image": "busybox:1",
            "terminationMessagePath": "/dev/termination-log",
            "terminationMessagePolicy": "File",
            "imagePullPolicy": "IfNotPresent",
            "resources": {},
        }

    serve(story)


def test_an_unpinned_image_is_always_pulled(serve):
    async def story(api):
        for image, policy in (
            ("a", "Always"),
            ("a:latest", "Always"),
            ("h:5000/a", "Always"),
            ("a@sha256:0", "IfNotPresent"),
        ):
            sent = api.new_pod()
            sent["spec"]["containers"][0]["image"] = image
            made = await api.create(PODS, sent, ("dryRun", "All"))
            assert made["spec"]["containers"][0]["imagePullPolicy"] == policy

    serve(story)


def test_a_pod_tolerates_a_lost_node_for_300_seconds_unless_it_says_otherwise(serve):
    async def story(api):
        made = await api.pod()
        assert [(t["key"], t["effect"], t["tolerationSeconds"]) for t in made["spec"]["tolerations"]] == [
            ("node.kubernetes.io/not-ready", "NoExecute", 300),
            ("node.kubernetes.io/unreachable", "NoExecute", 300),
        ]
        own = {
            "key": "node.kubernetes.io/unreachable",
            "operator": "Exists",
            "effect": "NoExecute",
            "tolerationSeconds": 5,
        }
        sent = api.new_pod("q")
        sent["spec"]["tolerations"] = [own]
        tolerations = (await api.create(PODS, sent))["spec"]["tolerations"]
        assert [t["tolerationSeconds"] for t in tolerations] == [5, 300]
        sent = api.new_pod("r")
        sent["spec"]["tolerations"] = [{"operator": "Exists"}]
        assert (await api.create(PODS, sent))["spec"]["tolerations"] == [{"operator": "Exists"}]

    serve(story)


def test_a_pods_class_follows_from_its_resources(serve):
    async def story(api):
        full = {"cpu": "1", "memory": "1Gi"}
        cases = {"Guaranteed": {"limits": full}, "Burstable": {"requests": {"cpu": "1"}}, "BestEffort": {}}
        for name, resources in cases.items():
            sent = api.new_pod()
            sent["spec"]["containers"][0]["resources"] = resources
            assert (await api.create(PODS, sent, ("dryRun", "All")))["status"]["qosClass"] == name

    serve(story)


def test_a_pod_that_refers_to_a_volume_that_it_does_not_have_is_refused(serve):
    async def story(api):
        sent = api.new_pod()
        sent["spec"]["containers"][0]["volumeMounts"] = [{"name": "nosuch", "mountPath": "/x"}]
        refusal = await api.refused(422, api.create(PODS, sent))
        assert 'spec.containers[0].volumeMounts[0].name: Not found: "nosuch"' in refusal.message
        sent = api.new_pod()
        sent["spec"]["volumes"] = [{"name": "v"}, {"name": "v"}]
        refusal = await api.refused(422, api.create(PODS, sent))
        assert 'spec.volumes[1].name: Duplicate value: "v"' in refusal.message

    serve(story)


def test_of_a_pods_spec_only_a_little_may_change(serve):
    async def story(api):
        await api.pod(node="n")
        path = f"{PODS}/p"
        assert (
            await api.patch(path, {"spec": {"containers": [{"name": "c", "image": "new:2"}]}}, "strategic")
        )["spec"]["containers"][0]["image"] == "new:2"
        await api.patch(path, {"spec": {"activeDeadlineSeconds": 5}})
        tolerations = (await api.get(path))["spec"]["tolerations"]
        await api.patch(path, {"spec": {"tolerations": [*tolerations, {"key": "x", "operator": "Exists"}]}})
        for change in (
            {"nodeName": "other"},
            {"restartPolicy": "Never"},
            {"hostname": "h"},
            {"volumes": [{"name": "v"}]},
        ):
            refusal = await api.refused(422, api.patch(path, {"spec": change}))
            assert "pod updates may not change fields other than" in refusal.message

    serve(story)


def test_a_manifest_can_be_put_again(serve):
    """What defaulting and admission added need not be said again."""

    async def story(api):
        made = await api.pod(node="n")
        sent = api.new_pod()
        assert (await api.replace(f"{PODS}/p", sent))["spec"] == made["spec"]

    serve(story)


def test_a_pod_is_bound_once(serve):
    async def story(api):
        await api.pod()
        binding = {"target": {"kind": "Node", "name": "n1"}, "metadata": {"annotations": {"a": "b"}}}
        answer = await api.create(f"{PODS}/p/binding", binding)
        assert (answer["status"], answer["code"]) == ("Success", 201)
        bound = await api.get(f"{PODS}/p")
        assert bound["spec"]["nodeName"] == "n1"
        assert bound["metadata"]["annotations"] == {"a": "b"}
        assert [(c["type"], c["status"]) for c in bound["status"]["conditions"]] == [("PodScheduled", "True")]
        refusal = await api.refused(409, api.create(f"{PODS}/p/binding", {"target": {"name": "n2"}}))
        assert refusal.message == (
            'Operation cannot be fulfilled on pods/binding "p": pod p is already assigned to node "n1"'
        )

    serve(story)


def test_a_binding_means_one_pod_that_is_to_stay(serve):
    async def story(api):
        await api.pod(finalizers=["a/b"])
        wrong = {"target": {"name": "n"}, "metadata": {"uid": "other"}}
        await api.refused(409, api.create(f"{PODS}/p/binding", wrong))
        await api.refused(500, api.create(f"{PODS}/p/binding", {"target": {}}))
        await api.refused(500, api.create(f"{PODS}/p/binding", {"target": {"kind": "Pod", "name": "n"}}))
        await api.refused(
            400, api.create(f"{PODS}/p/binding", {"metadata": {"name": "q"}, "target": {"name": "n"}})
        )
        await api.delete(f"{PODS}/p")
        refusal = await api.refused(409, api.create(f"{PODS}/p/binding", {"target": {"name": "n"}}))
        assert "is being deleted, cannot be assigned to a host" in refusal.message
        await api.refused(404, api.create(f"{PODS}/nosuch/binding", {"target": {"name": "n"}}))

    serve(story)


def test_a_workload_is_scaled_through_its_scale(serve):
    async def story(api):
        path = "/apis/apps/v1/namespaces/default/statefulsets"
        await api.create(path, api.new_statefulset())
        scale = await api.get(f"{path}/web/scale")
        assert (scale["kind"], scale["spec"], scale["status"]) == (
            "Scale", {"replicas": 1}, {"replicas": 0, "selector": "app=web"},
        )  # fmt: skip
        await api.patch(f"{path}/web/scale", {"spec": {"replicas": 3}})
        assert (await api.get(f"{path}/web"))["spec"]["replicas"] == 3
        await api.refused(409, api.replace(f"{path}/web/scale", scale))
        await api.refused(422, api.patch(f"{path}/web/scale", {"spec": {"replicas": -1}}))

    serve(story)


def test_a_log_is_refused_with_the_reason(serve):
    async def story(api):
        await api.pod()
        refusal = await api.refused(501, api.get(f"{PODS}/p/log"))
        assert "kept by its node" in refusal.message

    serve(story)


def test_a_binding_may_name_its_pod_in_the_body(serve):
    async def story(api):
        await api.pod()
        binding = {"metadata": {"name": "p"}, "target": {"name": "n1"}}
        await api.create(BINDINGS, binding)
        assert (await api.get(f"{PODS}/p"))["spec"]["nodeName"] == "n1"
        await api.refused(409, api.create(BINDINGS, binding))
        await api.refused(400, api.create(BINDINGS, {"target": {"name": "n1"}}))
        await api.refused(405, api.get(BINDINGS))

    serve(story)


def test_containers_and_volumes_are_completed(serve):
    async def story(api):
        probe = {"httpGet": {"port": 80}, "periodSeconds": 5}
        resources = {"limits": {"cpu": "1", "memory": "1Gi"}, "requests": {"cpu": "500m"}}
        container = {"name": "c", "image": "i:1", "livenessProbe": probe, "resources": resources}
        spec = {"containers": [container], "volumes": [{"name": "v"}], "terminationGracePeriodSeconds": -5}
        made = (await api.create(PODS, {"metadata": {"name": "p"}, "spec": spec}))["spec"]
        assert made["containers"][0]["livenessProbe"] == {
            "httpGet": {"path": "/", "port": 80, "scheme": "HTTP"},
            "timeoutSeconds": 1, "periodSeconds": 5, "successThreshold": 1, "failureThreshold": 3,
        }  # fmt: skip
        assert made["containers"][0]["resources"]["requests"] == {"cpu": "500m", "memory": "1Gi"}
        assert made["volumes"] == [{"name": "v", "emptyDir": {}}]
        assert made["terminationGracePeriodSeconds"] == 1

    serve(story)


def test_ports_of_a_pod_on_its_hosts_network_are_the_hosts(serve):
    async def story(api):
        container = {"name": "c", "image": "i:1", "ports": [{"containerPort": 80}]}
        for network, port in ((True, 80), (False, None)):
            spec = {"containers": [container], "hostNetwork": network}
            made = await api.create(PODS, {"metadata": {"name": f"p-{port}".lower()}, "spec": spec})
            assert made["spec"]["containers"][0]["ports"][0].get("hostPort") == port

    serve(story)


def test_tolerations_may_only_be_added_and_containers_stay(serve):
    async def story(api):
        sent = api.new_pod()
        sent["spec"]["tolerations"] = [{"key": "x", "operator": "Exists"}]
        await api.create(PODS, sent)
        refusal = await api.refused(422, api.patch(f"{PODS}/p", {"spec": {"tolerations": []}}))
        assert "existing toleration can not be modified except its tolerationSeconds" in refusal.message
        more = {"spec": {"containers": [{"name": "d", "image": "i"}]}}
        refusal = await api.refused(422, api.patch(f"{PODS}/p", more, "strategic"))
        assert "pod updates may not add or remove containers" in refusal.message

    serve(story)
