"""The tests' own short cut: a further application of a process compiles no route again."""

from __future__ import annotations

from pathlib import Path
from typing import Any
from unittest import mock

from tests.support import routes_once
from tests.support.services import serving_api

from solward_server.serve import create_app


async def test_a_further_application_compiles_hardly_a_route(tmp_path: Path) -> None:
    compile_rule, compiled = routes_once._compile, []

    def counted(rule: Any) -> None:
        compiled.append(rule.rule)
        compile_rule(rule)

    async with serving_api(tmp_path / "home") as api:
        with mock.patch.object(routes_once, "_compile", counted):
            app = create_app(api.service)
    # A rule with a converter of its own, or with defaults, is compiled each time.
    assert len(compiled) < 10 < len(list(app.url_map.iter_rules()))
