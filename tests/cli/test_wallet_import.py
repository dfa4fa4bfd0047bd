"""Bringing an existing key."""

from __future__ import annotations

import json
import signal
from pathlib import Path

import pytest
from click.testing import CliRunner, Result
from solders.keypair import Keypair
from tests.support.processes import ended, running, up_client

from solward_cli import main


def do_import(home: Path, file: Path, *options: str) -> Result:
    environment = {"SOLWARD_HOME": str(home)}
    return CliRunner(env=environment).invoke(main, ["wallet", "import", str(file), *options])


@pytest.fixture
def keypair(tmp_path: Path) -> tuple[Keypair, Path]:
    pair, file = Keypair(), tmp_path / "id.json"
    file.write_text(json.dumps(list(bytes(pair))))
    return pair, file


@pytest.mark.more
def test_an_imported_key_is_a_wallet_of_the_service(
    tmp_path: Path, keypair: tuple[Keypair, Path]
) -> None:
    pair, file = keypair
    home = tmp_path / "home"
    result = do_import(home, file, "--name", "mine")
    assert result.exit_code == 0, result.output
    assert f"Address: {pair.pubkey()}" in result.output
    with running(home, "up", "--no-rpc", "--port", "0") as (process, screen):
        with up_client(screen) as api:
            (wallet,) = api.get("/wallets").json()["wallets"]
            assert (wallet["name"], wallet["publicKey"]) == ("mine", str(pair.pubkey()))
            other = Keypair()
            file.write_text(json.dumps(list(bytes(other))))
            meanwhile = do_import(home, file)
            assert meanwhile.exit_code == 2
            assert "is in use by process" in meanwhile.stderr
            path = f"/wallets/{wallet['id']}"
            assert api.post(f"{path}/airdrop", json={}).status_code == 200
            body = {"to": str(other.pubkey()), "amount": 0.1}
            assert api.post(f"{path}/transfer", json=body).status_code == 200
        ended(process, signal.SIGINT)


def test_a_second_import_and_another_file_are_refused(
    tmp_path: Path, keypair: tuple[Keypair, Path]
) -> None:
    _, file = keypair
    home = tmp_path / "home"
    assert do_import(home, file).exit_code == 0
    again = do_import(home, file)
    assert again.exit_code == 2
    assert "imported already" in again.stderr
    text = file.read_text()
    file.write_text(text.replace("[", "[256, "))
    broken = do_import(home, file)
    assert broken.exit_code == 2
    assert "Solana CLI keypair file" in broken.stderr
    assert "256" not in broken.stderr
