"""The recordings of `tests/recordings/` read by the product, and their form."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from tests.support.recordings import RECORDINGS, replaying

from solward.settings import Settings
from solward.support import jsontext
from solward_cli.doctor import ledger
from solward_cli.doctor.recording import is_recorded
from solward_cli.doctor.subject import Status, Subject

FILES = sorted(RECORDINGS.rglob("*.json"))


@pytest.mark.parametrize("file", FILES, ids=lambda file: file.name)
def test_a_recording_has_the_form_that_the_recorder_writes(file: Path) -> None:
    exchanges = jsontext.loads(file.read_bytes())
    assert exchanges
    for exchange in exchanges:
        assert exchange.keys() == {"request", "response"}
        assert exchange["request"].keys() == {"method", "url", "body"}
        assert exchange["request"]["url"].startswith("https://")
        response = exchange["response"]
        assert response.keys() == {"status", "headers", "body"}
        assert all(map(is_recorded, response["headers"]))


async def devnet(folder: Path, file: Path) -> dict[str, tuple[Status, str]]:
    async with replaying(file) as url:
        given = Settings(
            _env_file=None,
            solward_home=folder / "home",
            solana_rpc_url=url,
            solana_network="devnet",
        )
        async with Subject(given) as subject:
            lines = await ledger.rpc(subject)
    return {line.found.split(",")[0].split(":")[0]: (line.status, line.found) for line in lines}


async def test_a_devnet_node_of_the_documented_shape_serves_the_product(tmp_path: Path) -> None:
    lines = await devnet(tmp_path, RECORDINGS / "rpc-devnet.json")
    assert {status for status, _ in lines.values()} == {Status.OK}
    assert "answers the 17 methods that Solward calls" in lines
    assert "about 42 days" in lines["history from slot 419113905"][1]


async def test_a_provider_that_limits_what_it_serves_is_told(tmp_path: Path) -> None:
    exchanges = jsontext.loads((RECORDINGS / "rpc-devnet.json").read_bytes())
    for exchange in exchanges:
        body = exchange["response"]["body"]
        method = exchange["request"]["body"]["method"]
        if method == "getProgramAccounts":
            refusal = "excluded from account secondary indexes; this RPC method unavailable for key"
            del body["result"]
            body["error"] = {"code": -32010, "message": refusal}
        elif method == "getFirstAvailableBlock":
            body["result"] = 428_113_905 - 4_000
    file = tmp_path / "limited.json"
    file.write_text(json.dumps(exchanges))
    lines = await devnet(tmp_path, file)
    assert lines["getProgramAccounts"][0] is Status.FAIL
    assert lines["history from slot 428109905"][0] is Status.WARN
