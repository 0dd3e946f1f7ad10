"""The Helm chart: rendered by Helm's own library, checked against the schemas of Kubernetes."""

from __future__ import annotations

import os
from collections.abc import Iterator
from typing import Any

import pytest
import yaml

from retain.base.settings import NAMES
from tests.deploy.test_containerfile import IMAGE, ROOT

CHART = ROOT / "deploy/helm/retain"
KUBERNETES = ("1.27", "1.31", "1.37")
POSTGRES = {"database": {"url": "postgresql://login:pw@db/memory"}}
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
    files = chart.render(values, name="retain", namespace="prod")
    resources = {}
    for name, text in files.items():
        if name.endswith(".yaml"):
            for resource in filter(None, yaml.safe_load_all(text)):
                resources[f"{resource['kind']} {resource['metadata']['name']}"] = resource
    return resources


CASES: dict[str, tuple[dict[str, Any], set[str]]] = {
    "embedded": (
        {},
        {"Deployment retain", "Service retain", "PersistentVolumeClaim retain"},
    ),
    "embedded on a given volume": (
        {"persistence": {"existingClaim": "mine"}},
        {"Deployment retain", "Service retain"},
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
            "Deployment retain",
            "Deployment retain-jobs",
            "Secret retain-database",
            "Service retain",
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
                "host": "retain.example.org",
                "tlsSecret": "tls",
                "annotations": {"nginx.ingress.kubernetes.io/proxy-buffering": "off"},
            },
            "jobs": {"resources": {"limits": {"memory": "1Gi"}}},
            "podAnnotations": {"a": "b"},
            "nodeSelector": {"disk": "ssd"},
            "tolerations": [{"key": "a", "operator": "Exists"}],
            "affinity": {"nodeAffinity": {}},
        },
        {
            "Deployment retain",
            "Deployment retain-jobs",
            "Ingress retain",
            "Secret retain-environment",
            "Service retain",
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
        if not name.startswith("Deployment"):
            continue
        pod = resource["spec"]["template"]["spec"]
        context = pod["securityContext"]
        assert context["runAsNonRoot"]
        assert (context["runAsUser"], context["runAsGroup"], context["fsGroup"]) == (
            user,
            group,
            group,
        )
        assert pod["enableServiceLinks"] is False  # it would set RETAIN_PORT to an address
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
                assert variable["name"].removeprefix("RETAIN_").lower() in NAMES


def server(resources: dict[str, dict[str, Any]]) -> dict[str, Any]:
    (container,) = resources["Deployment retain"]["spec"]["template"]["spec"]["containers"]
    result: dict[str, Any] = container
    return result


def test_the_server_has_probes_on_the_port_of_the_image(chart: Any) -> None:
    resources = render(chart, {})
    container = server(resources)
    assert [str(port["containerPort"]) for port in container["ports"]] == IMAGE.ports
    assert container["livenessProbe"]["httpGet"]["path"] == "/healthz"
    assert container["startupProbe"]["httpGet"]["path"] == "/healthz"
    assert container["readinessProbe"]["httpGet"]["path"] == "/readyz"
    service = resources["Service retain"]["spec"]
    labels = resources["Deployment retain"]["spec"]["template"]["metadata"]["labels"]
    assert service["selector"].items() <= labels.items()


def test_the_service_does_not_reach_the_job_runner(chart: Any) -> None:
    resources = render(chart, POSTGRES)
    selector = resources["Service retain"]["spec"]["selector"]
    labels = resources["Deployment retain-jobs"]["spec"]["template"]["metadata"]["labels"]
    assert not selector.items() <= labels.items()


def test_jobs_run_in_one_place(chart: Any) -> None:
    assert server(render(chart, {}))["args"] == ["serve"]
    resources = render(chart, POSTGRES)
    assert server(resources)["args"] == ["serve", "--no-jobs"]
    without = render(chart, {**POSTGRES, "jobs": {"enabled": False}})
    assert server(without)["args"] == ["serve"]
    assert "Deployment retain-jobs" not in without


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
    secret = resources["Secret retain-database"]["stringData"]
    (replica,) = [v for v in server(resources)["env"] if v["name"] == "RETAIN_READ_DATABASE"]
    assert replica["valueFrom"]["secretKeyRef"]["name"] == "retain-database"
    assert secret[replica["valueFrom"]["secretKeyRef"]["key"]] == values["database"]["readUrl"]


def test_a_sqlite_file_is_never_open_in_two_servers(chart: Any) -> None:
    import helm_python

    assert render(chart, {})["Deployment retain"]["spec"]["strategy"] == {"type": "Recreate"}
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
        {"settings": {"RETAIN_MODEL": "a"}},
        {"secrets": {"openai": "a"}},
        {"persistence": {"size": "lots"}},
        {"service": {"port": 0}},
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
    pod = resources["Deployment retain"]["spec"]["template"]["spec"]
    assert [container["name"] for container in pod["initContainers"]] == ["migrate"]
    assert {"name": "RETAIN_AUTH", "value": "keys"} in server(resources)["env"]
    notes = chart.render({}, name="retain", namespace="prod")["retain/templates/NOTES.txt"]
    assert "exec deploy/retain -c server" in notes
    values = {"settings": {"jwt_issuer": "https://issuer.example.org/", "jwt_audience": "retain"}}
    notes = chart.render(values, name="retain", namespace="prod")["retain/templates/NOTES.txt"]
    assert "keys create" not in notes


def test_the_addresses_of_the_ingress_controller_are_trusted(chart: Any) -> None:
    container = server(render(chart, {"forwardedAllowIps": "10.244.0.0/16"}))
    assert {"name": "FORWARDED_ALLOW_IPS", "value": "10.244.0.0/16"} in container["env"]
    assert "FORWARDED_ALLOW_IPS" not in str(render(chart, {}))
