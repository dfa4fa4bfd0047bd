"""The page of settings names every setting, with its real default and an example that works."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from tests.support.repository import ROOT

from solward.settings import Settings
from solward.settings.secrecy import LEAST_BYTES, is_well_known, min_different

PAGE = ROOT / "docs" / "reference/settings.md"
ROW = re.compile(r"^\| `([A-Z0-9_]+)` \| (.+) \| (.+) \| `(.+)` \|$", re.MULTILINE)
ROWS = {name: (default, example) for name, _, default, example in ROW.findall(PAGE.read_text())}

# Words in the column of defaults that stand for a value nobody set.
UNSET = (
    "not set",
    "none",
    "the localnet",
    "`solward.db`",
    "`keystore.key`",
    "`*`; none on mainnet",
)
# Their defaults are the machine's, no values to compare.
OF_THE_MACHINE = {"SOLWARD_HOME", "MODELS_FOLDER"}


@pytest.fixture(autouse=True)
def bare_environment(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    for name in Settings.model_fields:
        monkeypatch.delenv(name.upper(), raising=False)
    monkeypatch.chdir(tmp_path)


def test_every_setting_is_documented_and_no_other() -> None:
    assert sorted(ROWS) == sorted(name.upper() for name in Settings.model_fields)


@pytest.mark.parametrize("name", sorted(ROWS.keys() - OF_THE_MACHINE))
def test_the_documented_default_is_the_real_one(name: str) -> None:
    default, _ = ROWS[name]
    real = Settings().masked()[name]
    if real:
        assert default.partition(";")[0].strip("`") == real
    else:
        assert default.startswith(UNSET)


@pytest.mark.parametrize("name", sorted(ROWS))
def test_the_documented_example_is_accepted_and_changes_something(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SOLANA_RPC_URL", ROWS["SOLANA_RPC_URL"][1])
    if name == "SOLANA_RPC_URL":
        assert Settings().solana_rpc_url is not None
        return
    if name == "PAYMENTS_LOCALNET_AS":
        # Of a localnet alone.
        monkeypatch.setenv("SOLANA_NETWORK", "localnet")
    before = Settings()
    monkeypatch.setenv(name, ROWS[name][1])
    assert getattr(Settings(), name.lower()) != getattr(before, name.lower())


def test_the_least_lengths_of_secrets_are_those_that_are_checked() -> None:
    rows = re.findall(r"^\| `(\w+)`[^|]* \| (\d+) \| (\d+) \|$", PAGE.read_text(), re.MULTILINE)
    assert {name: int(least) for name, least, _ in rows} == LEAST_BYTES
    assert {int(different) for _, _, different in rows} == {6, 8}
    assert all(int(found) == min_different(int(least)) for _, least, found in rows)


def test_every_example_of_such_a_secret_is_refused_as_one() -> None:
    rows = re.findall(r"^\| `(\w+)` \|.*\| `([^`|]+)` \|$", PAGE.read_text(), re.MULTILINE)
    examples = {name: example for name, example in rows if name in LEAST_BYTES}
    assert examples.keys() == LEAST_BYTES.keys()
    del examples["DATABASE_URL"]
    assert [name for name, example in examples.items() if not is_well_known(example)] == []
