"""`pip install solward` next to agent frameworks: what Solward asks for fits what they pin."""

from __future__ import annotations

import re
import sys
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name
from tests.packaging.test_locks import EXTRAS, PROJECT, needed, versions
from tests.promises import promise
from tests.support.environments import LOCKS, built_wheel, run

pytestmark = promise("installs-beside-frameworks")


FRAMEWORKS = ("crewai", "langchain-mcp-adapters", "openai-agents")
TOGETHER = LOCKS / "together" / "requirements.txt"


@pytest.mark.parametrize(
    "lock", sorted(LOCKS.glob("*/requirements.txt")), ids=lambda x: x.parent.name
)
def test_base_and_mcp_accept_what_a_framework_pins(lock: Path) -> None:
    found = versions(lock)
    wanted = [*needed(PROJECT["dependencies"]), *needed(["solward[mcp]"])]
    refused = [
        str(each)
        for each in wanted
        if not each.specifier.contains(found.get(canonicalize_name(each.name), "0"))
    ]
    assert refused == []


def test_the_three_frameworks_are_in_one_environment() -> None:
    assert set(FRAMEWORKS) <= versions(TOGETHER).keys()


def test_mcp_takes_both_releases_of_the_sdk_and_the_service_one() -> None:
    [mcp] = [Requirement(each) for each in EXTRAS["mcp"] if each.startswith("mcp")]
    [served] = [Requirement(each) for each in EXTRAS["up"] if each.startswith("mcp")]
    assert {"1.24", "1.30.0", "2.3.0"} == set(
        mcp.specifier.filter(["1.23", "1.24", "1.30.0", "2.3.0", "3.0"])
    )
    assert {"2.3.0"} == set(served.specifier.filter(["1.30.0", "2.3.0", "3.0"]))


@pytest.mark.long
@pytest.mark.timeout(600)
def test_pip_resolves_them_in_one_environment(tmp_path: Path) -> None:
    """At the locked versions, so that another release of theirs is not this suite's failure;
    `python requirements/measure.py beside` asks for the newest."""
    pins = tmp_path / "pins.txt"
    # Without hashes, which a wheel of this moment has not; with the markers of each version.
    lines = re.findall(r"^[a-z0-9-]+==[^\\\n]+", TOGETHER.read_text(), re.M)
    pins.write_text("\n".join(lines))
    wheel = built_wheel(tmp_path)
    asked = ("install", "--dry-run", "--ignore-installed", "--only-binary", ":all:", "-c", pins)
    said = run(sys.executable, "-m", "pip", *asked, f"{wheel}[mcp]", *FRAMEWORKS, cwd=tmp_path)
    [line] = re.findall(r"^Would install .*", said, re.M)
    installed = {canonicalize_name(each.rpartition("-")[0]) for each in line.split()[2:]}
    assert {"solward", "mcp", *FRAMEWORKS} <= installed
