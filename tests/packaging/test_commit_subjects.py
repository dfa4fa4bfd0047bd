"""The hook of `.githooks` takes good subjects of commits and refuses others, saying why."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest
from tests.support.repository import ROOT

HOOK = ROOT / ".githooks" / "commit-msg"


def refusal(subject: str, folder: Path) -> str:
    """Return what the hook says of a commit with this subject, empty if it takes it."""
    message = folder / "message"
    message.write_text(f"{subject}\n\nWhy it is done.\n# A comment of git.\n")
    done = subprocess.run([HOOK, message], check=False, capture_output=True, text=True)
    assert (done.returncode == 0) is (not done.stderr)
    return done.stderr


@pytest.mark.parametrize(
    "subject", ["Count fees once", f"Add {'a' * 68}", "Merge branch 'main'", "Bring rent back"]
)
def test_a_good_subject_is_taken(subject: str, tmp_path: Path) -> None:
    assert refusal(subject, tmp_path) == ""


@pytest.mark.parametrize(
    ("subject", "why"),
    [
        (f"Add {'a' * 69}", "has 73 characters, and 72 at most"),
        ("count fees once", "begins with a capital letter"),
        ("Count fees once.", "ends without a full stop"),
        ("Counted fees once", "imperative"),
        ("Counting fees once", "imperative"),
    ],
)
def test_a_bad_subject_is_refused(subject: str, why: str, tmp_path: Path) -> None:
    assert why in refusal(subject, tmp_path)
