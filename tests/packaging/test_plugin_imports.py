from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.support.repository import ROOT

import solward

FOLDERS = (
    "plugins/solward_plugins",
    "plugin_template",
    "examples/http_provider",
    "examples/http_skill",
    "examples/dca_skill",
    "examples/price_alert",
    "examples/payroll",
    "examples/solana_skills",
)
MODULES = sorted(path for folder in FOLDERS for path in (ROOT / folder).rglob("*.py"))
# What a plugin's own tests stand on besides.
KIT = "solward.testing"


def imports(path: Path) -> Iterator[tuple[str, str]]:
    """Each import as (module, name), name empty for a plain `import`."""
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            yield from ((alias.name, "") for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            yield from (("." * node.level + (node.module or ""), each.name) for each in node.names)


@pytest.mark.parametrize("path", MODULES, ids=lambda path: str(path.relative_to(ROOT)))
def test_a_plugin_uses_only_the_public_surface(path: Path) -> None:
    private = [
        (module, name)
        for module, name in imports(path)
        if module.split(".")[0] in ("solward", "solward_server", "solward_cli", "")
        if module != "solward" or name not in solward.__all__
        if module != KIT or "tests" not in path.parts
    ]
    assert private == []


def test_the_check_sees_the_plugins() -> None:
    assert {"pay_request", "tip", "token_transfer", "mine"} <= {path.stem for path in MODULES}
