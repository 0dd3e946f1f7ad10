"""The Helm chart: rendered by Helm's own library, checked against the schemas of Kubernetes."""

from __future__ import annotations

import os
from collections.abc import Iterator
from typing import Any

import pytest
import yaml

from memorist.base.settings import NAMES
from memorist.base.version import VERSION
from tests.deploy.topology import IMAGE, ROOT

CHART = ROOT / "deploy/helm/memorist"
KUBERNETES = ("1.27", "1.31", "1.37")
POSTGRES = {"database": {"url": "postgresql://login:pw@db/memory"}}
OWNER_URL = "postgresql://owner:pw@db/memory"
POLICIES = ("NetworkPolicy memorist", "NetworkPolicy memorist-pods")
pytestmark = pytest.mark.slow  # it needs packages of 90 MB, which `make test-all` installs


@pytest.fixture(scope="module")
def chart() -> Iterator[Any]:
    if not os.environ.get("CI"):
        pytest.importorskip("helm_python", reason="Helm is not installed: `make test-all` does it")
    import helm_python

    with helm_python.Chart.load(str(CHART)) as chart:
        yield chart


def render(chart: Any, values: dict[str, Any]) -> dict[str, dict[str, Any]]:
    """Return the resources by kind and name."""
    chart.validate_schema(chart.merge_values(values))
    files = chart.render(values, name="memorist", namespace="prod")
    resources = {}
    for name, text in files.items():
        if name.endswith(".yaml"):
            for resource in filter(None, yaml.safe_load_all(text)):
                resources[f"{resource['kind']} {resource['metadata']['name']}"] = resource
    return resources


CASES: dict[str, tuple[dict[str, Any], set[str]]] = {
    "embedded": (
        {},
        {"Deployment memorist", "Service memorist", "PersistentVolumeClaim memorist", *POLICIES},
    ),
    "embedded on a given volume": (
        {"persistence": {"existingClaim": "mine"}, "networkPolicy": {"enabled": False}},
        {"Deployment memorist", "Service memorist"},
    ),
    "postgres by address": (
        {
            "database": {
                "url": "postgresql://login:pw@db/memory",
                "ownerUrl": "postgresql://owner:pw@db/memory",
                "readUrl": "postgresql://login:pw@replica/memory",
            },
            "replicas": 3,
        },
        {
            "Deployment memorist",
            "Deployment memorist-jobs",
            "Job memorist-migrate",
            "PodDisruptionBudget memorist",
            "Secret memorist-database",
            "Secret memorist-migrate",
            "Service memorist",
            *POLICIES,
        },
    ),
    "everything": (
        {
            "database": {"existingSecret": "db"},
            "replicas": 2,
            "imagePullSecrets": [{"name": "registry"}],
            "settings": {"model": "gpt-5-mini", "retention_days": 1_000_000, "review": "off"},
            "secrets": {"OPENAI_API_KEY": "sk-1"},
            "existingSecret": "more",
            "allowedHosts": ["memory.example.org"],
            "service": {"type": "LoadBalancer", "port": 8080},
            "ingress": {
                "enabled": True,
                "className": "nginx",
                "host": "memorist.example.org",
                "tlsSecret": "tls",
                "annotations": {"nginx.ingress.kubernetes.io/proxy-buffering": "off"},
            },
            "jobs": {"resources": {"limits": {"memory": "1Gi"}}},
            "podAnnotations": {"a": "b"},
            "nodeSelector": {"disk": "ssd"},
            "tolerations": [{"key": "a", "operator": "Exists"}],
            "affinity": {"nodeAffinity": {}},
            "autoscaling": {"enabled": True, "maxReplicas": 9},
            "podDisruptionBudget": {"maxUnavailable": 2},
            "topologySpread": {"whenUnsatisfiable": "DoNotSchedule"},
            "networkPolicy": {
                "from": [{"namespaceSelector": {"matchLabels": {"name": "ingress"}}}],
                "egress": [{"ports": [{"port": 5432, "protocol": "TCP"}]}],
            },
        },
        {
            "Deployment memorist",
            "Deployment memorist-jobs",
            "HorizontalPodAutoscaler memorist",
            "Ingress memorist",
            "Job memorist-migrate",
            "PodDisruptionBudget memorist",
            "Secret memorist-environment",
            "Service memorist",
            *POLICIES,
        },
    ),
}


@pytest.mark.parametrize("case", CASES)
def test_the_chart_renders_to_valid_resources(chart: Any, case: str) -> None:
    import kubernetes_validate

    values, expected = CASES[case]
    resources = render(chart, values)
    assert set(resources) == expected
    for resource in resources.values():
        for version in KUBERNETES:
            kubernetes_validate.validate(resource, version, strict=True)


@pytest.mark.parametrize("case", CASES)
def test_every_container_is_confined(chart: Any, case: str) -> None:
    user, group = map(int, IMAGE.user.split(":"))
    for name, resource in render(chart, CASES[case][0]).items():
        if not name.startswith(("Deployment", "Job")):
            continue
        pod = resource["spec"]["template"]["spec"]
        context = pod["securityContext"]
        assert context["runAsNonRoot"]
        assert (context["runAsUser"], context["runAsGroup"], context["fsGroup"]) == (
            user,
            group,
            group,
        )
        assert pod["enableServiceLinks"] is False  # it would set MEMORIST_PORT to an address
        assert pod["automountServiceAccountToken"] is False
        volumes = {volume["name"] for volume in pod["volumes"]}
        for container in [*pod.get("initContainers", []), *pod["containers"]]:
            assert container["securityContext"] == {
                "allowPrivilegeEscalation": False,
                "readOnlyRootFilesystem": True,
                "capabilities": {"drop": ["ALL"]},
            }
            mounts = {mount["name"]: mount["mountPath"] for mount in container["volumeMounts"]}
            assert set(mounts) == volumes
            assert mounts["data"] == IMAGE.volumes[0]
            assert container["resources"]
            for variable in container["env"]:
                assert variable["name"].removeprefix("MEMORIST_").lower() in NAMES


def server(resources: dict[str, dict[str, Any]]) -> dict[str, Any]:
    (container,) = resources["Deployment memorist"]["spec"]["template"]["spec"]["containers"]
    result: dict[str, Any] = container
    return result


def test_the_server_has_probes_on_the_port_of_the_image(chart: Any) -> None:
    resources = render(chart, {})
    container = server(resources)
    assert [str(port["containerPort"]) for port in container["ports"]] == IMAGE.ports
    assert container["livenessProbe"]["httpGet"]["path"] == "/healthz"
    assert container["startupProbe"]["httpGet"]["path"] == "/healthz"
    assert container["readinessProbe"]["httpGet"]["path"] == "/readyz"
    service = resources["Service memorist"]["spec"]
    labels = resources["Deployment memorist"]["spec"]["template"]["metadata"]["labels"]
    assert service["selector"].items() <= labels.items()


def test_the_service_does_not_reach_the_job_runner(chart: Any) -> None:
    resources = render(chart, POSTGRES)
    selector = resources["Service memorist"]["spec"]["selector"]
    labels = resources["Deployment memorist-jobs"]["spec"]["template"]["metadata"]["labels"]
    assert not selector.items() <= labels.items()


def test_jobs_run_in_one_place(chart: Any) -> None:
    assert server(render(chart, {}))["args"] == ["serve"]
    resources = render(chart, POSTGRES)
    assert server(resources)["args"] == ["serve", "--no-jobs"]
    without = render(chart, {**POSTGRES, "jobs": {"enabled": False}})
    assert server(without)["args"] == ["serve"]
    assert "Deployment memorist-jobs" not in without


def test_addresses_and_keys_are_only_in_secrets(chart: Any) -> None:
    values = {
        "database": {
            "url": "postgresql://l:hidden-1@db/m",
            "ownerUrl": "postgresql://o:hidden-2@db/m",
            "readUrl": "postgresql://l:hidden-3@replica/m",
        },
        "secrets": {"OPENAI_API_KEY": "hidden-4"},
    }
    resources = render(chart, values)
    for name, resource in resources.items():
        assert ("hidden" in str(resource)) == name.startswith("Secret")
    secret = resources["Secret memorist-database"]["stringData"]
    (replica,) = [v for v in server(resources)["env"] if v["name"] == "MEMORIST_READ_DATABASE"]
    assert replica["valueFrom"]["secretKeyRef"]["name"] == "memorist-database"
    assert secret[replica["valueFrom"]["secretKeyRef"]["key"]] == values["database"]["readUrl"]


def test_a_sqlite_file_is_never_open_in_two_servers(chart: Any) -> None:
    import helm_python

    assert render(chart, {})["Deployment memorist"]["spec"]["strategy"] == {"type": "Recreate"}
    with pytest.raises(helm_python.HelmValuesError, match="replicas"):
        render(chart, {"replicas": 2})


@pytest.mark.parametrize(
    "wrong",
    [
        {"replica": 2},
        {"replicas": 0},
        {"database": {"url": "mysql://a/b"}},
        {"database": {"url": "postgresql://a/b", "existingSecret": "db"}},
        {"database": {"ownerUrl": "postgresql://a/b"}},
        {"database": {"readUrl": "postgresql://a/b", "existingSecret": "db"}},
        {"ingress": {"enabled": True}},
        {"settings": {"database": "postgresql://a/b"}},
        {"settings": {"read_database": "postgresql://a/b"}},
        {"settings": {"MEMORIST_MODEL": "a"}},
        {"secrets": {"openai": "a"}},
        {"persistence": {"size": "lots"}},
        {"service": {"port": 0}},
        {"image": {"tag": "latest"}},
        {"autoscaling": {"enabled": True}},
        {"podDisruptionBudget": {"maxUnavailable": 0}},
        {"topologySpread": {"whenUnsatisfiable": "Never"}},
    ],
    ids=str,
)
def test_wrong_values_are_refused(chart: Any, wrong: dict[str, Any]) -> None:
    import helm_python

    with pytest.raises(helm_python.HelmValuesError):
        render(chart, wrong)


def test_the_chart_passes_lint(chart: Any) -> None:
    import helm_python

    result = helm_python.lint(str(CHART))
    assert result["errors"] == []
    assert [message["error"] for message in result["messages"]] == ["icon is recommended"]


def test_the_server_starts_before_the_first_key(chart: Any) -> None:
    """Otherwise `helm install --wait` would wait until somebody creates one."""
    resources = render(chart, {})
    pod = resources["Deployment memorist"]["spec"]["template"]["spec"]
    assert [container["name"] for container in pod["initContainers"]] == ["migrate"]
    assert {"name": "MEMORIST_AUTH", "value": "keys"} in server(resources)["env"]
    notes = chart.render({}, name="memorist", namespace="prod")["memorist/templates/NOTES.txt"]
    assert "exec deploy/memorist -c server" in notes
    values = {"settings": {"jwt_issuer": "https://issuer.example.org/", "jwt_audience": "memorist"}}
    notes = chart.render(values, name="memorist", namespace="prod")["memorist/templates/NOTES.txt"]
    assert "keys add" not in notes


def test_the_addresses_of_the_ingress_controller_are_trusted(chart: Any) -> None:
    container = server(render(chart, {"forwardedAllowIps": "10.244.0.0/16"}))
    assert {"name": "FORWARDED_ALLOW_IPS", "value": "10.244.0.0/16"} in container["env"]
    assert "FORWARDED_ALLOW_IPS" not in str(render(chart, {}))


def test_the_image_has_the_version_of_the_chart(chart: Any) -> None:
    assert server(render(chart, {}))["image"] == f"memorist:{VERSION}"
    assert server(render(chart, {"image": {"tag": "1.2.3"}}))["image"] == "memorist:1.2.3"


def test_one_job_migrates_before_the_rollout(chart: Any) -> None:
    resources = render(chart, {"database": {**POSTGRES["database"], "ownerUrl": OWNER_URL}})
    job = resources["Job memorist-migrate"]
    secret = resources["Secret memorist-migrate"]
    weights = []
    for resource in (secret, job):  # Helm creates them in this order, before everything else
        annotations = resource["metadata"]["annotations"]
        assert annotations["helm.sh/hook"] == "pre-install,pre-upgrade"
        weights.append(int(annotations["helm.sh/hook-weight"]))
    assert weights[0] < weights[1]
    pod = job["spec"]["template"]["spec"]
    (container,) = pod["containers"]
    assert container["args"] == ["migrate", "up"]
    assert container["image"] == server(resources)["image"]
    assert "envFrom" not in container  # the release's own secrets do not exist yet
    for variable in container["env"]:
        reference = variable["valueFrom"]["secretKeyRef"]
        assert reference["name"] == "memorist-migrate"
        assert reference["key"] in secret["stringData"]
    assert secret["stringData"]["owner-url"] == OWNER_URL
    assert OWNER_URL not in str([resources[name] for name in resources if "migrate" not in name])
    for name in ("Deployment memorist", "Deployment memorist-jobs"):
        assert "initContainers" not in resources[name]["spec"]["template"]["spec"]
    existing = render(chart, {"database": {"existingSecret": "db"}})
    assert "Secret memorist-migrate" not in existing
    (container,) = existing["Job memorist-migrate"]["spec"]["template"]["spec"]["containers"]
    assert {v["valueFrom"]["secretKeyRef"]["name"] for v in container["env"]} == {"db"}
    assert "Job memorist-migrate" not in render(chart, {})


def test_several_servers_stay_available(chart: Any) -> None:
    resources = render(chart, {**POSTGRES, "replicas": 2})
    pod = resources["Deployment memorist"]["spec"]["template"]
    budget = resources["PodDisruptionBudget memorist"]["spec"]
    assert budget["maxUnavailable"] == 1
    assert budget["selector"]["matchLabels"].items() <= pod["metadata"]["labels"].items()
    spread = pod["spec"]["topologySpreadConstraints"]
    assert [rule["topologyKey"] for rule in spread] == [
        "topology.kubernetes.io/zone",
        "kubernetes.io/hostname",
    ]
    for rule in spread:
        assert rule["labelSelector"]["matchLabels"].items() <= pod["metadata"]["labels"].items()
    one = render(chart, POSTGRES)
    assert "PodDisruptionBudget memorist" not in one
    assert "topologySpreadConstraints" not in one["Deployment memorist"]["spec"]["template"]["spec"]


def test_the_number_of_servers_follows_the_load(chart: Any) -> None:
    resources = render(chart, {**POSTGRES, "autoscaling": {"enabled": True, "maxReplicas": 9}})
    assert "replicas" not in resources["Deployment memorist"]["spec"]  # an upgrade would reset it
    scaler = resources["HorizontalPodAutoscaler memorist"]["spec"]
    assert scaler["scaleTargetRef"]["name"] == "memorist"
    assert (scaler["minReplicas"], scaler["maxReplicas"]) == (2, 9)
    assert server(resources)["resources"]["requests"]["cpu"]  # the load is a share of it
    assert "PodDisruptionBudget memorist" in resources


def test_only_the_port_of_the_servers_accepts_connections(chart: Any) -> None:
    resources = render(chart, POSTGRES)
    servers, pods = (resources[name]["spec"] for name in POLICIES)
    assert [rule["ports"] for rule in servers["ingress"]] == [[{"port": "http", "protocol": "TCP"}]]
    assert "ingress" not in pods
    assert pods["policyTypes"] == ["Ingress"]
    for name in ("Deployment memorist", "Deployment memorist-jobs", "Job memorist-migrate"):
        labels = resources[name]["spec"]["template"]["metadata"]["labels"].items()
        assert pods["podSelector"]["matchLabels"].items() <= labels
        is_server = name == "Deployment memorist"
        assert (servers["podSelector"]["matchLabels"].items() <= labels) == is_server
    peers = [{"namespaceSelector": {"matchLabels": {"name": "ingress"}}}]
    rules = [{"ports": [{"port": 5432, "protocol": "TCP"}]}]
    limited = render(chart, {**POSTGRES, "networkPolicy": {"from": peers, "egress": rules}})
    servers, pods = (limited[name]["spec"] for name in POLICIES)
    assert servers["ingress"][0]["from"] == peers
    assert [port["port"] for rule in pods["egress"] for port in rule["ports"]] == [53, 53, 5432]
