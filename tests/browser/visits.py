"""Pages that a test opens in a browser, and the errors that the browser reports."""

from __future__ import annotations

from typing import Any

WATCH_POLICY = """
document.addEventListener("securitypolicyviolation", (event) =>
  console.error(`content security policy: ${event.violatedDirective} ${event.blockedURI} ${event.sample}`));
"""


class Visits:
    """Opens each page in a new browser context for a user and collects errors.

    A test that breaks a connection calls `expect_errors`: some of what the browser then reports arrives later.
    """

    def __init__(self, url: str, browser: Any, sessions: dict[str, Any]) -> None:
        self.url, self.browser, self.sessions = url, browser, sessions
        self.contexts: list[Any] = []
        self.errors: list[str] = []
        self.expects_errors = False

    def __call__(self, path: str, who: str = "supervisor", **looks: Any) -> Any:
        viewport = looks.pop("viewport", {"width": 1280, "height": 800})
        context = self.browser.new_context(storage_state=self.sessions.get(who), viewport=viewport, **looks)
        self.contexts.append(context)
        context.add_init_script(WATCH_POLICY)
        context.set_default_timeout(30_000)
        page = context.new_page()
        page.on("console", self._collect)
        page.on("pageerror", lambda error: self.errors.append(str(error)))
        page.goto(f"{self.url}{path}")
        return page

    def _collect(self, message: Any) -> None:
        # Errors from scripts that axe injects have no URL.
        if message.type == "error" and message.location["url"]:
            self.errors.append(message.text)

    def expect_errors(self) -> None:
        self.expects_errors = True

    def close(self) -> None:
        """Closes every page; fails if the browser reported errors that the test does not expect."""
        for context in self.contexts:
            context.close()
        assert self.expects_errors or self.errors == []
