"""Checks the deployment files that cannot be executed in tests, with their tools and against the processes."""

from __future__ import annotations

import re
import shutil
import subprocess
from pathlib import Path

import pytest
import yaml

from statecore.api.claim_wait import AT_LIVE
from statecore.api.live.application import SOCKETS
from statecore.api.live.long_poll import PATH as CLAIM
from statecore.api.live.stream import PATH as STREAM
from statecore.api.tools.application import PATH as TOOLS
from statecore.project import environment, process
from statecore.storage import roles
from tests.deploy import units
from tests.deploy.topology import NGINX, OPENSSL, make_certificate
from tests.deploy.units import DEPLOY, ROOT, SYSTEMD
from tests.support.site import free_port

COMPOSE = yaml.safe_load((DEPLOY / "compose.yaml").read_text())
OWN_SERVICES = {name: service for name, service in COMPOSE["services"].items() if service["image"] == "statecore"}
ENVIRONMENT = environment.read({})
ANALYZE = shutil.which("systemd-analyze")


def is_valid_process(words: list[str]) -> bool:
    """Returns whether the process entry point accepts the arguments."""
    given = process.read(words)
    return given.process == process.PREPARE or bool(process.command(given, ENVIRONMENT))


@pytest.mark.parametrize("file", sorted(SYSTEMD.glob("*.service")), ids=lambda file: file.name)
def test_a_unit_starts_an_existing_process(file: Path) -> None:
    program, dash_m, module, *words = units.Unit(file.name).command("8001")

    assert (program, dash_m, module) == (units.PYTHON, "-m", process.__spec__.name)
    assert is_valid_process(words)


def test_the_target_starts_every_process_except_executors_and_web() -> None:
    started = {units.Unit(unit.name).command("8001")[3] for unit in units.target_units()}

    assert started == {"prepare", *process.COMMANDS} - {"executors", "web"}
    assert len(units.target_units()) == len(set(units.target_units()))


def test_the_ports_of_the_target_match_the_nginx_upstreams() -> None:
    ports = {unit.instance for unit in units.target_units() if re.search("rest@|live@", unit.name)}

    assert set(re.findall(r"127.0.0.1:(\d+)", (DEPLOY / "nginx" / "upstreams.conf").read_text())) == ports


@pytest.mark.skipif(not ANALYZE, reason="systemd-analyze is not installed")
def test_systemd_accepts_the_units(tmp_path: Path) -> None:
    """Replaces the interpreter, which is not installed in tests."""
    for file in SYSTEMD.iterdir():
        text = file.read_text().replace(units.PYTHON, "/bin/true").replace("WorkingDirectory=/opt/statecore\n", "")
        (tmp_path / file.name).write_text(re.sub(r"=statecore(-executors)?\n", "=root\n", text).replace("%i", "1"))
    names = sorted(path for path in tmp_path.iterdir() if path.suffix == ".service" and "@" not in path.name)
    for template in tmp_path.glob("*@.service"):
        names.append(template.rename(template.with_name(template.name.replace("@.", "@1."))))
    ended = subprocess.run(
        [str(ANALYZE), "verify", "--recursive-errors=no", "--man=no", *map(str, names)],
        capture_output=True, text=True, env={"SYSTEMD_UNIT_PATH": f"{tmp_path}:", "SYSTEMD_LOG_LEVEL": "warning"},
        timeout=120,
    )  # fmt: skip
    errors = [line for line in ended.stderr.splitlines() if str(tmp_path) in line or "statecore" in line]

    assert errors == []


@pytest.mark.parametrize("name", sorted(OWN_SERVICES))
def test_a_service_runs_an_existing_process_with_few_privileges(name: str) -> None:
    service = OWN_SERVICES[name]

    assert is_valid_process(service["command"])
    assert service["read_only"] is True
    assert service["user"] == ("10002:10002" if name == "executors" else "10001:10001")
    assert service["cap_drop"] == ["ALL"]
    assert "healthcheck" in service


def test_executors_share_no_user_home_or_settings_with_the_other_processes() -> None:
    """They run the commands of plans, so what they can read, such a command may read outside its sandbox."""
    executors = units.settings(SYSTEMD / "statecore-executors@.service")
    others = [units.settings(file) for file in SYSTEMD.glob("*.service") if "executors" not in file.name]
    for name in ("User", "Group", "EnvironmentFile", "StateDirectory", "ReadWritePaths"):
        assert not set(executors[name]) & {value for other in others for value in other[name]}
    assert {"-/var/lib/statecore", "-/etc/statecore"} <= set(executors["InaccessiblePaths"][0].split())

    service = OWN_SERVICES["executors"]
    shared = {volume for name, other in OWN_SERVICES.items() if name != "executors" for volume in other["volumes"]}
    assert not shared & set(service["volumes"])
    assert service["env_file"] == "executors.env"


def role_of(url: str) -> str:
    return url.removeprefix("postgres://").partition(":")[0]


def test_each_process_connects_with_its_role_of_the_database() -> None:
    """Only `prepare` has the role that owns the tables."""
    given = {name: role_of(service["environment"]["DATABASE_URL"]) for name, service in OWN_SERVICES.items()}
    assert given.pop("prepare") == "statecore_owner"
    assert given.pop("executors") == "statecore_executor"
    assert set(given.values()) == {"statecore_web"}
    assert OWN_SERVICES["prepare"]["depends_on"]["roles"] == {"condition": "service_completed_successfully"}

    assert role_of(units.variables()["DATABASE_URL"]) == "statecore_web"
    assert role_of(units.variables("executors.env")["DATABASE_URL"]) == "statecore_executor"
    owners = {file.name for file in SYSTEMD.glob("*.service") if "statecore-owner.env" in file.read_text()}
    assert owners == {"statecore-prepare.service"}


def test_the_shipped_roles_are_those_of_this_version() -> None:
    comment, _, text = (DEPLOY / "roles.sql").read_text().partition("\n")
    assert comment.startswith("-- ")
    assert text == "".join(f"{statement};\n" for statement in roles.write_sql("statecore", "public", "statecore"))


def test_compose_sets_a_password_for_each_role_with_a_process() -> None:
    text = (DEPLOY / "compose" / "passwords.sql").read_text()
    set_by_psql = re.findall(r"ALTER ROLE (\w+) PASSWORD :'(\w+)'", text)
    read_from = dict(re.findall(r"\\getenv (\w+) (\w+)", text))
    service = COMPOSE["services"]["roles"]

    assert {role: read_from[name] for role, name in set_by_psql} == {
        "statecore_owner": "OWNER_PASSWORD", "statecore_web": "WEB_PASSWORD", "statecore_executor": "EXECUTOR_PASSWORD",
    }  # fmt: skip
    assert set(read_from.values()) < set(service["environment"])
    mounted = {volume.split(":")[1] for volume in service["volumes"]}
    assert set(re.findall(r"/sql/\S+sql", " ".join(service["command"]))) == mounted
    assert all((DEPLOY / volume.split(":")[0]).is_file() for volume in service["volumes"])


def test_executors_run_no_command_without_a_sandbox() -> None:
    given = units.variables("executors.env")

    assert given["STATECORE_SANDBOX"] == "required"
    assert "STATECORE_SECRET_KEY" not in given
    environment.read(given)


def test_the_unit_of_the_executors_lets_bubblewrap_work() -> None:
    """A hidden part of /proc would keep the kernel from mounting a new one in a namespace."""
    found = units.settings(SYSTEMD / "statecore-executors@.service")

    assert not {"ProtectKernelTunables", "ProtectKernelLogs", "ProtectHostname", "ProtectProc", "ProcSubset"} & set(
        found
    )
    assert set(found["RestrictNamespaces"][0].split()) >= {"user", "mnt", "pid", "net", "ipc", "uts"}
    assert "@mount" in found["SystemCallFilter"][0].split()


def test_the_compose_file_has_every_process() -> None:
    assert {service["command"][0] for service in OWN_SERVICES.values()} == {"prepare", *process.COMMANDS} - {"web"}
    assert all(OWN_SERVICES[name]["deploy"]["replicas"] == 2 for name in ("rest", "live", "worker", "sequencer"))


def test_repeated_preparation_keeps_the_counter_files() -> None:
    """`docker compose up` runs it beside running processes."""
    assert not process.read(OWN_SERVICES["prepare"]["command"]).first


def test_the_image_runs_unprivileged_with_locked_requirements() -> None:
    text = (DEPLOY / "Containerfile").read_text()
    copied = {word for line in re.findall(r"^COPY (?!--from)(.+)$", text, re.M) for word in line.split()[:-1]}

    assert "\nUSER 10001:10001\n" in text
    assert "--require-hashes --requirement requirements.lock" in text
    assert "\nHEALTHCHECK " in text
    assert re.search(r'ENTRYPOINT \["python", "-m", "(.+)"\]', text)[1] == process.__spec__.name  # type: ignore[index]
    assert {path for path in copied if not (ROOT / path).exists()} == set()
    needed = {"client", "statecore", "api", "dashboard", "templates", "static", "manage.py", "requirements.lock"}
    assert needed <= copied


def test_the_documented_createsuperuser_commands_name_existing_containers() -> None:
    page = (ROOT / "docs" / "how-to" / "deploy.md").read_text()
    image = (DEPLOY / "Containerfile").read_text()
    (service,) = re.findall(r"compose\.yaml exec (\S+) python manage\.py createsuperuser", page)
    ((pod, container),) = re.findall(r"exec -it deploy/(\S+) -c (\S+) -- python manage\.py createsuperuser", page)

    assert service in OWN_SERVICES
    template = (DEPLOY / "helm" / "templates" / f"{pod.removeprefix('statecore-')}.yaml").read_text()
    assert f"        - name: {container}\n" in template
    # `python` and `manage.py` resolve to these in the image.
    assert "ENV PATH=/opt/statecore/.venv/bin:$PATH" in image
    assert re.findall(r"^WORKDIR (\S+)$", image, re.M)[-1] == "/opt/statecore"


def check_with_nginx(
    folder: Path, replacements: dict[str, str], configuration: Path, upstreams: Path | None = None
) -> str:
    """Returns the output of `nginx -t` for a configuration with replaced paths and ports."""
    for name, source in {"nginx.conf": configuration, "upstreams.conf": upstreams}.items():
        text = source.read_text() if source else ""
        for old, new in replacements.items():
            text = text.replace(old, new)
        (folder / name).write_text(text)
    shutil.copy(DEPLOY / "nginx" / "locations.conf", folder)
    command = [str(NGINX), "-t", "-p", str(folder), "-c", str(folder / "nginx.conf")]
    return subprocess.run(command, capture_output=True, text=True, timeout=120).stderr


@pytest.mark.skipif(not (NGINX and OPENSSL), reason="nginx and openssl are needed")
def test_nginx_accepts_the_configuration_of_compose(tmp_path: Path) -> None:
    """Without `resolve`, which Debian's nginx does not support."""
    make_certificate(tmp_path)
    ports = {f"listen {port} ": f"listen 127.0.0.1:{free_port()} " for port in (80, 443)}
    folders = {"/etc/statecore/": f"{tmp_path}/", "/run/": f"{tmp_path}/", "/var/lib/nginx/": f"{tmp_path}/"}
    newer = {
        "    include /run/resolver.conf;\n": "",
        "rest:8001 resolve": "127.0.0.1:1",
        "live:9001 resolve": "127.0.0.1:1",
    }
    configuration, upstreams = DEPLOY / "nginx" / "nginx.conf", DEPLOY / "compose" / "upstreams.conf"
    write_resolver(tmp_path)

    assert (tmp_path / "resolver.conf").read_text() == "resolver [fd00::1] valid=5s;\n"
    assert "test is successful" in check_with_nginx(tmp_path, ports | newer | folders, configuration, upstreams)


def write_resolver(folder: Path) -> None:
    """Runs the start of nginx' container with the name server of an engine whose networks are IPv6."""
    (folder / "resolv.conf").write_text("search dns.podman\nnameserver fd00::1\nnameserver 192.0.2.1\n")
    shell, option, script = COMPOSE["services"]["nginx"]["command"]
    script = script.replace("$$", "$").replace("/etc/", f"{folder}/").replace("/run/", f"{folder}/")
    script = script.replace("exec nginx -g 'daemon off;'", "true")
    subprocess.run([shell, option, script], check=True, timeout=10)


@pytest.mark.parametrize(
    "address",
    [*SOCKETS, TOOLS, f"{TOOLS}/", "/api/v1/events/", "/api/v1/events", "/login/", "/login/sso/"],
    ids=lambda address: address,
)
def test_nginx_routes_open_connections_to_the_asgi_server(address: str) -> None:
    assert STREAM.fullmatch("/api/v1/events")
    assert upstream_of(address) == "statecore_live"


@pytest.mark.parametrize("address", ["/", "/account/", "/api/v1/tasks/", "/api/v1/workers/w1/heartbeat/", "/metrics"])
def test_nginx_routes_other_requests_to_the_wsgi_server(address: str) -> None:
    assert upstream_of(address) == "statecore_rest"


def test_nginx_chooses_the_server_of_claims() -> None:
    assert CLAIM.fullmatch("/api/v1/workers/w.1/claim/")
    assert upstream_of("/api/v1/workers/w.1/claim/") == "$statecore_claims"
    assert upstream_of(AT_LIVE) == "statecore_live"


def upstream_of(address: str) -> str:
    """Chooses a location like nginx: exact match, then pattern, then longest prefix."""
    text = (DEPLOY / "nginx" / "locations.conf").read_text()
    found = re.findall(r"location (?:(=|~) )?(\S+) \{[^}]*?(?:\}[^}]*?)*?proxy_pass http://([$\w]+);", text)
    matches = [
        *(to for kind, place, to in found if kind == "=" and place == address),
        *(to for kind, place, to in found if kind == "~" and re.search(place, address)),
        *(
            to
            for kind, place, to in sorted(found, key=lambda each: -len(each[1]))
            if not kind and address.startswith(place)
        ),
    ]
    return matches[0]


def test_the_shipped_settings_are_valid() -> None:
    given = {**units.variables(), "STATECORE_METRICS_TOKEN": "m" * 32}

    assert environment.read(given).https
    assert [name for name in given if f'"{name}"' not in Path(environment.__file__).read_text()] == []
