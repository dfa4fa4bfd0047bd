"""What a run needs beside pytest-timeout to end: that stops with a test's first exception."""

from __future__ import annotations

import signal
from collections.abc import Generator
from typing import Any

import pytest

REPEAT_S = 30
_SETTINGS = pytest.StashKey[Any]()


@pytest.hookimpl(wrapper=True)
def pytest_timeout_set_timer(item: pytest.Item, settings: Any) -> Generator[None, Any, Any]:
    """Repeat a test's alarm: an event loop may swallow the exception of the first."""
    result = yield
    item.stash[_SETTINGS] = settings
    left, _ = signal.getitimer(signal.ITIMER_REAL)
    signal.setitimer(signal.ITIMER_REAL, left, min(left, REPEAT_S))
    return result


@pytest.hookimpl(wrapper=True)
def pytest_runtest_teardown(item: pytest.Item) -> Generator[None, Any, Any]:
    """Give the fixtures of a failed test its time anew: what it waits for may hang them too."""
    if _SETTINGS in item.stash and not signal.getitimer(signal.ITIMER_REAL)[0]:
        settings = item.stash[_SETTINGS]
        item.config.hook.pytest_timeout_set_timer(item=item, settings=settings)
    return (yield)
