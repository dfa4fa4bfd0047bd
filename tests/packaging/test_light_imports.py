"""What a plugin or a client imports is light: in a fresh process at most 0.3 s of CPU and 50 MB."""

from __future__ import annotations

import json
import subprocess
import sys
from typing import NamedTuple

import pytest
from tests.promises import promise
from tests.support.clock import processor_unit_s
from tests.support.environments import PROJECT

import solward

pytestmark = pytest.mark.more

# Processor time in units of the machine's own (`processor_time`): 0.6 s on the benchmarks' machine,
# twice what an idle core may take, as the tests of a busy machine share theirs. The number of
# modules is the same everywhere: 400 of them take about 0.3 s.
MAX_COST = 85
MAX_MODULES = 400
MAX_MB = 50
HEAVY = (
    "aiohttp",
    "argon2",
    "backports",
    "cryptography",
    "hypercorn",
    "litellm",
    "mcp",
    "nicegui",
    "opentelemetry",
    "prometheus_client",
    "pydantic",
    "quart",
    "solana",
    "spl",
    "sqlalchemy",
    "structlog",
    "uvicorn",
)
HOMES = sorted(
    {
        getattr(solward, name).__module__
        for name in solward.__all__
        if hasattr(getattr(solward, name), "__module__")
    }
)
MODULES = sorted(
    {
        "solward",
        "solward.client",
        "solward.support.jsontext",
        "solward.solana.token_list",
        "solward.testing",
        "solward.vault.guardrails",
        *(home for home in HOMES if home.startswith("solward")),
        *(
            module.partition(":")[0]
            for group, plugins in PROJECT["entry-points"].items()
            if group.startswith("solward.")
            for module in plugins.values()
        ),
    }
)

# All public names at once.
EVERYTHING = "solward:*"

# A child is forked for each module and imports it alone, again where it took too much CPU, three
# times in all. The peak is VmHWM: ru_maxrss would keep the peak of the parent.
_WEIGH = """
import importlib, json, os, re, sys, time

heavy, limit = json.loads(sys.argv[1])

def weigh(module, writing):
    before = len(sys.modules)
    begun = time.process_time()
    name, _, everything = module.partition(":")
    loaded = importlib.import_module(name)
    if everything:
        [getattr(loaded, each) for each in loaded.__all__]
    cpu = time.process_time() - begun
    status = open("/proc/self/status").read()
    mb = int(re.search(r"VmHWM:\\s+(\\d+) kB", status)[1]) / 1024
    weight = cpu, len(sys.modules) - before, mb, [each for each in heavy if each in sys.modules]
    os.write(writing, json.dumps(weight).encode())

found = {}
for module in sys.argv[2:]:
    for _ in range(3):
        reading, writing = os.pipe()
        child = os.fork()
        if child == 0:
            weigh(module, writing)
            os._exit(0)
        os.close(writing)
        weight = json.loads(os.read(reading, 65536))
        os.close(reading)
        os.waitpid(child, 0)
        found[module] = min(weight, found.get(module, weight))
        if found[module][0] <= limit:
            break
print(json.dumps(found))
"""


class Weight(NamedTuple):
    """What an import takes: CPU seconds, modules, the process's peak MB, heavy libraries."""

    cpu_s: float
    modules: int
    mb: float
    heavy: list[str]


@pytest.fixture(scope="module")
def max_cpu_s() -> float:
    """What an import may cost on this machine, as it is loaded now."""
    return MAX_COST * processor_unit_s()


@pytest.fixture(scope="module")
def weights(tmp_path_factory: pytest.TempPathFactory, max_cpu_s: float) -> dict[str, Weight]:
    command = [sys.executable, "-c", _WEIGH, json.dumps([HEAVY, max_cpu_s]), *MODULES, EVERYTHING]
    done = subprocess.run(
        command,
        cwd=tmp_path_factory.mktemp("weights"),
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return {module: Weight(*found) for module, found in json.loads(done.stdout).items()}


@pytest.mark.parametrize("module", [*MODULES, EVERYTHING])
def test_it_is_light(weights: dict[str, Weight], max_cpu_s: float, module: str) -> None:
    weight = weights[module]
    assert weight.heavy == []
    assert weight.cpu_s <= max_cpu_s
    assert weight.modules <= MAX_MODULES
    assert weight.mb <= MAX_MB


def test_the_names_come_from_the_modules_that_are_weighed() -> None:
    assert {"solward.context", "solward.types.errors", "solward.types.venue"} <= set(HOMES)
    assert "solward_plugins.skills.operations" in MODULES


@promise("clients-need-no-posix")
def test_a_client_needs_nothing_of_posix() -> None:
    posix = "import sys\nfor name in ('fcntl', 'resource', 'termios'): sys.modules[name] = None\n"

    def ends(module: str) -> int:
        command = [sys.executable, "-c", f"{posix}import {module}"]
        return subprocess.run(command, capture_output=True, check=False).returncode

    assert [ends(module) for module in ("solward", "solward.client", "solward.types.skill")] == [
        0
    ] * 3
    # So the service is not said to run where these are not.
    assert ends("solward.service.service") != 0
