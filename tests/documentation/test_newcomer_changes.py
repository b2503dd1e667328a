"""A newcomer's first changes, made in a copy of the project: each takes at most three hand-written files.

Each test first leaves one piece out and sees that a check names it, then adds it and sees the check pass.
"""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.site import ROOT

MOST_FILES = 3
SECONDS = 120
LEFT_OUT = shutil.ignore_patterns(".*", "vendor")
GENERATE = "python manage.py machines --docs"
CHECK = "python manage.py machines --check"
TEST = "python -m pytest -q -n 0 -p no:cacheprovider"


class Project:
    """A copy of the project that counts the files which a change writes by hand."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.written: set[str] = set()

    def write(self, file: str, text: str) -> None:
        self.written.add(file)
        assert len(self.written) <= MOST_FILES, self.written
        (self.folder / file).write_text(text)

    def insert(self, file: str, text: str, *, after: str = "", before: str = "") -> None:
        source = (self.folder / file).read_text()
        place = after or before
        assert place in source, f"{file} no longer contains {place!r}: adapt this test"
        self.write(file, source.replace(place, place + text if after else text + place, 1))

    def append(self, file: str, text: str) -> None:
        self.write(file, (self.folder / file).read_text() + text)

    def passes(self, commands: str) -> str:
        status, output = self._run(commands)
        assert status == 0, output
        return output

    def fails(self, commands: str) -> str:
        status, output = self._run(commands)
        assert status != 0, output
        return output

    def _run(self, commands: str) -> tuple[int, str]:
        home = self.folder.parent / "home"
        environment = {
            "PATH": f"{self.folder}/.venv/bin:{os.environ['PATH']}",
            "HOME": str(home),
            "LC_ALL": "C.UTF-8",
            "STATECORE_HOME": str(home),
            "STATECORE_SQLITE_SYNCHRONOUS": "OFF",
        }
        done = subprocess.run(
            ["/bin/bash", "-e", "-c", commands], cwd=self.folder, env=environment, check=False, text=True,
            stdout=subprocess.PIPE, stderr=subprocess.STDOUT, timeout=SECONDS,
        )  # fmt: skip
        return done.returncode, done.stdout


@pytest.fixture(scope="module")
def copy(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """One copy for all tests, with the compiled modules."""
    folder = tmp_path_factory.mktemp("newcomer") / "project"
    shutil.copytree(ROOT, folder, ignore=LEFT_OUT, symlinks=True)
    (folder / ".venv").symlink_to(ROOT / ".venv")
    return folder


@pytest.fixture
def project(copy: Path) -> Iterator[Project]:
    """The copy, restored after the test."""
    before = source_files(copy)
    yield Project(copy)
    for path, text in source_files(copy).items():
        if path not in before:
            path.unlink()
        elif text != before[path]:
            path.write_bytes(before[path])


def source_files(folder: Path) -> dict[Path, bytes]:
    parts = ("api", "client", "dashboard", "deploy", "docs", "statecore", "templates")
    files = (path for part in parts for path in (folder / part).rglob("*") if path.is_file())
    return {path: path.read_bytes() for path in files if path.suffix != ".pyc"}


def test_a_field_takes_its_line_and_generated_files(project: Project) -> None:
    check = "python manage.py makemigrations --check --dry-run"
    project.insert(
        "statecore/machines/ingestion_job.py",
        '    colour = models.CharField(max_length=20, blank=True, default="")\n',
        before="    max_attempts = models",
    )

    assert "Add field colour to ingestionjob" in project.fails(check)

    project.passes(f"python manage.py makemigrations statecore && {GENERATE} && {check} && {CHECK}")
    shown = "from api.openapi.views import build_document; print('colour' in str(build_document()))"
    assert "True" in project.passes(f'python manage.py shell -v 0 -c "{shown}"')


def test_an_alert_rule_takes_its_declaration_a_runbook_section_and_a_link(project: Project) -> None:
    check = f"{TEST} tests/documentation/test_operations.py -k 'rule or description'"
    rule = 'CountRule("too_quiet", Severity.WARNING, "no run has started", lambda at: iter(())),'
    project.insert("statecore/delivery/sinks/alert_rules.py", f"\n    {rule}", after="COUNT_RULES = (")

    assert "out of date: " in project.fails(CHECK)
    project.passes(GENERATE)
    assert "docs/how-to/respond-to-alerts.md needs a section for too_quiet" in project.fails(check)

    project.append("docs/how-to/respond-to-alerts.md", "\n## too_quiet\n\nStart a run.\n")
    project.passes(f"{CHECK} && {check}")

    link = f"{TEST} tests/dashboard/test_alert_links.py -k every_rule"
    assert "name a new rule in dashboard/queries/alert_links.py" in project.fails(link)
    runs = "lambda alert: _entities(Task.flow, 'state:pending')"
    project.insert("dashboard/queries/alert_links.py", f'\n    "too_quiet": {runs},', after="Link | None]] = {")
    project.passes(link)


def test_a_console_page_takes_a_view_a_template_and_a_route(project: Project) -> None:
    check = f"{TEST} tests/dashboard/test_permissions.py -k 'weather'"
    project.write(
        "templates/dashboard/weather.html",
        '{% extends "dashboard/base.html" %}{% block content %}<h1>Weather</h1>{% endblock %}\n',
    )
    view = '''"""The weather."""

from django.http import HttpRequest, HttpResponse

from statecore.dashboard import permissions, rendering


def weather(request: HttpRequest) -> HttpResponse:
    {permission}
    return rendering.render(request, "dashboard/weather.html", {{}})
'''
    project.write("dashboard/pages/weather.py", view.format(permission=""))
    project.insert("dashboard/urls.py", "from .pages import weather\n", before="from .pages import")
    project.insert(
        "dashboard/urls.py", '\n    path("weather/", weather.weather, name="weather"),', after="urlpatterns = ["
    )

    assert "must refuse nobody: add a permission to its view" in project.fails(check)

    permission = 'permissions.require_permission(request, "statecore.view_event")'
    project.write("dashboard/pages/weather.py", view.format(permission=permission))
    project.passes(check)


def test_a_rest_call_takes_a_view_with_its_declaration(project: Project) -> None:
    check = f"{TEST} tests/api/test_openapi.py -k 'not accepts_every_example'"
    view = '''"""The weather."""

from django.http import HttpResponse

from ..openapi.operation import operation
from ..openapi.schemas import STRING, obj
from ..request import Request
from ..responses import json_response
from ..views import ApiView


class Weather(ApiView):
    route = "weather/"

    {declaration}
    def get(self, request: Request) -> HttpResponse:
        return json_response({{"weather": "fair"}})
'''
    project.write("api/monitoring/weather.py", view.format(declaration=""))
    modules = "board, incidents, journal, machines, proofs"
    project.insert("api/urls.py", ", weather", after=f"from .monitoring import {modules}")
    project.insert("api/urls.py", ", weather", after=f"bulk, {modules}")

    assert "GET /api/v1/weather is not declared: decorate " in project.fails(CHECK)

    declaration = '@operation("Read the weather", {200: obj({"weather": STRING})})'
    project.write("api/monitoring/weather.py", view.format(declaration=declaration))
    project.passes(f"{GENERATE} && {CHECK} && {check}")
    assert "Read the weather" in (project.folder / "docs/reference/rest.md").read_text()


def test_a_setting_takes_its_declaration_and_its_use(project: Project) -> None:
    project.insert(
        "statecore/project/environment.py",
        '    weather: str = reporting("STATECORE_WEATHER", "weather that the console shows", "fair")\n',
        before="    host: str = network(",
    )
    project.insert(
        "statecore/project/defaults.py", "STATECORE_WEATHER = ENVIRONMENT.weather\n", before="STATECORE_ALERTS ="
    )

    assert "out of date: docs/reference/settings.md: run manage.py machines --docs" in project.fails(CHECK)

    project.passes(f"{GENERATE} && {CHECK}")
    shown = "from django.conf import settings; print(settings.STATECORE_WEATHER)"
    assert "rainy" in project.passes(f'STATECORE_WEATHER=rainy python manage.py shell -v 0 -c "{shown}"')


def test_a_sink_takes_its_file_and_a_place_in_the_list(project: Project) -> None:
    check = f"{TEST} tests/sinks/test_sinks.py"
    project.write(
        "statecore/delivery/sinks/weather.py",
        '''"""A sink that reads the events and stores nothing."""

from .sink import Batch, Sink
from statecore.api.responses import json_response


class Weather(Sink):
    name = "weather"

    def deliver(self, batch: Batch) -> None: ...
''',
    )

    assert "add Weather to create_sinks() in statecore/delivery/sinks/__init__.py" in project.fails(check)

    project.insert(
        "statecore/delivery/sinks/__init__.py", "from .weather import Weather\n", before="from .workstream_archive"
    )
    project.insert("statecore/delivery/sinks/__init__.py", "Weather(), ", after="return [")
    project.passes(f"{check} && python manage.py check && {CHECK}")
