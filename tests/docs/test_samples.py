"""Python on a documentation page is a slice of a file that is tested."""

from __future__ import annotations

import re
from functools import cache
from pathlib import Path

import pytest
from tests.support.repository import ROOT

PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
SAMPLE = re.compile(
    r"^(?:<!-- from (?P<source>\S+) -->\n)?```(?:python|toml)\n(?P<text>.*?)^```$", re.M | re.S
)
# Their blocks are signatures, held to the code by test_hooks.py and test_written_files.py.
SIGNATURES = {"hooks.md", "context.md"}


def samples() -> list[tuple[str, str | None, str]]:
    return [
        (page.name, found["source"], found["text"])
        for page in PAGES
        if page.name not in SIGNATURES
        for found in SAMPLE.finditer(page.read_text())
    ]


@pytest.mark.parametrize(("page", "source", "text"), samples())
def test_a_sample_is_a_slice_of_the_file_it_names(page: str, source: str | None, text: str) -> None:
    assert source is not None, f"{page}: say `<!-- from PATH -->` above\n{text}"
    lines = (ROOT / source).read_text().splitlines()
    wanted = text.splitlines()
    slices = (lines[at : at + len(wanted)] for at in range(len(lines)))
    assert wanted in slices, f"{page}: this is not in {source}:\n{text}"


@cache
def anchors(page: Path) -> frozenset[str]:
    headings = re.findall(r"^#+ (.+)$", page.read_text(), re.MULTILINE)
    return frozenset(re.sub(r"[^\w -]", "", each).lower().replace(" ", "-") for each in headings)


def test_links_between_pages_lead_somewhere() -> None:
    for page in PAGES:
        for target, anchor in re.findall(r"\]\(([\w./-]+\.md)?(?:#([\w-]+))?\)", page.read_text()):
            other = page if not target else (page.parent / target)
            assert other.exists(), f"{page.name} links to {target}"
            if anchor:
                assert anchor in anchors(other), f"{page.name} links to {target}#{anchor}"


def test_the_index_has_every_page() -> None:
    index = (ROOT / "docs" / "README.md").read_text()
    linked = set(re.findall(r"\]\(([\w-]+/[\w-]+\.md)", index)) | {"README.md"}
    pages = (ROOT / "docs").rglob("*.md")
    assert {str(page.relative_to(ROOT / "docs")) for page in pages} == linked


def test_the_sites_navigation_has_every_page() -> None:
    """zensical checks links, and not whether its navigation is complete."""
    navigation = re.findall(r'"([\w/-]+\.md)"', (ROOT / "zensical.toml").read_text())
    pages = [str(page.relative_to(ROOT / "docs")) for page in (ROOT / "docs").rglob("*.md")]
    assert sorted(navigation) == sorted(pages), "zensical.toml: its `nav` lists every page"


def test_the_localnets_python_client_is_installed_by_make_up() -> None:
    """`make up` installs what `up.txt` has."""
    page = (ROOT / "docs" / "how-to/localnet.md").read_text()
    assert "solana-py, which the extra `up` installs" in page
    assert "\nsolana==" in (ROOT / "requirements" / "up.txt").read_text()
