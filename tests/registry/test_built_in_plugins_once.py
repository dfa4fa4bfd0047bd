"""A process checks its built-in plugins once, and again where one of their hooks is another."""

from __future__ import annotations

from typing import Any

import pytest

from solward import hookimpl
from solward.plugins import load
from solward.plugins.load import load_registry
from solward_plugins.skills import pay_request


def test_a_further_registry_checks_no_built_in_plugin_again(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    checked, times = load.check_plugins, []

    def counted(*given: Any) -> Any:
        times.append(1)
        return checked(*given)

    monkeypatch.setattr(load, "check_plugins", counted)
    monkeypatch.setattr(load, "_BUILT_IN", {})
    first, second = load_registry(()), load_registry(())
    assert len(times) == 1
    assert first.skills["pay_request"] is second.skills["pay_request"]

    spec = pay_request.skill_spec
    monkeypatch.setattr(pay_request, "skill_spec", hookimpl(lambda: spec()))
    load_registry(())
    assert len(times) == 2
