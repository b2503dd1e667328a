"""Launch options for Debian's Chromium without a display."""

from __future__ import annotations

import shutil
from typing import Any

ALONE = ("--no-first-run", "--disable-background-networking", "--disable-component-update", "--disable-sync")
# The address bar's popups are pages that every window renders, at a higher cost than most of our pages.
ADDRESS_BAR = ("WebUIOmniboxPopup", "WebUIOmniboxAimPopup")
# Chromium only applies the last --disable-features, so ours replaces Playwright's and repeats what a test could notice:
# no upgrade of http to https, and no delay before the first paint.
OF_PLAYWRIGHT = ("HttpsUpgrades", "PaintHolding")
WITHOUT = f"--disable-features={','.join((*ADDRESS_BAR, *OF_PLAYWRIGHT))}"


def options() -> dict[str, Any]:
    """Arguments for Playwright's launch(); uses the headless shell where it is installed."""
    return {
        "executable_path": shutil.which("chromium-headless-shell") or shutil.which("chromium"),
        "args": ["--no-sandbox", "--disable-gpu", *ALONE, WITHOUT],
    }
