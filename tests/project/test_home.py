"""The home directory and its secret key."""

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from statecore.project import home as home_directory
from statecore.project.refusal import Refused


def mode(path: Path) -> int:
    return path.stat().st_mode & 0o777


def test_the_key_is_generated_once_and_kept(tmp_path: Path) -> None:
    assert home_directory.read_secret_key(tmp_path / "home") == home_directory.read_secret_key(tmp_path / "home")


def test_only_the_owner_may_read_it(tmp_path: Path) -> None:
    home_directory.read_secret_key(tmp_path / "home")

    assert mode(tmp_path / "home") == 0o700
    assert mode(tmp_path / "home" / "secrets.json") == 0o600


def test_two_homes_have_two_keys(tmp_path: Path) -> None:
    assert home_directory.read_secret_key(tmp_path / "a") != home_directory.read_secret_key(tmp_path / "b")


def test_processes_that_start_together_agree_on_one_key(tmp_path: Path) -> None:
    with ThreadPoolExecutor(16) as threads:
        keys = set(threads.map(home_directory.read_secret_key, [tmp_path / "home"] * 16))

    assert len(keys) == 1
    assert [path.name for path in (tmp_path / "home").iterdir()] == ["secrets.json"]


@pytest.mark.parametrize("content", ["", "{", "[]", "{}", '{"secret_key": 7}', '{"secret_key": ""}'])
def test_a_damaged_file_is_refused_and_left_alone(tmp_path: Path, content: str) -> None:
    file = tmp_path / "secrets.json"
    file.write_text(content)

    with pytest.raises(Refused, match="is damaged"):
        home_directory.read_secret_key(tmp_path)

    assert file.read_text() == content
