"""What code, tests, docs and configuration cite is in the repository: paths, links, modules."""

from __future__ import annotations

import re
import subprocess
import tomllib
from collections.abc import Iterator
from functools import cache
from pathlib import Path

from tests.support.repository import ROOT

from solward.types.manifest import GROUPS

SUFFIXES = {".py", ".md", ".toml", ".yaml", ".yml", ".conf", ".service", ".txt", ".mako", ".mjs"}
NAMED = {"Dockerfile", "run"}
# Paths in them are those of the plugin's own repository.
OTHER_ROOTS = ("plugin_template/", "examples/")
# What the reader of a tutorial makes, and a route's prefix.
NOT_PATHS = {"tip_jar/src/tip_jar/tip.py", "responses/"}
# Dotted names that are not of modules: entry-point groups, files, tasks of the queue.
NOT_MODULES = {*GROUPS, "solward.db", "solward.lock", "solward.dump", "solward.run_cycle"}

# Documents and numbered clauses that only those who wrote the project had.
ELSEWHERE = re.compile(
    r"\breference/(?:house|chain|writing|bounds|rings|reliability|llm|scale|style)\.md|\bDESIGN\b"
    r"|\b[Cc]ontract(?:.s)?,? (?:section )?[0-9]"
    r"|\b[Ss]ection [0-9]|\.\./shared\b|\b[Ii]ssue #?[0-9]"
)
LINK = re.compile(r"\[[^\]]*\]\(([^)\s]+)\)")
HEADING = re.compile(r"^#+ (.+)$", re.MULTILINE)
SAMPLE = re.compile(r"^```.*?^```$", re.MULTILINE | re.DOTALL)
# A path from the repository's root, and a test in it.
PATH = re.compile(
    r"(?<![\w./@<{,-])(?<!=\")((?:docs|framework|plugins|server|tests|benchmarks|deploy|examples"
    r"|plugin_template|requirements)/(?>[\w./-]+))(?![*{<$])(?:::(\w+))?"
)
# A path inside a package, or of the page beside.
FILE = re.compile(r"`([\w./-]*\w(?:\.(?:py|md|toml)|/))`")
MODULE = re.compile(r"(?<![\w./:@-])(solward(?:_(?!stand)[a-z]+)?(?:\.\w+)+)\b(?![-/@:])")
COMMENT = re.compile(r'"""[\s\S]*?"""|(?<!\S)# .*')


@cache
def tracked() -> frozenset[str]:
    listed = subprocess.run(
        ["git", "ls-files", "--cached", "--others", "--exclude-standard"],
        cwd=ROOT, check=True, capture_output=True, text=True,
    )  # fmt: skip
    return frozenset(name for name in listed.stdout.splitlines() if (ROOT / name).is_file())


@cache
def folders() -> frozenset[str]:
    return frozenset(str(parent) for name in tracked() for parent in Path(name).parents)


@cache
def text_of(name: str) -> str:
    return (ROOT / name).read_text()


def citing() -> list[tuple[str, str]]:
    """Every file that may cite another, but this one, and its text."""
    me = str(Path(__file__).relative_to(ROOT))
    return [
        (name, text_of(name))
        for name in sorted(tracked() - {me})
        if Path(name).suffix in SUFFIXES or Path(name).name in NAMED
    ]


def prose() -> list[tuple[str, str]]:
    """The same without code: a wrong name in code fails where it is used."""
    return [
        (name, "\n".join(COMMENT.findall(text)) if name.endswith(".py") else text)
        for name, text in citing()
    ]


@cache
def anchors(page: Path) -> set[str]:
    """The headings as GitHub names them in a link."""
    titles = HEADING.findall(SAMPLE.sub("", page.read_text()))
    return {re.sub(r"[^\w\- ]", "", title.lower()).replace(" ", "-") for title in titles}


def is_path(path: str, test: str) -> bool:
    """Whether it is here, from the root or from `tests`, and the named test in it."""
    path = path.rstrip("/.-")
    defined = rf"^\s*(?:async )?def {test}\("
    return any(
        place in folders()
        or (place in tracked() and (not test or re.search(defined, text_of(place), re.M)))
        for place in (path, f"tests/{path}")
    )


def is_module(dotted: str) -> bool:
    """Whether it names a module, or something that a module's text names."""
    parts = dotted.split(".")
    for length in range(len(parts), 0, -1):
        for root in ("framework", "plugins", "server"):
            place = "/".join((root, *parts[:length]))
            rest = parts[length : length + 1]
            for file in (f"{place}.py", f"{place}/__init__.py"):
                if file in tracked():
                    return not rest or bool(re.search(rf"\b{rest[0]}\b", text_of(file)))
            if place in folders():
                return not rest
    return False


def lost_links(name: str, text: str) -> Iterator[str]:
    for target in LINK.findall(SAMPLE.sub("", text)):
        path, _, anchor = target.partition("#")
        page = (ROOT / name).parent / path if path else ROOT / name
        if not re.match(r"\w+:", target) and (
            not page.exists() or (anchor and anchor not in anchors(page))
        ):
            yield target


def test_no_document_is_cited_that_a_reader_does_not_have() -> None:
    cited = {(name, each.group()) for name, text in citing() for each in ELSEWHERE.finditer(text)}
    assert cited == set()


def test_links_of_the_pages_lead_somewhere() -> None:
    pages = [(name, text) for name, text in citing() if name.endswith(".md")]
    assert {(name, link) for name, text in pages for link in lost_links(name, text)} == set()


def test_paths_and_tests_that_are_cited_exist() -> None:
    ours = [(name, text) for name, text in prose() if not name.startswith(OTHER_ROOTS)]
    from_the_root = {
        (name, f"{path}::{test}")
        for name, text in ours
        for path, test in PATH.findall(text)
        if not is_path(path, test)
    }
    places = tracked() | {f"{folder}/" for folder in folders()}
    ends = {place[start:] for place in places for start in starts(place)} | NOT_PATHS
    inside = {
        (name, file) for name, text in ours for file in FILE.findall(text) if file not in ends
    }
    assert from_the_root | inside == set()


def starts(place: str) -> list[int]:
    """Where the parts of a path start."""
    return [0, *(each.end() for each in re.finditer("/(?!$)", place))]


def test_modules_that_are_cited_exist() -> None:
    cited = {(name, dotted) for name, text in prose() for dotted in MODULE.findall(text)}
    assert {
        each for each in cited if each[1] not in NOT_MODULES and not is_module(each[1])
    } == set()


def test_the_drawing_has_the_layers_of_the_framework_from_the_top_down() -> None:
    page = text_of("docs/assurance/architecture.md")
    drawing = page.partition("\n```\n")[2].partition("\n```\n")[0]
    framework = drawing.partition("\n solward -")[2].partition("+- vault")
    # A room stands before what is said of it.
    lines = [each[3:].partition("  ")[0] for each in framework[0].splitlines() if each[3:]]
    lines += ["vault"]
    lines += [each[3:].strip().partition("  ")[0] for each in framework[2].splitlines() if each]
    drawn = [room for line in lines for room in re.findall(r"\w+", line)]
    contracts = tomllib.loads(text_of("pyproject.toml"))["tool"]["importlinter"]["contracts"]
    (layers,) = [each["layers"] for each in contracts if each.get("containers") == ["solward"]]
    depth = {room: n for n, layer in enumerate(layers) for room in re.findall(r"\w+", layer)}
    outside_the_vault = [room for room in drawn if room in depth]
    assert {*outside_the_vault} == {*depth}
    assert [depth[r] for r in outside_the_vault] == sorted(depth[r] for r in outside_the_vault)
