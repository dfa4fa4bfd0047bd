"""`solward mcp config`: a confined key in a host's configuration, and a host started from that."""

from __future__ import annotations

import asyncio
import json
import re
import shlex
import stat
from collections.abc import Iterator
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
from mcp import Client, StdioServerParameters
from mcp.client.stdio import stdio_client
from tests.promises import promise
from tests.support.cli import STRANGER, Live, live_service
from tests.support.mcp import called, refusal
from tests.support.repository import DOCS

from solward_cli.mcp import CLIENTS, ClientFile, config_path

pytestmark = promise("other-config-untouched")


OTHERS: dict[str, Any] = {
    "numStartups": 7,
    "cost": Decimal("0.123456789012345678"),
    "projects": {"/home/ü": {"mcpServers": {}}},
    "mcpServers": {"files": {"command": "npx", "args": ["-y", "files"], "env": {"A": "b"}}},
}
TEXT = json.dumps({**OTHERS, "cost": 0}).replace('"cost": 0', '"cost": 0.123456789012345678')


@pytest.fixture(scope="module")
def live(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Live]:
    with live_service(tmp_path_factory.mktemp("config")) as service:
        yield service


def config(live: Live, home: Path, *arguments: str, given: str | None = None) -> Any:
    """What `solward mcp config` says to somebody with this home."""
    return live.invoke("mcp", "config", *arguments, given=given, HOME=str(home), XDG_CONFIG_HOME="")


def read(path: Path) -> Any:
    return json.loads(path.read_text(), parse_float=Decimal)


def keys(live: Live, wallet: str) -> list[str]:
    """Ids of the keys of a wallet."""
    listed = live.get("/keys")["keys"]
    return [each["id"] for each in listed if each["walletId"] == live.id_of(wallet)]


@pytest.mark.parametrize("host", CLIENTS)
def test_the_entry_that_is_printed_starts_a_session_of_that_wallet(
    live: Live, tmp_path: Path, host: str
) -> None:
    wallet = live.wallet(1)
    made = config(live, tmp_path, host, "--wallet", wallet, "--spending-limit-sol", "0.5")
    assert made.exit_code == 0, made.output
    assert str(config_path(host).relative_to(Path.home())) in made.stderr
    [[name, entry]] = json.loads(made.stdout)[CLIENTS[host].servers].items()
    assert name == "solward"
    assert entry.get("type") == ("stdio" if host in ("claude-code", "vscode") else None)
    assert entry["args"][-1] == "mcp"
    assert Path(entry["command"]).is_absolute()
    assert entry["env"]["SOLWARD_API_KEY"] not in made.stderr
    assert entry["env"]["SOLWARD_API_KEY"] not in str(entry["args"])
    [key] = keys(live, wallet)
    assert key in made.stderr
    assert list(tmp_path.iterdir()) == []


@pytest.mark.more
async def test_a_host_has_the_wallet_in_its_first_session(live: Live, tmp_path: Path) -> None:
    wallet = live.wallet(1)
    run = ("cursor", "--wallet", wallet, "--spending-limit-sol", "0.5", "--write", "--yes")
    made = await asyncio.to_thread(config, live, tmp_path, *run)
    assert made.exit_code == 0, made.output
    entry = read(tmp_path / ".cursor" / "mcp.json")["mcpServers"]["solward"]
    server = StdioServerParameters(**{**entry, "env": {**entry["env"], "HOME": str(tmp_path)}})
    with (tmp_path / "log").open("w") as log:
        async with Client(stdio_client(server, errlog=log), cache=None) as client:
            tools = {tool.name: tool for tool in (await client.list_tools()).tools}
            assert "wallet" not in tools["transfer"].input_schema["properties"]
            assert "Sent 0.1 SOL" in await called(client, "transfer", to=STRANGER, amount=0.1)
            # The key's limit, not the wallet's.
            assert "0.5 SOL" in await refusal(client, "transfer", to=STRANGER, amount=0.45)


def test_other_entries_stay_and_the_file_is_its_owners_alone(live: Live, tmp_path: Path) -> None:
    wallet, file = live.wallet(0), tmp_path / ".claude.json"
    file.write_text(TEXT)
    file.chmod(0o644)
    done = config(live, tmp_path, "claude-code", "--wallet", wallet, "--write", given="y\n")
    assert done.exit_code == 0, done.output
    assert f"Give Claude Code the wallet {wallet}, by the entry solward in {file}?" in done.stderr
    assert done.stdout == f"Written: the entry solward in {file}\n"
    written = read(file)
    entry = written["mcpServers"].pop("solward")
    assert written == OTHERS
    assert list(written) == list(OTHERS)
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    assert entry["env"]["SOLWARD_API_KEY"] not in done.output
    assert [each.name for each in tmp_path.iterdir()] == [".claude.json"]


@pytest.mark.more
def test_a_second_run_replaces_its_own_entry_and_ends_that_ones_key(
    live: Live, tmp_path: Path
) -> None:
    wallet, file = live.wallet(0), tmp_path / ".cursor" / "mcp.json"
    run = ("cursor", "--wallet", wallet, "--write")
    assert config(live, tmp_path, *run, "--yes").exit_code == 0
    [first], before = keys(live, wallet), file.read_text()
    refused = config(live, tmp_path, *run, given="n\n")
    assert refused.exit_code == 1
    assert f"and revoke its key Cursor: {wallet}?" in refused.stderr
    assert (keys(live, wallet), file.read_text()) == ([first], before)
    again = config(live, tmp_path, *run, given="y\n")
    assert f"({first}): revoked" in again.stderr
    [second] = keys(live, wallet)
    assert second != first
    assert list(read(file)["mcpServers"]) == ["solward"]
    # Another name is another entry, with its own key.
    assert config(live, tmp_path, *run, "--name", "more", "--yes").exit_code == 0
    assert len(keys(live, wallet)) == 2
    assert list(read(file)["mcpServers"]) == ["solward", "more"]


def test_an_entry_for_another_service_is_replaced_and_its_key_sent_nowhere(
    live: Live, tmp_path: Path
) -> None:
    wallet, file = live.wallet(0), tmp_path / "mcp.json"
    other = {
        "command": "solward",
        "env": {"SOLWARD_API_URL": "http://127.0.0.1:9", "SOLWARD_API_KEY": "sk-x"},
    }
    file.write_text(json.dumps({"servers": {"solward": other}}))
    run = ("vscode", "--wallet", wallet, "--write", "--file", str(file))
    done = config(live, tmp_path, *run, given="y\n")
    assert done.exit_code == 0, done.output
    assert "revoke" not in done.stderr
    assert read(file)["servers"]["solward"]["env"]["SOLWARD_API_URL"] == live.url


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ('{"mcpServers": {}, // mine\n}', "is not plain JSON"),
        ('{"mcpServers": []}', "mcpServers is an object"),
        ("[]", "must be an object"),
        ('{"a": 1, "a": 2}', "a stands twice"),
    ],
    ids=["a comment", "a list of servers", "a list", "a field twice"],
)
def test_a_file_that_would_lose_something_is_left_and_no_key_is_made(
    live: Live, tmp_path: Path, text: str, said: str
) -> None:
    wallet, file = live.wallet(0), tmp_path / "mcp.json"
    file.write_text(text)
    run = ("cursor", "--wallet", wallet, "--write", "--yes", "--file", str(file))
    refused = config(live, tmp_path, *run)
    assert refused.exit_code == 1
    assert said in refused.stderr
    assert (file.read_text(), keys(live, wallet)) == (text, [])


def test_a_key_that_could_not_be_written_ends(
    live: Live, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    wallet = live.wallet(0)

    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("solward_cli.mcp.os.fsync", full)
    refused = config(live, tmp_path, "cursor", "--wallet", wallet, "--write", "--yes")
    assert refused.exit_code == 1
    assert "cannot be written: No space left on device" in refused.stderr
    assert keys(live, wallet) == []
    assert list((tmp_path / ".cursor").iterdir()) == []


def test_a_link_stays_one_and_what_it_names_is_written(live: Live, tmp_path: Path) -> None:
    wallet, file = live.wallet(0), tmp_path / ".claude.json"
    (tmp_path / "dotfiles.json").write_text("{}")
    file.symlink_to(tmp_path / "dotfiles.json")
    run = ("claude-code", "--wallet", wallet, "--write", "--yes")
    assert config(live, tmp_path, *run).exit_code == 0
    assert file.is_symlink()
    assert "solward" in read(tmp_path / "dotfiles.json")["mcpServers"]


def test_what_a_person_writes_while_it_asks_stays(tmp_path: Path) -> None:
    file = tmp_path / "mcp.json"
    ClientFile.read(file, "servers")
    file.write_text('{"inputs": [1]}')
    ClientFile.read(file, "servers").write("solward", {"command": "solward"})
    assert read(file) == {"inputs": [1], "servers": {"solward": {"command": "solward"}}}


def test_grants_are_said_as_sentences(live: Live, tmp_path: Path) -> None:
    wallet = live.wallet(0)
    sentence = "may transfer up to 0.2 SOL at once and 0.5 a day, to anybody."
    said = config(live, tmp_path, "cursor", "--wallet", wallet, "--grant", sentence)
    assert said.exit_code == 0, said.output
    [key] = [
        each
        for each in live.get("/keys?details=true")["keys"]
        if each["walletId"] == live.id_of(wallet)
    ]
    assert len(key["grants"]) == 1
    assert any("0.2 SOL" in each for each in key["sentences"])


@pytest.mark.parametrize("page", ["how-to/mcp.md", "start/wallet-for-my-agent.md"])
def test_a_key_made_as_the_docs_say_lets_no_asset_leave_without_limit(
    live: Live, tmp_path: Path, page: str
) -> None:
    text = (DOCS / page).read_text().replace("\\\n", "")
    commands = re.findall(r"solward ((?:mcp config|key create) [^\n]*--wallet pocket[^\n)]*)", text)
    assert commands
    for command in commands:
        wallet = live.wallet(2)
        arguments = [wallet if each == "pocket" else each for each in shlex.split(command)]
        said = live.invoke(*arguments, HOME=str(tmp_path), XDG_CONFIG_HOME="")
        assert said.exit_code == 0, said.output
        found = live.get(f"/wallets/{live.id_of(wallet)}/limits")["canLeave"]["assets"]
        assert found["SOL"]["most"] == "1"
        assert [name for name, each in found.items() if each["most"] is None] == []


def test_without_options_a_key_may_send_a_little_and_the_sentence_is_shown(
    live: Live, tmp_path: Path
) -> None:
    wallet = live.wallet(0)
    made = config(live, tmp_path, "cursor", "--wallet", wallet)
    assert made.exit_code == 0, made.output
    assert "may transfer up to 0.1 SOL a day, to anybody.\n" in made.stderr


def test_options_of_a_grant_are_the_keys_grant(live: Live, tmp_path: Path) -> None:
    wallet = live.wallet(0)
    options = ("--asset", "USDC", "--max", "5", "--ask-above", "2", "--to", "own", "--per", "week")
    made = config(live, tmp_path, "cursor", "--wallet", wallet, *options)
    assert made.exit_code == 0, made.output
    assert "up to 5 USDC a week, to own wallets; above 2 USDC a person is asked." in made.stderr
    both = config(live, tmp_path, "cursor", "--wallet", wallet, "--read-only", "--max", "1")
    assert (both.exit_code, "no other option of a grant" in both.stderr) == (2, True)
    assert len(keys(live, wallet)) == 1


def test_a_second_run_with_grants_gives_them_to_the_new_key(live: Live, tmp_path: Path) -> None:
    wallet = live.wallet(0)
    command = ("cursor", "--wallet", wallet, "--grant", "may transfer up to 0.2 SOL a day")
    for more in (("--write", "--yes"), ("--write", "--yes"), ("--write", "--yes", "--name", "two")):
        said = config(live, tmp_path, *command, *more)
        assert said.exit_code == 0, said.output
    # The first one's was replaced.
    granted = {
        each["id"]: each["grants"]
        for each in live.get("/keys?details=true")["keys"]
        if each["walletId"] == live.id_of(wallet)
    }
    assert len(granted) == 2
    for key, grants in granted.items():
        assert [each["who"] for each in grants] == [f"key:{key}"]


def test_a_grant_that_is_refused_leaves_no_key(live: Live, tmp_path: Path) -> None:
    wallet = live.wallet(0)
    said = config(live, tmp_path, "cursor", "--wallet", wallet, "--grant", "may steal 1 SOL")
    assert said.exit_code == 1
    assert "grants[0]" in said.output
    assert keys(live, wallet) == []


@pytest.mark.parametrize("name", ["", "two words", "x" * 21])
def test_a_name_that_hosts_would_not_take_is_refused(live: Live, tmp_path: Path, name: str) -> None:
    refused = config(live, tmp_path, "cursor", "--wallet", "w", "--name", name)
    assert refused.exit_code == 2
    assert "1 to 20 letters, digits, _ or -" in refused.stderr


def test_the_files_are_where_the_hosts_look(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOME", "/home/me")
    monkeypatch.delenv("XDG_CONFIG_HOME", raising=False)
    monkeypatch.setenv("APPDATA", "/roaming")
    found = {
        (host, platform): str(config_path(host, platform))
        for host in CLIENTS
        for platform in ("linux", "darwin", "win32")
    }
    support = "/home/me/Library/Application Support"
    assert found == {
        ("claude-desktop", "linux"): "/home/me/.config/Claude/claude_desktop_config.json",
        ("claude-desktop", "darwin"): f"{support}/Claude/claude_desktop_config.json",
        ("claude-desktop", "win32"): "/roaming/Claude/claude_desktop_config.json",
        ("claude-code", "linux"): "/home/me/.claude.json",
        ("claude-code", "darwin"): "/home/me/.claude.json",
        ("claude-code", "win32"): "/home/me/.claude.json",
        ("cursor", "linux"): "/home/me/.cursor/mcp.json",
        ("cursor", "darwin"): "/home/me/.cursor/mcp.json",
        ("cursor", "win32"): "/home/me/.cursor/mcp.json",
        ("vscode", "linux"): "/home/me/.config/Code/User/mcp.json",
        ("vscode", "darwin"): f"{support}/Code/User/mcp.json",
        ("vscode", "win32"): "/roaming/Code/User/mcp.json",
    }
