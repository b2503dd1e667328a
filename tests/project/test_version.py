"""The version is written once, in `statecore/__init__.py`."""

from __future__ import annotations

import tomllib

import pytest

from api.cli.main import main
from statecore import __version__
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


def test_the_distribution_takes_it_from_the_package() -> None:
    configuration = tomllib.loads((ROOT / "pyproject.toml").read_text())

    assert configuration["project"]["dynamic"] == ["version"]
    assert configuration["tool"]["setuptools"]["dynamic"]["version"] == {"attr": "statecore.__version__"}
