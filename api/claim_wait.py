"""How long a claim waits for a task: `?wait=SECONDS`, `Prefer: wait=SECONDS` (RFC 7240), or `wait` in the body.

A proxy sees the first two and passes such claims to the ASGI server, where waiting takes no thread. The WSGI server
serves the others; it does not wait, and passes on a claim whose body requests it (header `PASS_ON`).
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

from statecore.kernel.refusals import Invalid

MAX_WAIT_SECONDS = 30
SECONDS = re.compile(r"[0-9]{1,9}(?:\.[0-9]{1,20})?(?:e[+-]?[0-9]{1,3})?", re.ASCII | re.IGNORECASE)
PREFERENCE = re.compile(r"(?:^|,)\s*wait\s*=\s*\"?([0-9]{1,9})\"?\s*(?:$|[;,])", re.ASCII | re.IGNORECASE)
# nginx repeats the request at its location @live (deploy/nginx/locations.conf).
PASS_ON, AT_LIVE = "X-Accel-Redirect", "@live"


def read_wait(query: Mapping[str, Sequence[str]], prefer: str, in_body: float) -> float:
    """Returns the seconds to wait; the query comes before the header, and the header before the body.

    Raises Invalid for a query that is not a time. A preference that is not one is ignored, and a longer one is cut.
    """
    if "wait" in query:
        return _parse_seconds(query["wait"][-1])
    found = PREFERENCE.search(prefer)
    return min(float(found[1]), MAX_WAIT_SECONDS) if found else in_body


def _parse_seconds(text: str) -> float:
    if not SECONDS.fullmatch(text) or float(text) > MAX_WAIT_SECONDS:
        raise Invalid({"wait": [f"must be seconds from 0 to {MAX_WAIT_SECONDS}."]})
    return float(text)
