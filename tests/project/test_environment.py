"""The settings that environment variables change."""

from pathlib import Path

import pytest

from statecore.kernel.repositories import RepositorySettings
from statecore.project import commands, environment
from statecore.project.refusal import Refused


def test_everything_has_a_default() -> None:
    env = environment.read({})

    assert env.home == Path.cwd() / ".state"
    assert (env.host, env.port) == ("127.0.0.1", 8000)
    assert env.database["NAME"] == str(env.home / "statecore.sqlite3")
    assert env.redis_is_embedded
    assert not env.debug
    assert not env.https


def test_an_empty_variable_counts_as_unset() -> None:
    unset = dict.fromkeys(("PORT", "HOST", "DATABASE_URL", "REDIS_URL", "STATECORE_HOME"), "")

    assert environment.read(unset) == environment.read({})


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("PORT", "http"),
        ("PORT", "0"),
        ("PORT", "65536"),
        ("PORT", "٨٠"),
        ("STATECORE_HTTPS", "yes"),
        ("STATECORE_DEBUG", "true"),
        ("STATECORE_LOG_FORMAT", "xml"),
        ("STATECORE_LOG_LEVEL", "loud"),
        ("STATECORE_SQLITE_SYNCHRONOUS", "MAYBE"),
        ("STATECORE_DATABASE_POOL", "-1"),
        ("DATABASE_URL", "mysql://host/name"),
        ("REDIS_URL", "amqp://host"),
        ("STATECORE_HOME", __file__),
        ("STATECORE_RECOVERY", "ingestion_job"),
        ("STATECORE_RECOVERY", "ingestion_job=never"),
        ("STATECORE_RECOVERY", "=auto"),
        ("STATECORE_PROBE_SECONDS", "0"),
        ("STATECORE_TRUSTED_PROXIES", "*"),
        ("STATECORE_TRUSTED_PROXIES", "proxy.example.org"),
        ("STATECORE_OIDC_ISSUER", "http://login.example.com"),
        ("STATECORE_OIDC_ISSUER", "https://login.example.com/?a=b"),
        ("STATECORE_SIGN_IN_ONLY", "1"),
        ("STATECORE_SIGN_IN_GROUPS", "engineers"),
        ("STATECORE_IDENTITY_HEADER", "X_Forwarded_User"),
        ("STATECORE_METRICS_TOKEN", "short"),
        ("STATECORE_METRICS_TOKEN", "long enough but with spaces"),
    ],
)
def test_a_wrong_value_is_refused_by_the_name_of_its_variable(name: str, value: str) -> None:
    with pytest.raises(Refused) as refusal:
        environment.read({name: value})

    assert name in refusal.value.sentence
    assert refusal.value.sentence.count("\n") == 0


def test_all_wrong_values_are_reported_at_once() -> None:
    with pytest.raises(Refused) as refusal:
        environment.read({"PORT": "http", "STATECORE_HTTPS": "yes", "STATECORE_LOG_LEVEL": "loud", "REDIS_URL": "x"})

    assert refusal.value.sentence.splitlines() == [
        "4 settings are wrong:",
        "  PORT is 'http', but it must be a number from 1 to 65535.",
        "  REDIS_URL has an unknown form; it should be redis://host:port/0, rediss://host:port/0 or unix:///path.",
        "  STATECORE_HTTPS is 'yes', but it must be one of 0, 1.",
        "  STATECORE_LOG_LEVEL is 'loud', but it must be one of DEBUG, INFO, WARNING, ERROR.",
    ]


def test_a_wrong_home_is_reported_without_the_settings_whose_default_depends_on_it() -> None:
    with pytest.raises(Refused, match=r"^statecore: STATECORE_HOME is [^\n]*, which is not a directory\.$"):
        environment.read({"STATECORE_HOME": __file__})


@pytest.mark.parametrize("name", ["STATECORE_METRICS_TOKEN", "DATABASE_URL", "REDIS_URL"])
def test_a_refused_secret_is_not_repeated(name: str) -> None:
    with pytest.raises(Refused) as refusal:
        environment.read({name: "redis://ann:hunt er2@host:port/x", "PORT": "0"})

    assert "hunt er2" not in refusal.value.sentence


def test_a_relative_home_starts_at_the_current_directory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)

    assert environment.read({"STATECORE_HOME": "there"}).home == tmp_path / "there"


def test_a_home_with_special_characters_holds_the_database(tmp_path: Path) -> None:
    home = tmp_path / "50% of #1?"

    database = environment.read({"STATECORE_HOME": str(home)}).database

    assert database["NAME"] == str(home / "statecore.sqlite3")


def test_loopback_the_given_hosts_and_the_listening_host_are_allowed() -> None:
    env = environment.read({"STATECORE_ALLOWED_HOSTS": "a.example, b.example", "HOST": "10.0.0.7"})

    assert env.allowed_hosts == [*("a.example", "b.example", "localhost", "127.0.0.1", "[::1]", "10.0.0.7")]


@pytest.mark.parametrize("host", ["0.0.0.0", "::"])  # noqa: S104
def test_listening_on_all_interfaces_allows_no_further_host(host: str) -> None:
    allowed = environment.read({"HOST": host}).allowed_hosts

    assert allowed == ["localhost", "127.0.0.1", "[::1]"]


def test_commands_and_patches_are_off_until_they_are_set() -> None:
    env = environment.read({})

    assert (env.gate_commands, env.repository, env.patch_test_command, env.notify_urls) == ((), None, "", ())


def test_gates_run_in_the_repository_by_default(tmp_path: Path) -> None:
    (tmp_path / ".git").mkdir()
    (tmp_path / "elsewhere").mkdir()
    given = {"STATECORE_REPOSITORY": str(tmp_path)}

    assert environment.read(given).gate_folder == tmp_path
    told = environment.read({**given, "STATECORE_GATE_FOLDER": str(tmp_path / "elsewhere")})
    assert told.gate_folder == tmp_path / "elsewhere"
    assert environment.read({"STATECORE_HOME": str(tmp_path)}).gate_folder == tmp_path / "gates"


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("STATECORE_GATE_COMMANDS", "pytest, ./script"),
        ("STATECORE_GATE_FOLDER", "/nowhere/at/all"),
        ("STATECORE_REPOSITORY", "/"),
        ("STATECORE_REPOSITORY", __file__),
        ("STATECORE_COMMANDS_AT_ONCE", "0"),
        ("STATECORE_PATCH_TEST_COMMAND", "pytest 'unclosed"),
        ("STATECORE_PATCH_TEST_COMMAND", "pytest -q"),
    ],
)
def test_a_wrong_executor_setting_is_refused_by_its_name(name: str, value: str) -> None:
    with pytest.raises(Refused) as refusal:
        environment.read({name: value})

    assert name in refusal.value.sentence


@pytest.fixture
def repositories(tmp_path: Path) -> dict[str, str]:
    """The environment with a default repository and a file of further ones, which tests write."""
    for name in ("shop", "docs"):
        (tmp_path / name / ".git").mkdir(parents=True)
    return {
        "STATECORE_GATE_COMMANDS": "pytest",
        "STATECORE_REPOSITORY": str(tmp_path / "shop"),
        "STATECORE_REPOSITORIES": str(tmp_path / "repositories.toml"),
    }


def test_a_file_names_further_repositories(repositories: dict[str, str], tmp_path: Path) -> None:
    text = f'[docs]\npath = "{tmp_path}/docs"\nbranch = "main"\ntest_command = "pytest -q"\n'
    (tmp_path / "repositories.toml").write_text(text)

    found = environment.read(repositories).repositories

    assert found == {"docs": RepositorySettings(tmp_path / "docs", "main", "pytest -q")}


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("path = ", "cannot be read: invalid value"),
        ('[default]\npath = "{0}/docs"', "'default', which must be other than default"),
        ('[Docs]\npath = "{0}/docs"', "'Docs', which must be"),
        ('[docs]\npath = "{0}"', "which is not the absolute path of a git work tree"),
        ('[docs]\npath = "docs"', "which is not the absolute path of a git work tree"),
        ('[docs]\npath = "{0}/shop"', "which STATECORE_REPOSITORY has too"),
        ('[docs]\npath = "{0}/docs"\n[more]\npath = "{0}/docs"', "which docs has too"),
        ('[docs]\npath = "{0}/docs"\ntest_command = "make"', "runs 'make', which STATECORE_GATE_COMMANDS does not"),
        ('[docs]\npath = "{0}/docs"\ncolour = "red"', "must have only the texts path, branch, test_command"),
    ],
)
def test_a_wrong_repository_is_refused(repositories: dict[str, str], tmp_path: Path, text: str, complaint: str) -> None:
    (tmp_path / "repositories.toml").write_text(text.format(tmp_path))

    with pytest.raises(Refused) as refusal:
        environment.read(repositories)

    assert refusal.value.sentence.startswith("STATECORE_REPOSITORIES ")
    assert complaint in refusal.value.sentence


def test_further_repositories_need_the_default_one_and_a_file(repositories: dict[str, str]) -> None:
    with pytest.raises(Refused, match="which cannot be read: no such file"):
        environment.read(repositories)
    with pytest.raises(Refused, match="needs STATECORE_REPOSITORY"):
        environment.read({**repositories, "STATECORE_REPOSITORY": ""})


def test_the_executors_have_a_thread_for_each_command_and_each_repository(
    repositories: dict[str, str], tmp_path: Path
) -> None:
    (tmp_path / "repositories.toml").write_text(f'[docs]\npath = "{tmp_path}/docs"\n')
    env = environment.read({**repositories, "STATECORE_COMMANDS_AT_ONCE": "6"})

    assert "--concurrency=8" in commands.executors(env)
