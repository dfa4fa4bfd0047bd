from __future__ import annotations

import inspect
import json
import subprocess
import sys
import tomllib

import pytest
from tests.support.repository import ROOT

import solward
from solward.types import errors

# What plugins may rely on: a name goes only with a major version.
SURFACE = """
    ASSOCIATED_TOKEN_PROGRAM Account Balances CLOCK_SYSVAR Charged Completion
    CompletionRequest Effects Entry GuardrailBlocked Hold Intent InvalidRequest
    LAMPORTS_PER_SOL LedgerError LedgerUnavailable Line Manifest Message Mint ModelPrice
    ModelRefused Outflow PaidAnswer PaymentView ProviderContext
    ProviderError ProviderSpec Put Quote QuoteRequest ReadLedger Request Secret
    SkillContext SkillError SkillSpec
    SolwardError Stake StakeState Store SwapInstructions SwapTransaction TokenBalance TokenHolding
    ToolCall ToolDefinition TransactionEffects TransactionError TransactionFailed
    TransactionRecord TransactionStatus TransactionType Usage VenueContext VenueSpec
    WRAPPED_SOL_MINT __version__ associated_account_size format_amount format_sol from_units
    hookimpl json_safe lamports_to_sol operation_parameters read_mint sol_to_lamports to_units
    tool_definitions TokenAccount associated_address mint_account token_account transfer_fee
    CHAIN_IDS HttpAnswer PaymentMode PaymentOffer PaymentProof PaymentReceipt PaymentSpec
    PaymentSplit is_address is_signature read_json read_units token_list write_json
"""

PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())


def test_the_public_surface_is_exactly_this() -> None:
    assert sorted(solward.__all__) == sorted(SURFACE.split())


@pytest.mark.parametrize("name", solward.__all__)
def test_every_public_name_is_there_and_is_listed(name: str) -> None:
    assert getattr(solward, name) is not None
    assert name in dir(solward)


def test_another_name_is_an_attribute_error() -> None:
    with pytest.raises(AttributeError, match="no attribute 'Registry'"):
        solward.Registry  # type: ignore[attr-defined]  # noqa: B018 - the access is the test


def test_the_version_is_the_projects() -> None:
    assert solward.__version__ == PROJECT["project"]["version"]


def test_importing_it_stays_light() -> None:
    program = "import sys, json, solward; print(json.dumps(sorted(sys.modules)))"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    loaded = {name.partition(".")[0] for name in json.loads(done.stdout)}
    heavy = {"asyncio", "httpx", "jsonschema", "pydantic", "quart", "solders", "sqlalchemy"}
    assert not loaded & heavy


def test_every_public_error_is_drawn_in_the_tree() -> None:
    drawn = inspect.getdoc(errors) or ""
    kinds = [
        name
        for name, value in vars(errors).items()
        if inspect.isclass(value) and issubclass(value, Exception)
    ]
    assert [name for name in kinds if name not in drawn] == []
