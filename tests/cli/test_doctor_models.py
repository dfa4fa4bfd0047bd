"""`solward doctor models`: vendors asked through model hosts, as announced, and recorded."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from tests.support.recordings import replaying
from tests.support.vendors.server import vendor_server

from solward.settings import Settings
from solward_cli.doctor import ledger
from solward_cli.doctor.recording import record_requests
from solward_cli.doctor.subject import Status, Subject

KEY = "sk-canary-of-a-vendor-0123456789"

# A model host imports litellm, which takes seconds.
pytestmark = [pytest.mark.more, pytest.mark.timeout(180)]


def settings(folder: Path, url: str, key: str = KEY) -> Settings:
    return Settings(
        _env_file=None, solward_home=folder / "home", openai_api_key=key, openai_base_url=url
    )


async def test_a_vendor_is_asked_for_a_word_and_the_recording_of_it_replayed(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    async with vendor_server() as server:
        given = settings(tmp_path, server.base_urls["OPENAI_BASE_URL"])
        async with (
            record_requests(given) as (relayed, recorder),
            Subject(relayed, spends=True) as subject,
        ):
            [line] = await ledger.models(subject)
        model = line.name
        assert capsys.readouterr().err == f"Asking {model} for one word: up to 256 tokens.\n"
        assert line.status is Status.OK
        assert "answered in" in line.found
        assert len(server.requests) == 1
        assert server.requests[0].key == KEY
    [file] = recorder.write(tmp_path)
    assert file.name == "openai.json"
    text = file.read_text()
    assert "canary" not in text
    [exchange] = json.loads(text)
    assert exchange["request"]["body"]["model"] == model.partition("/")[2]
    async with (
        replaying(file) as url,
        Subject(settings(tmp_path, f"{url}{_path(exchange)}"), spends=True) as subject,
    ):
        [again] = await ledger.models(subject)
    assert again.status is Status.OK


def _path(exchange: dict[str, dict[str, str]]) -> str:
    """Of the recorded address, what was before the vendor's own path."""
    return exchange["request"]["url"].partition("openai")[2].partition("/chat")[0]


@pytest.mark.long
async def test_a_vendor_that_refuses_the_key_fails_and_names_the_variable(tmp_path: Path) -> None:
    async with vendor_server() as server:
        given = settings(tmp_path, server.base_urls["OPENAI_BASE_URL"], f"{KEY}~401")
        async with Subject(given, spends=True) as subject:
            [line] = await ledger.models(subject)
    assert line.status is Status.FAIL
    assert "401" in line.found
    assert "OPENAI_API_KEY" in line.advice
    assert "canary" not in str(line)
