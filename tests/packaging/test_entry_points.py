from __future__ import annotations

import importlib
import tomllib
from importlib.metadata import distribution

import pytest
from tests.support.repository import ROOT

from solward.plugins import load_registry

PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())
DECLARED: dict[str, dict[str, str]] = PROJECT["project"]["entry-points"]
OWN = {group: plugins for group, plugins in DECLARED.items() if group.startswith("solward.")}
PLUGINS = [(group, name) for group, plugins in OWN.items() for name in plugins]


def test_the_installed_entry_points_are_those_of_pyproject() -> None:
    # An editable install keeps the old ones until it is installed again.
    installed: dict[str, dict[str, str]] = {}
    for each in distribution("solward").entry_points:
        if each.group in DECLARED:
            installed.setdefault(each.group, {})[each.name] = each.value
    assert installed == DECLARED, "run `make install` again"


@pytest.mark.parametrize(("group", "name"), PLUGINS)
def test_each_plugin_is_a_module_of_its_own_named_as_it(group: str, name: str) -> None:
    # An object of it, or the module itself.
    module = importlib.import_module(DECLARED[group][name].partition(":")[0])
    assert module.__name__.endswith(f".{group.removeprefix('solward.')}.{name}")


def test_every_built_in_loads_without_a_problem() -> None:
    registry = load_registry(["solward"], demo=True)
    loaded = {
        "solward.skills": set(registry.skills),
        "solward.providers": set(registry.providers),
        "solward.venues": set(registry.venues),
        "solward.payments": set(registry.payments),
    }
    assert loaded == {group: set(plugins) for group, plugins in OWN.items()}
    assert {each.distribution for each in registry.skills.values()} == {"solward"}
