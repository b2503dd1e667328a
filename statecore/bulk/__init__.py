"""Bulk: one action for many entities, in the request while they are few, otherwise as a job that can be stopped."""

from .actions import list_actions, list_names, resolve
from .base import BulkAction, Name, Request
from .results import Result, count_caused, serialize_item

__all__ = [
    "BulkAction",
    "Name",
    "Request",
    "Result",
    "count_caused",
    "list_actions",
    "list_names",
    "resolve",
    "serialize_item",
]
