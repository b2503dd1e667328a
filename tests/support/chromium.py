"""Debian's Chromium, as a program without a screen needs it."""

from __future__ import annotations

import shutil
from typing import Any

ALONE = ("--no-first-run", "--disable-background-networking", "--disable-component-update", "--disable-sync")
# What its address bar would show is a page of its own, made for every window: more work than most of ours.
ADDRESS_BAR = ("WebUIOmniboxPopup", "WebUIOmniboxAimPopup")
# Chromium obeys the last list alone, so ours replaces Playwright's. Off here as there is what a test could notice: an
# address without TLS is not tried with it, and a page is painted at once.
OF_PLAYWRIGHT = ("HttpsUpgrades", "PaintHolding")
WITHOUT = f"--disable-features={','.join((*ADDRESS_BAR, *OF_PLAYWRIGHT))}"


def options() -> dict[str, Any]:
    """What Playwright is to launch it with; the same pages without the windows around them, where that is there."""
    return {
        "executable_path": shutil.which("chromium-headless-shell") or shutil.which("chromium"),
        "args": ["--no-sandbox", "--disable-gpu", *ALONE, WITHOUT],
    }
