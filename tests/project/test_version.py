"""The version is written once, in `client/statecore_client/version.py`."""

from __future__ import annotations

import tomllib

import pytest
from packaging.requirements import Requirement
from packaging.version import Version

from statecore import __version__
from statecore_client.cli.main import main
from tests.api.callers import Caller, expect_ok
from tests.support.site import ROOT


def test_the_command_line_prints_it(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        main(["--version"])

    assert ended.value.code == 0
    assert capsys.readouterr().out == f"statecore {__version__}\n"


@pytest.mark.django_db
def test_the_openapi_schema_states_it() -> None:
    assert expect_ok(Caller("read").get("schema/"))["info"]["version"] == __version__


@pytest.mark.parametrize("file", ["pyproject.toml", "client/pyproject.toml"])
def test_the_distributions_take_it_from_the_package(file: str) -> None:
    configuration = tomllib.loads((ROOT / file).read_text())

    assert configuration["project"]["dynamic"] == ["version"]
    assert configuration["tool"]["setuptools"]["dynamic"]["version"] == {"attr": "statecore_client.version.__version__"}


def test_the_server_requires_the_client_of_its_version() -> None:
    configuration = tomllib.loads((ROOT / "pyproject.toml").read_text())
    (text,) = [each for each in configuration["project"]["dependencies"] if each.startswith("statecore-client")]

    assert Requirement(text).specifier.contains(__version__)
    assert not Requirement(text).specifier.contains(f"{Version(__version__).major}.{Version(__version__).minor + 1}.0")
