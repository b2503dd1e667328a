"""Prefect's server like `prefect server start --no-services`: one uvicorn process, run by the peer's interpreter.

The PostgreSQL from the wheel lacks the extension pg_trgm. Prefect uses it for indexes on partial names, which the
benchmark does not need; they are skipped.
"""

import sys
from typing import Any

import uvicorn
from prefect.server.api.server import create_app
from sqlalchemy import Engine, event


def without_search(
    connection: Any, cursor: Any, statement: str, parameters: Any, context: Any, executemany: bool
) -> tuple[str, Any]:
    return ("SELECT 1", ()) if "trgm" in statement else (statement, parameters)


event.listen(Engine, "before_cursor_execute", without_search, retval=True)
host, port = sys.argv[1:]
application = create_app(final=True, webserver_only=True)
uvicorn.run(application, host=host, port=int(port), log_level="error", timeout_keep_alive=60)
