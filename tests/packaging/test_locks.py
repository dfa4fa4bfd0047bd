"""The locks satisfy pyproject.toml, have a hash for each version, and are all that is installed."""

from __future__ import annotations

import importlib.metadata
import re
import subprocess
import tomllib
from collections.abc import Iterable, Iterator
from functools import cache
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name
from tests.promises import promise
from tests.support.environments import needed_by as distributions_needed
from tests.support.environments import of_this_environment
from tests.support.repository import ROOT

from solward.plugins.folders import models
from solward.settings.home import default_models_folder

FOLDER = ROOT / "requirements"
MODELS = ROOT / "framework/solward/plugins/folders/models.txt"
LOCKS = sorted([*FOLDER.glob("*.txt"), MODELS])
# Environments that share nothing with Solward's, so their versions may be others.
APART = sorted((ROOT / "tests" / "e2e").glob("*/*/requirements.txt"))
PYPROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())
PROJECT = PYPROJECT["project"]
EXTRAS: dict[str, list[str]] = PROJECT["optional-dependencies"]
ENTRY = re.compile(
    r"(?P<name>[a-z0-9-]+)==(?P<version>\S+)(?: ; [^\\\n]+)?"
    r"(?P<hashes>(?: \\\n    --hash=sha256:[0-9a-f]{64})+)\n"
)
INCLUDED = re.compile(r"^-r (\S+)$", re.M)


@cache
def versions(path: Path) -> dict[str, str]:
    """What a lock installs with the files that it includes: name -> version."""
    text = path.read_text()
    found = {
        name: version
        for included in INCLUDED.findall(text)
        for name, version in versions(path.parent / included).items()
    }
    return found | {each["name"]: each["version"] for each in ENTRY.finditer(text)}


def needed(lines: Iterable[str]) -> Iterator[Requirement]:
    """Requirements of other distributions, with those of Solward's own extras."""
    for requirement in map(Requirement, lines):
        if requirement.name == "solward":
            yield from needed(line for extra in requirement.extras for line in EXTRAS[extra])
        else:
            yield requirement


@pytest.mark.parametrize(
    ("lock", "wanted"),
    [
        ("up", ["solward[up]", *PYPROJECT["build-system"]["requires"]]),
        ("cluster", ["solward[up,postgres,otel]"]),
        ("dev", ["solward[dev]"]),
    ],
)
def test_a_lock_satisfies_its_extras(lock: str, wanted: list[str]) -> None:
    found = versions(FOLDER / f"{lock}.txt")
    assert _wrong(found, [*PROJECT["dependencies"], *wanted]) == []
    assert "litellm" not in found


def test_the_models_lock_has_what_the_extra_llm_needs_beyond_up() -> None:
    models = versions(MODELS)
    assert _wrong(models, ["solward[llm]"]) == []
    assert distributions_needed(["solward[up]"]) & models.keys() == set()


def test_the_models_folder_and_a_service_of_the_wheel_have_all_that_they_import() -> None:
    """A service that pip made has nothing of what Solward is built with, such as `packaging`."""
    folder = models.installed(default_models_folder())
    assert folder is not None, "make install unpacks it"
    unpacked = {
        canonicalize_name(each.name): each.requires or []
        for each in importlib.metadata.distributions(path=[str(folder)])
    }
    served = distributions_needed(["solward[up]"])
    wanted = distributions_needed(
        ["litellm"],
        lambda name: unpacked[name] if name in unpacked else of_this_environment(name),
    )
    assert len(wanted) > 20
    assert wanted - unpacked.keys() - served == set()


def _wrong(found: dict[str, str], lines: list[str]) -> list[str]:
    return [
        str(each)
        for each in needed(lines)
        if not each.specifier.contains(found.get(canonicalize_name(each.name), "0"))
    ]


def test_a_distribution_has_one_version_wherever_it_stands() -> None:
    found: dict[str, set[str]] = {}
    for lock in LOCKS:
        for name, version in versions(lock).items():
            found.setdefault(name, set()).add(version)
    assert {name: each for name, each in found.items() if len(each) > 1} == {}


@promise("locked-wheels-only")
@pytest.mark.parametrize(
    "lock", [*LOCKS, *APART], ids=lambda lock: f"{lock.parent.name}-{lock.name}"
)
def test_every_line_of_a_lock_is_a_version_with_hashes(lock: Path) -> None:
    """No address and no option: where wheels come from is the machine's configuration."""
    header, rest = lock.read_text().split("\n", 1)
    assert header == "# Written by `make lock`."
    assert ENTRY.sub("", INCLUDED.sub("", rest)).strip() == ""


@promise("locked-wheels-only")
@pytest.mark.parametrize(
    ("target", "installed"),
    [
        ("up", ["requirements/up.txt"]),
        ("install", ["requirements/dev.txt"]),
        ("lint", ["requirements/dev.txt"]),
        ("test-llm", ["requirements/dev.txt", "requirements/local-model.txt"]),
        ("test-agentdojo", ["requirements/agentdojo.txt"]),
    ],
)
def test_a_make_target_installs_its_lock_and_solward_alone(
    target: str, installed: list[str]
) -> None:
    done = subprocess.run(
        ["make", "--dry-run", "--always-make", target],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=True,
    )
    assert _installed(done.stdout) == (installed, ["."])


@promise("locked-wheels-only")
def test_the_image_installs_its_lock_and_solward_alone() -> None:
    dockerfile = (ROOT / "deploy" / "Dockerfile").read_text().replace("\\\n", "")
    assert _installed(dockerfile) == (["requirements/cluster.txt"], ["."])
    assert "solward models install" in dockerfile


def _installed(commands: str) -> tuple[list[str], list[str]]:
    """Locks, and folders, of the commands that install; each of them has to be one of both."""
    locks, folders = [], []
    for by, options in re.findall(r"(pip install|requirements/install\.py) ([^\n&]+)", commands):
        words = " ".join(options.split())
        if by != "pip install":
            locks.append(words)
        elif found := re.search(r"--no-deps --require-hashes --only-binary :all: -r (.+)$", words):
            locks.append(found[1])
        else:
            [folder] = re.findall(r"--no-deps --no-build-isolation (?:-e )?(\S+)$", words)
            folders.append(folder)
    return locks, folders
