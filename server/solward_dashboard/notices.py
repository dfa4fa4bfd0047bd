"""Notices that pass over a page."""

from __future__ import annotations

from nicegui import ui

from solward_dashboard.wording import local_times


def notify_error(error: Exception | str) -> None:
    """What the service refused and why, as a page shows its texts."""
    ui.notify(local_times(str(error)), type="negative", multi_line=True)
