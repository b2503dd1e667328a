"""Two-factor authentication: enrolment, login, recovery codes, lockout, required and disabled."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from io import StringIO
from typing import Any

import pytest
import time_machine
from django.conf import settings as configured
from django.contrib.auth.models import User
from django.core.management import CommandError, call_command
from django.test import Client
from django.urls import reverse
from django_otp.oath import totp

from statecore.dashboard import second_factor

pytestmark = pytest.mark.once_on("sqlite")

PASSWORD = "correct horse battery"
PAGE, CODE, ENROL = "/second-factor/", "/login/code/", "/login/enrol/"


@pytest.fixture
def clock() -> Iterator[Any]:
    with time_machine.travel(datetime(2031, 5, 4, 12, tzinfo=UTC), tick=False) as traveller:
        yield traveller


@pytest.fixture
def ann(db: Any, clock: Any) -> User:
    return User.objects.create_superuser("ann", password=PASSWORD)


def code_of(user: User) -> str:
    device = second_factor.get_device(user) or second_factor.start_enrolment(user)
    return f"{totp(device.bin_key, device.step, device.t0, device.digits, device.drift):06}"


def wait(clock: Any) -> None:
    """Waits for the next code, because each is valid once."""
    clock.shift(timedelta(minutes=1))


def enrolled(user: User, clock: Any) -> list[str]:
    codes = second_factor.confirm_enrolment(user, code_of(user))
    wait(clock)
    return codes


def password_step(client: Client, following: str = "") -> Any:
    return client.post(reverse("console:login"), {"username": "ann", "password": PASSWORD, "next": following})


def is_in(client: Client) -> bool:
    return client.get(reverse("console:tokens")).status_code == 200


def test_without_a_second_factor_the_password_is_enough(ann: User, client: Client) -> None:
    assert password_step(client)["Location"] == "/"
    assert is_in(client)


def test_enrolment_requires_a_code_and_the_password(ann: User, client: Client, clock: Any) -> None:
    client.force_login(ann)
    page = client.get(PAGE)
    device = second_factor.start_enrolment(ann)
    assert "<svg" in page.content.decode()
    assert second_factor.format_secret(device) in page.content.decode()
    assert client.post(PAGE, {"do": "enrol", "code": code_of(ann), "password": "wrong"}).status_code == 422
    assert client.post(PAGE, {"do": "enrol", "code": "000000", "password": PASSWORD}).status_code == 422
    assert second_factor.get_device(ann) is None

    wait(clock)
    answer = client.post(PAGE, {"do": "enrol", "code": code_of(ann), "password": PASSWORD})

    assert len(answer.context["codes"]) == second_factor.RECOVERY_CODES
    assert second_factor.get_device(ann) is not None
    shown_again = client.get(PAGE).content.decode()
    assert not any(code in shown_again for code in answer.context["codes"])
    assert second_factor.format_secret(device) not in shown_again


def test_the_password_alone_opens_nothing_and_the_code_does(ann: User, client: Client, clock: Any) -> None:
    enrolled(ann, clock)
    assert password_step(client, "/stuck/")["Location"] == f"{CODE}?next=%2Fstuck%2F"
    assert not is_in(client)
    assert client.get("/api/v1/stats/").status_code == 401

    answer = client.post(f"{CODE}?next=/stuck/", {"code": code_of(ann), "next": "/stuck/"})

    assert answer["Location"] == "/stuck/"
    assert is_in(client)


def test_a_code_works_once(ann: User, clock: Any) -> None:
    enrolled(ann, clock)
    code, answers = code_of(ann), []
    for client in (Client(), Client()):
        password_step(client)
        answers.append(client.post(CODE, {"code": code}).status_code)

    assert answers == [302, 200]


def test_a_recovery_code_works_once(ann: User, clock: Any) -> None:
    recovery_codes = enrolled(ann, clock)
    answers = []
    for client in (Client(), Client()):
        password_step(client)
        answers.append(client.post(CODE, {"code": f" {recovery_codes[0].upper()} "}).status_code)

    assert answers == [302, 200]
    assert second_factor.count_recovery_codes(ann) == second_factor.RECOVERY_CODES - 1


def test_recovery_codes_are_stored_as_hashes(ann: User, clock: Any) -> None:
    from django_otp.plugins.otp_static.models import StaticToken

    recovery_codes = enrolled(ann, clock)
    kept = set(StaticToken.objects.values_list("token", flat=True))
    assert not kept & {second_factor.normalize_code(code) for code in recovery_codes}


def test_the_code_step_requires_the_password_step(ann: User, client: Client, clock: Any) -> None:
    enrolled(ann, clock)
    assert client.get(CODE)["Location"] == "/login/"
    assert client.post(CODE, {"code": code_of(ann)})["Location"] == "/login/"
    assert not is_in(client)


def test_the_password_step_expires_after_some_minutes(ann: User, client: Client, clock: Any) -> None:
    enrolled(ann, clock)
    password_step(client)
    clock.shift(second_factor.PENDING_LIFETIME + timedelta(seconds=1))

    assert client.post(CODE, {"code": code_of(ann)})["Location"] == "/login/"


@pytest.mark.parametrize("place", ["https://elsewhere.example/", "//elsewhere.example", "javascript:alert(1)"])
def test_the_login_redirects_only_within_the_site(place: str, ann: User, client: Client, clock: Any) -> None:
    enrolled(ann, clock)
    password_step(client)
    assert client.post(CODE, {"code": code_of(ann), "next": place})["Location"] == "/"


def test_wrong_codes_lock_the_login_despite_the_right_password(ann: User, client: Client, clock: Any) -> None:
    enrolled(ann, clock)
    answers = []
    for _ in range(configured.AXES_FAILURE_LIMIT):
        password_step(client)  # a right password does not reset the count
        answers.append(client.post(CODE, {"code": "000000"}).status_code)
    assert answers == [200] * (configured.AXES_FAILURE_LIMIT - 1) + [429]

    assert client.post(CODE, {"code": code_of(ann)}).status_code == 429
    assert password_step(client).status_code == 429
    assert not is_in(client)


@pytest.mark.parametrize("code", ["", "\0", "é" * 50, "9" * 400, "-", "\uff11\uff12"])
def test_no_code_causes_a_server_error(code: str, ann: User, client: Client, clock: Any) -> None:
    enrolled(ann, clock)
    password_step(client)
    assert client.post(CODE, {"code": code}).status_code == 200
    assert not is_in(client)


def test_turning_it_off_and_new_recovery_codes_require_a_code(ann: User, client: Client, clock: Any) -> None:
    old = enrolled(ann, clock)
    client.force_login(ann)
    assert client.post(PAGE, {"do": "renew", "code": "000000"}).status_code == 422
    wait(clock)
    new = client.post(PAGE, {"do": "renew", "code": code_of(ann)}).context["codes"]
    assert not set(old) & set(new)

    wait(clock)
    assert client.post(PAGE, {"do": "remove", "code": old[0]}).status_code == 422
    wait(clock)
    assert client.post(PAGE, {"do": "remove", "code": new[0]}).status_code == 302
    assert second_factor.get_device(ann) is None
    assert not second_factor.count_recovery_codes(ann)


def test_where_required_enrolment_is_part_of_the_login(ann: User, client: Client, clock: Any, settings: Any) -> None:
    settings.STATECORE_SECOND_FACTOR = "required"
    assert password_step(client, "/stuck/")["Location"] == f"{ENROL}?next=%2Fstuck%2F"
    assert "<svg" in client.get(ENROL).content.decode()
    assert client.post(ENROL, {"code": "000000"}).context["is_wrong"]
    assert not is_in(client)
    wait(clock)

    answer = client.post(ENROL, {"code": code_of(ann), "next": "/stuck/"})

    assert len(answer.context["codes"]) == second_factor.RECOVERY_CODES
    assert b'href="/stuck/"' in answer.content
    assert is_in(client)
    wait(clock)
    assert client.post(PAGE, {"do": "remove", "code": code_of(ann)}).status_code == 422
    assert client.get(ENROL)["Location"] == "/login/"  # enrolment happens once


def test_a_session_without_the_required_second_factor_ends(ann: User, client: Client, settings: Any) -> None:
    password_step(client)
    assert is_in(client)
    settings.STATECORE_SECOND_FACTOR = "required"

    assert client.get("/api/v1/stats/").status_code == 401
    assert client.get(reverse("console:tokens"))["Location"].startswith("/login/")
    settings.STATECORE_SECOND_FACTOR = "optional"
    assert not is_in(client)


def test_where_disabled_there_is_no_code_step_and_no_enrolment(
    ann: User, client: Client, clock: Any, settings: Any
) -> None:
    enrolled(ann, clock)
    settings.STATECORE_SECOND_FACTOR = "off"

    assert password_step(client)["Location"] == "/"
    assert client.get(PAGE).status_code == 404
    assert b"second-factor" not in client.get(reverse("console:tokens")).content


def test_the_admin_uses_the_login_of_the_console(ann: User, people: dict[str, Any], client: Client, clock: Any) -> None:
    enrolled(ann, clock)
    assert client.get("/admin/", follow=True).redirect_chain[-1][0] == "/login/?next=%2Fadmin%2F"
    assert client.post("/admin/login/", {"username": "ann", "password": PASSWORD}).status_code == 405
    assert password_step(client, "/admin/")["Location"].startswith(CODE)
    assert client.get("/admin/").status_code == 302
    client.post(CODE, {"code": code_of(ann)})
    assert client.get("/admin/").status_code == 200

    client.force_login(people["supervisor"])
    assert client.get("/admin/", follow=True).status_code == 403


def test_secrets_are_not_in_the_admin(ann: User, client: Client) -> None:
    client.force_login(ann)
    assert client.get("/admin/otp_totp/totpdevice/").status_code == 404
    assert client.get("/admin/otp_static/staticdevice/").status_code == 404


def test_a_command_turns_the_second_factor_off(ann: User, clock: Any) -> None:
    enrolled(ann, clock)
    output = StringIO()
    call_command("second_factor", "ann", stdout=output)
    call_command("second_factor", "ann", "--remove", stdout=output)
    call_command("second_factor", "ann", stdout=output)

    assert output.getvalue().splitlines() == [
        "ann: set up, 8 recovery codes left",
        "ann: turned off",
        "ann: not set up",
    ]
    with pytest.raises(CommandError, match="there is no user bob"):
        call_command("second_factor", "bob")
