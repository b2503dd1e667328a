"""`statecore call`: each method of the client is a verb."""

from __future__ import annotations

from statecore.records import Hold
from tests.cli.process import Statecore
from tests.support import world


def test_any_call_is_performed_with_arguments_by_position_and_by_name(statecore: Statecore) -> None:
    task = world.task(id="123")
    made = statecore("call", "place_hold", "everything", "reason=deploy", "expires_at=2099-01-01T00:00:00Z").json[0]
    assert Hold.objects.get().pk == made["id"]
    assert made["expires_at"].startswith("2099-01-01")
    assert statecore("call", "get_hold", made["id"]).json == [made]
    assert [each["id"] for each in statecore("call", "list_holds", "status=active").json] == [made["id"]]
    assert statecore("call", "get", "tasks", "123").json[0]["id"] == task.pk
    assert statecore("call", "edit", "tasks", "123", 'metadata={"a": 1}').json[0]["metadata"] == {"a": 1}
    assert statecore("call", "explain", "tasks", "none", code=5).err


def test_the_calls_are_listed_and_wrong_ones_name_what_is_missing(statecore: Statecore) -> None:
    listed = statecore("call").out
    assert "list_account_entries" in listed
    assert "Release a hold." in listed
    assert "no call fly" in statecore("call", "fly", code=2).err
    assert "reason" in statecore("call", "release_hold", "h", code=2).err
    assert "is no time" in statecore("call", "place_hold", "everything", "reason=x", "expires_at=soon", code=2).err
