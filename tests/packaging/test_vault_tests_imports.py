"""The tests of the vault do not import the server."""

from __future__ import annotations

import ast
from functools import cache
from pathlib import Path

ROOT = Path(__file__).parents[2]
ABOVE = {"solward_server", "solward_cli", "solward_dashboard", "solward_mcp"}


@cache
def imported(file: Path) -> frozenset[str]:
    names = set()
    for node in ast.walk(ast.parse(file.read_text())):
        if isinstance(node, ast.Import):
            names |= {each.name for each in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
            names |= {node.module, *(f"{node.module}.{each.name}" for each in node.names)}
    return frozenset(names)


def reaches_above(file: Path) -> bool:
    """Says whether a test file imports what is above the vault, directly or through others."""
    seen, waiting = {file}, [file]
    while waiting:
        for name in imported(waiting.pop()):
            if name.partition(".")[0] in ABOVE:
                return True
            other = ROOT.joinpath(*name.split(".")).with_suffix(".py")
            if name.startswith("tests.") and other.is_file() and other not in seen:
                seen.add(other)
                waiting.append(other)
    return False


def test_no_test_of_the_vault_imports_the_server() -> None:
    vault = ROOT / "tests" / "vault"
    found = {str(file.relative_to(vault)) for file in vault.rglob("*.py") if reaches_above(file)}
    assert found == set()
