"""The pytest plugin in other people's runs: light, and in either mode of pytest-asyncio."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest
from tests.support.examples import rest_is_long

AUTHORS_TEST = """
import pytest
from solward.testing import TestWallet


@pytest.mark.asyncio
async def test_wallet(wallet: TestWallet, skill_context, provider_request, scripted_provider):
    assert (await skill_context("airdrop").airdrop(amount=1)).status == "confirmed"
    assert await wallet.lamports() == 11_000_000_000
    answer = await scripted_provider.complete(provider_request, None)
    assert answer.text == "Waiting."
"""


def run(folder: Path, *options: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", *options],
        cwd=folder,
        capture_output=True,
        text=True,
    )


@pytest.mark.more
@pytest.mark.parametrize("mode", rest_is_long(["auto", "strict"], "auto"))
def test_an_authors_test_runs_in_either_mode(tmp_path: Path, mode: str) -> None:
    (tmp_path / "test_mine.py").write_text(AUTHORS_TEST)
    scope = "asyncio_default_fixture_loop_scope=function"
    done = run(tmp_path, "-W", "error", "-o", scope, "-o", f"asyncio_mode={mode}")
    assert done.returncode == 0, done.stdout + done.stderr
    assert "1 passed" in done.stdout


def test_it_imports_nothing_heavy_until_a_test_asks() -> None:
    program = "import sys, json, solward.testing.plugin; print(json.dumps(sorted(sys.modules)))"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    loaded = {name.partition(".")[0] for name in json.loads(done.stdout)}
    heavy = {"httpx", "jsonschema", "pydantic", "quart", "solders", "solana", "sqlalchemy"}
    assert not loaded & heavy


def test_without_pytest_asyncio_only_its_users_are_told(tmp_path: Path) -> None:
    (tmp_path / "pytest_asyncio.py").write_text("raise ImportError('not installed')")
    (tmp_path / "test_mine.py").write_text(
        "def test_other(): pass\ndef test_mine(wallet): pass\n"
        "def test_request(provider_request): assert provider_request.tools\n"
    )
    program = (
        "import sys; sys.path.insert(0, '.'); import pytest;"
        " sys.exit(pytest.main(['-q', '-p', 'no:cacheprovider', '-p', 'solward.testing.plugin']))"
    )
    done = subprocess.run(
        [sys.executable, "-c", program],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        env={"PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1", "PATH": ""},
    )
    assert "2 passed, 1 error" in done.stdout, done.stdout + done.stderr
    assert "needs pytest-asyncio" in done.stdout
