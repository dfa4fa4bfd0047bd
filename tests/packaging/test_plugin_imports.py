from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

import solward

ROOT = Path(__file__).parents[2]
MODULES = sorted((ROOT / "plugins" / "solward_plugins").rglob("*.py"))


def imports(path: Path) -> Iterator[tuple[str, str]]:
    """Each import as (module, name), name empty for a plain `import`."""
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            yield from ((alias.name, "") for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            yield from (("." * node.level + (node.module or ""), each.name) for each in node.names)


@pytest.mark.parametrize("path", MODULES, ids=lambda path: path.stem)
def test_a_built_in_plugin_uses_only_what_a_third_party_may(path: Path) -> None:
    private = [
        (module, name)
        for module, name in imports(path)
        if module.split(".")[0] in ("solward", "solward_server", "solward_cli", "")
        if module != "solward" or name not in solward.__all__
    ]
    assert private == []


def test_the_check_sees_the_plugins() -> None:
    assert {"transfer", "check_balance"} <= {path.stem for path in MODULES}
