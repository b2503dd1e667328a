"""Simultaneous submissions of the same form; committed, so that each request sees the others."""

from __future__ import annotations

from functools import partial

import pytest
from django.contrib.auth.models import User
from django.test import Client
from django.urls import reverse

from statecore.records import BulkJob
from tests.dashboard.test_bulk import chosen
from tests.support import world
from tests.support.together import run_concurrently


@pytest.mark.django_db(transaction=True)
def test_three_simultaneous_submissions_create_one_job() -> None:
    user, made = User.objects.create_superuser("ada"), [world.run(id=f"thrice-{number}").pk for number in range(3)]
    clients = [Client() for _ in range(3)]
    for each in clients:
        each.force_login(user)
    address = chosen(clients[0], ids=made)
    send = {"trigger": "run_canceled", "reason": "sent by an impatient hand"}

    answers = run_concurrently([partial(each.post, address, send) for each in clients])

    job = BulkJob.objects.get()
    assert [answer["Location"] for answer in answers] == [reverse("console:bulk_job", args=[job.pk])] * 3
    assert (job.done, job.refused) == (3, 0)
