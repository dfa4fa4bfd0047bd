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
def test_each_plugin_has_the_name_of_its_module_or_of_its_object(group: str, name: str) -> None:
    module_name, _, attribute = DECLARED[group][name].partition(":")
    module = importlib.import_module(module_name)
    folder, own = module.__name__.split(".")[-2:]
    assert folder == group.removeprefix("solward.")
    assert name in (own, attribute.lower())


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
