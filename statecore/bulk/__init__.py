"""Bulk: one action for many entities, in the request while they are few, otherwise as a job that can be stopped."""

from .actions import BulkAction, Request, list_actions, list_names, resolve
from .results import Result, count_caused, serialize_item

__all__ = [
    "BulkAction",
    "Request",
    "Result",
    "count_caused",
    "list_actions",
    "list_names",
    "resolve",
    "serialize_item",
]
