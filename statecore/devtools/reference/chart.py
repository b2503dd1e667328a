"""The templates of the Helm chart that are made from other files: the configuration of nginx, and the alert rules."""

from __future__ import annotations

from pathlib import Path
from textwrap import indent

from . import alerts

NGINX = Path(__file__).parents[3] / "deploy" / "nginx"
SERVER = '{{- if eq .Values.mode "server" }}'
MONITORED = '{{- if and (eq .Values.mode "server") .Values.monitoring.enabled }}'
TRUSTED = """{{- range .Values.ingress.trustedNetworks }}
    set_real_ip_from {{ . }};
{{- end }}"""


def render_nginx() -> str:
    """Returns the ConfigMap of nginx: the file of the pod, and the routes that all forms of deployment share."""
    return "\n".join(
        [
            SERVER,
            "apiVersion: v1",
            "kind: ConfigMap",
            "metadata:",
            "  name: statecore-nginx",
            "data:",
            "  nginx.conf: |",
            indent((NGINX / "pod.conf").read_text(), "    ").rstrip(),
            "  locations.conf: |",
            indent((NGINX / "locations.conf").read_text(), "    ").rstrip(),
            "  trusted.conf: |",
            "    # Addresses from which the ingress connects.",
            TRUSTED,
            "{{- end }}",
            "",
        ]
    )


def render_rules() -> str:
    """Returns the alert rules as a resource of the Prometheus operator, with links to the host of the chart."""
    rules = alerts.render_prometheus_rules("https://{{ .Values.host }}")
    head = ["apiVersion: monitoring.coreos.com/v1", "kind: PrometheusRule", "metadata:", "  name: statecore", "spec:"]
    return "\n".join([MONITORED, *head, indent(rules, "  ").rstrip(), "{{- end }}", ""])
