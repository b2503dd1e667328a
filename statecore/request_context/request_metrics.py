"""Metrics of HTTP: requests by route, their failures, their time, and the part of it that the database took."""

from __future__ import annotations

from functools import cache

from django.http import HttpRequest
from prometheus_client import Counter, Histogram

from ..storage.statement_metrics import Statements

METHODS = {"DELETE", "GET", "HEAD", "OPTIONS", "PATCH", "POST", "PUT"}
OTHER = "other"
BUCKETS = (0.01, 0.05, 0.2, 1, 5)

requests_total = Counter(
    "statecore_http_requests_total", "Requests by route and status: 2xx, 3xx, 4xx, 5xx", ["method", "route", "status"]
)
request_seconds = Histogram(
    "statecore_http_request_duration_seconds", "Time to the response, of a stream to its beginning",
    ["method", "route"], buckets=BUCKETS,
)  # fmt: skip
statement_seconds = Counter(
    "statecore_http_database_seconds_total", "Time that requests waited for the database", ["method", "route"]
)
statements_total = Counter(
    "statecore_http_database_statements_total", "SQL statements of requests", ["method", "route"]
)

# Looking up labels takes as long as counting.
_requests = cache(requests_total.labels)
_seconds = cache(request_seconds.labels)
_statement_seconds = cache(statement_seconds.labels)
_statements = cache(statements_total.labels)


def count_request(request: HttpRequest, status: int, seconds: float, statements: Statements) -> None:
    method, route = get_method(request), get_route(request)
    _requests(method, route, f"{status // 100}xx").inc()
    _seconds(method, route).observe(seconds)
    if statements.count:
        _statements(method, route).inc(statements.count)
        _statement_seconds(method, route).inc(statements.seconds)


def get_method(request: HttpRequest) -> str:
    """The method, if it is one of HTTP's: callers may send any word, and each would be a time series."""
    return request.method if request.method in METHODS else OTHER


def get_route(request: HttpRequest) -> str:
    """The template of the path, such as `api/v1/tasks/<str:entity_id>/`; `other` for a path that no route matches."""
    return request.resolver_match.route if request.resolver_match else OTHER
