"""The building blocks of state machines; this package knows no specific machine."""
