"""The Helm chart: what it renders, checked against the schemas of Kubernetes, the processes and nginx."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml
from jsonschema import Draft7Validator

from statecore import __version__
from statecore.delivery.sinks.alert_rules import RULES
from statecore.project import environment, process
from statecore.project.metrics_folder import VARIABLE
from tests.deploy import chart
from tests.deploy.test_files import check_with_nginx, is_valid_process
from tests.deploy.test_linters import KUBERNETES, run_linter
from tests.deploy.topology import NGINX
from tests.support.site import free_port

OWN_IMAGE = f"registry.example.org/statecore:{__version__}"
# Resources of the Prometheus operator, whose schemas are not Kubernetes'.
OPERATOR = {"ServiceMonitor", "PrometheusRule"}


def own_containers() -> list[dict[str, Any]]:
    return [each for each in chart.containers() if each["image"] == OWN_IMAGE]


def secrets_of(container: dict[str, Any]) -> list[str]:
    return [each["secretRef"]["name"] for each in container.get("envFrom", ()) if "secretRef" in each]


def claims(pod: dict[str, Any]) -> set[str]:
    """Returns the names of the volumes that a pod keeps."""
    kept = [each["persistentVolumeClaim"] for each in pod["volumes"] if "persistentVolumeClaim" in each]
    return {each["claimName"] for each in kept}


def settings_of(variant: str) -> dict[str, str]:
    (found,) = (each for each in chart.find("ConfigMap", variant).values() if "STATECORE_HOME" in each["data"])
    return dict(found["data"])


@pytest.mark.parametrize("variant", chart.GIVEN)
def test_the_values_match_their_schema(variant: str) -> None:
    schema = Draft7Validator(chart.read("values.schema.json"))
    values = {**chart.read("values.yaml"), **chart.GIVEN[variant]}

    assert [error.message for error in schema.iter_errors(values)] == []
    assert list(schema.iter_errors({**values, "mode": "everything"}))


def test_the_resources_match_the_kubernetes_schemas(tmp_path: Path) -> None:
    found = [
        each for variant in (chart.MONITORED, chart.EXECUTORS) for each in chart.render(variant)
        if each["kind"] not in OPERATOR
    ]  # fmt: skip
    (tmp_path / "resources.yaml").write_text(yaml.safe_dump_all(found))
    code, output = run_linter(KUBERNETES, "--strict", str(tmp_path / "resources.yaml"))

    assert code == 0, output
    assert output.count("passed for resource") == len(found)


def test_containers_have_few_privileges_and_limits() -> None:
    for container in chart.containers():
        context = container["securityContext"]
        assert context["readOnlyRootFilesystem"] is True
        assert context["allowPrivilegeEscalation"] is False
        assert context["capabilities"]["drop"] == ["ALL"]
        assert container["resources"]["requests"]
        assert container["resources"]["limits"]["memory"]
    assert all(spec["securityContext"]["runAsNonRoot"] for spec in chart.pods().values())


def test_every_process_has_a_pod_and_a_probe() -> None:
    assert all(is_valid_process(each["args"]) for each in own_containers())
    assert {each["args"][0] for each in own_containers()} == {"prepare", *process.COMMANDS} - {"web"}
    assert all("livenessProbe" in each for each in own_containers() if each["name"] != "prepare")


def test_a_repeated_preparation_keeps_the_counter_files() -> None:
    (job,) = chart.pods()["statecore-prepare-1"]["containers"]

    assert not process.read(job["args"]).first


def test_replicated_pods_have_a_disruption_budget_and_scale() -> None:
    budgets = chart.find("PodDisruptionBudget")

    assert set(budgets) == {"statecore-web", "statecore-worker", "statecore-sequencer"}
    assert all(each["spec"]["maxUnavailable"] == 1 for each in budgets.values())
    for name, scaler in chart.find("HorizontalPodAutoscaler").items():
        deployment = chart.find("Deployment")[name]
        assert "replicas" not in deployment["spec"]  # each upgrade would set it back
        assert 2 <= scaler["spec"]["minReplicas"] <= scaler["spec"]["maxReplicas"]
        assert all(
            "cpu" in each["resources"]["requests"] for each in deployment["spec"]["template"]["spec"]["containers"]
        )


def test_probes_send_an_allowed_host_header() -> None:
    """By default kubelet sends the pod's address, which is not in the allowed hosts."""
    for each in chart.containers():
        for kind in ("startupProbe", "readinessProbe", "livenessProbe"):
            request = each.get(kind, {}).get("httpGet")
            assert request is None or request["httpHeaders"] == [{"name": "Host", "value": "localhost"}]


def test_the_shipped_settings_are_valid() -> None:
    given = {**settings_of(chart.SERVER), "STATECORE_HOME": ""}
    env = environment.read(given)

    assert env.https
    assert env.public_url == "https://statecore.example.org"
    assert settings_of(chart.MONITORED)["STATECORE_NOTIFY_URLS"] == 'json://example.org/?a="b"'
    assert not {"DATABASE_URL", "REDIS_URL", "STATECORE_SECRET_KEY"} & given.keys()


def test_prometheus_reaches_every_pod_that_counts() -> None:
    """It connects to the address of a pod, which must be an allowed host, and reads the counters in the shared home."""
    (service,) = [each for name, each in chart.find("Service", chart.MONITORED).items() if name.endswith("metrics")]
    for name, pod in chart.pods().items():
        served = [each for each in pod["containers"] if "env" in each]
        if name in ("statecore-web", "statecore-worker", "statecore-sequencer"):
            (container,) = served
            value = container["env"][-1]["value"].replace("$(POD_IP)", "10.1.2.3")
            assert "10.1.2.3" in environment.read({"STATECORE_ALLOWED_HOSTS": value}).allowed_hosts
            assert container["ports"][0]["containerPort"] == service["spec"]["ports"][0]["port"]
    home = settings_of(chart.SERVER)["STATECORE_HOME"]
    assert settings_of(chart.SERVER)[VARIABLE].startswith(f"{home}/")
    (monitor,) = chart.find("ServiceMonitor", chart.MONITORED).values()
    assert monitor["spec"]["selector"]["matchLabels"].items() <= service["metadata"]["labels"].items()
    assert not chart.find("ServiceMonitor")


def test_the_rules_of_the_chart_link_to_the_runbook_of_its_host() -> None:
    (found,) = chart.find("PrometheusRule", chart.MONITORED).values()
    (group,) = found["spec"]["groups"]
    links = [rule["annotations"]["runbook_url"] for rule in group["rules"]]

    assert len(links) > len(RULES)
    assert all(link.startswith("https://statecore.example.org/runbook/#") for link in links)


def test_executors_share_no_user_secret_or_volume_with_the_other_pods() -> None:
    pod = chart.pods()["statecore-executors"]
    (given,) = (each["envFrom"] for each in pod["containers"])
    for name, other in chart.pods().items():
        if name != "statecore-executors":
            assert other["securityContext"]["runAsUser"] != pod["securityContext"]["runAsUser"] == 10002
            assert not [
                each for container in other["containers"] for each in container.get("envFrom", ()) if each in given
            ]
            assert not claims(other) & claims(pod)


def test_only_the_preparation_has_the_role_of_the_owner() -> None:
    read = {pod: [secrets_of(each) for each in spec["containers"]] for pod, spec in chart.pods().items()}

    assert read.pop("statecore-prepare-1") == [["statecore", "statecore-owner"]]
    assert not [pod for pod, names in read.items() if "statecore-owner" in {name for each in names for name in each}]


def test_the_pod_of_the_executors_lets_bubblewrap_work_and_requires_it() -> None:
    """Without namespaces, or with a masked /proc, bubblewrap cannot start; no command runs without it."""
    pod, given = chart.pods()["statecore-executors"], settings_of(chart.EXECUTORS)

    assert pod["hostUsers"] is False
    assert pod["securityContext"]["seccompProfile"] == {"type": "Unconfined"}
    assert pod["containers"][0]["securityContext"]["procMount"] == "Unmasked"
    assert environment.read({**given, "STATECORE_HOME": ""}).sandbox == "required"
    mounted = {each["mountPath"] for each in pod["containers"][0]["volumeMounts"]}
    assert given["STATECORE_HOME"] in mounted
    assert not {"STATECORE_SECRET_KEY", "DATABASE_URL"} & given.keys()


@pytest.mark.skipif(not NGINX, reason="nginx is not installed")
def test_nginx_accepts_the_configuration_of_the_pod(tmp_path: Path) -> None:
    files = chart.find("ConfigMap")["statecore-nginx"]["data"]
    (tmp_path / "given.conf").write_text(files["nginx.conf"])
    (tmp_path / "trusted.conf").write_text(files["trusted.conf"])
    replacements = {"/tmp/": f"{tmp_path}/", "listen 8080": f"listen 127.0.0.1:{free_port()}"}  # noqa: S108

    assert "test is successful" in check_with_nginx(tmp_path, replacements, tmp_path / "given.conf")
    assert "set_real_ip_from 192.168.0.0/16;" in files["trusted.conf"]
