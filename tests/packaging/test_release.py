"""`make release`: what is published of a version can be verified, and nothing else is made."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import tomllib
from pathlib import Path

import pytest
from tests.promises import promise
from tests.support.repository import ROOT

VERSION = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["version"]
IDENTITY = {"GIT_CONFIG_GLOBAL": os.devnull, "HOME": os.devnull} | {
    f"GIT_{who}_{what}": value
    for who in ("AUTHOR", "COMMITTER")
    for what, value in (("NAME", "releaser"), ("EMAIL", "releaser@example.com"))
}


@pytest.fixture
def repository(tmp_path: Path) -> Path:
    """A copy of this tree as a repository of one commit, whose changelog `make changelog` wrote."""
    copy = tmp_path / "solward"
    listed = _run(ROOT, "git", "ls-files", "--cached", "--others", "--exclude-standard").stdout
    for name in listed.splitlines():
        if (ROOT / name).is_file():
            (copy / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(ROOT / name, copy / name)
    assert _run(copy, "make", "changelog", "PYTHON=python3").returncode == 0
    for command in (("init", "--quiet"), ("add", "--all"), ("commit", "--quiet", "-m", "all")):
        assert _run(copy, "git", *command).returncode == 0
    return copy


@pytest.fixture
def key(tmp_path: Path) -> Path:
    path = tmp_path / "key"
    assert (
        _run(tmp_path, "ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", "key").returncode == 0
    )
    return path


@pytest.mark.more
@promise("unready-release-refused")
def test_what_cannot_be_released_is_said_and_nothing_is_made(repository: Path, key: Path) -> None:
    release = "./.ci/release"
    changelog = repository / "CHANGELOG.md"
    no_key = _run(repository, release)
    assert (no_key.returncode, "name the key to sign with" in no_key.stderr) == (1, True)
    absent = _run(repository, release, "absent")
    assert (absent.returncode, "absent cannot be read" in absent.stderr) == (1, True)
    released = changelog.read_text()
    late = released.replace("## [Unreleased]\n", "## [Unreleased]\n\n### Added\n- late\n")
    changelog.write_text(re.sub(rf"## \[{VERSION}\].*\n", "", released))
    changed = _run(repository, release, str(key))
    assert (changed.returncode, "changes that no commit has" in changed.stderr) == (1, True)
    assert _run(repository, "git", "commit", "--quiet", "--all", "-m", "none").returncode == 0
    unnamed = _run(repository, release, str(key))
    assert unnamed.returncode == 1
    assert f"CHANGELOG.md has no section [{VERSION}]: `make changelog`" in unnamed.stderr
    changelog.write_text(late)
    assert _run(repository, "git", "commit", "--quiet", "--all", "-m", "late").returncode == 0
    more = _run(repository, release, str(key))
    assert (more.returncode, "changes under [Unreleased]" in more.stderr) == (1, True)
    assert not (repository / "dist").exists()


@pytest.mark.more
def test_the_changelogs_unreleased_becomes_the_versions_section_once(repository: Path) -> None:
    changelog = repository / "CHANGELOG.md"
    sections = re.findall(r"^## (.+)$", changelog.read_text(), re.M)
    assert sections[0] == "[Unreleased]"
    assert re.fullmatch(rf"\[{re.escape(VERSION)}\] - \d{{4}}-\d\d-\d\d", sections[1])
    assert changelog.read_text().partition(f"## {sections[1]}\n")[2].strip()
    again = _run(repository, ".ci/changelog")
    assert (again.returncode, f"a section [{VERSION}] already" in again.stderr) == (1, True)
    changelog.write_text("# Changelog\n\n## [Unreleased]\n\n## [0.0.1] - 2026-01-01\n- all\n")
    empty = _run(repository, ".ci/changelog")
    assert (empty.returncode, "absent or empty" in empty.stderr) == (1, True)


@pytest.mark.long
@pytest.mark.timeout(300)
def test_a_release_is_signed_lists_what_it_needs_and_is_made_alike_again(
    repository: Path, key: Path
) -> None:
    release = ("make", "release", f"SIGNING_KEY={key}", "PYTHON=python3")
    made = _run(repository, *release)
    assert made.returncode == 0, made.stderr
    dist = repository / "dist"
    assert {each.name for each in dist.iterdir()} == {
        f"solward-{VERSION}-py3-none-any.whl",
        f"solward-{VERSION}.tar.gz",
        f"solward-{VERSION}-up.cdx.json",
        f"solward-{VERSION}-models.cdx.json",
        "SHA256SUMS",
        "SHA256SUMS.sig",
    }
    assert _run(dist, "sha256sum", "--check", "--quiet", "SHA256SUMS").returncode == 0
    assert _verified(dist, key)
    bill = json.loads((dist / f"solward-{VERSION}-up.cdx.json").read_text())
    locked = (repository / "requirements" / "up.txt").read_text()
    assert bill["metadata"]["component"]["name"] == "solward"
    listed = {f"{each['name']}=={each['version']}" for each in bill["components"]}
    assert listed == set(re.findall(r"^[\w.-]+==[^\s;]+", locked, re.M))
    sums = (dist / "SHA256SUMS").read_text()
    assert _run(repository, *release).returncode == 0
    assert (dist / "SHA256SUMS").read_text() == sums
    with (dist / "SHA256SUMS").open("a") as file:
        file.write("0" * 64 + "  another.whl\n")
    assert not _verified(dist, key)
    key.write_text("no key")
    assert _run(repository, "make", "release", "SIGNING_KEY=../key").returncode != 0
    assert not dist.exists()


def _verified(dist: Path, key: Path) -> bool:
    allowed = dist.parent / "allowed"
    allowed.write_text(f"release {key.with_suffix('.pub').read_text()}")
    command = ["ssh-keygen", "-Y", "verify", "-f", str(allowed), "-I", "release"]
    command += ["-n", "solward-release", "-s", "SHA256SUMS.sig"]
    with (dist / "SHA256SUMS").open() as signed:
        done = subprocess.run(command, cwd=dist, stdin=signed, capture_output=True, check=False)
    allowed.unlink()
    return done.returncode == 0


def _run(folder: Path, *command: str) -> subprocess.CompletedProcess[str]:
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    return subprocess.run(
        command, cwd=folder, env=environment | IDENTITY, capture_output=True, text=True, check=False
    )
