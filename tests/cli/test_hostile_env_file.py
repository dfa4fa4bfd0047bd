"""A `.env` in the folder where somebody works, maybe a stranger's repository, sends no secret that
it does not bring along anywhere."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler
from pathlib import Path
from typing import ClassVar

import pytest
from tests.promises import promise
from tests.support.http import served_in_thread
from tests.support.repository import ROOT

from solward.settings import Settings
from solward.types.errors import ConfigError
from solward.types.provider import ProviderSpec

# The others start a process each.
pytestmark = [
    promise("env-file-takes-nothing"),
    pytest.mark.samples(
        "test_a_secret_of_the_environment_goes_nowhere_that_a_file_says"
        "[SOLWARD_API_KEY-wallet list]",
        "test_what_a_file_redirects_is_named",
        "test_no_line_of_a_file_has_a_variable_of_the_environment_in_it",
        "test_a_third_partys_variable_is_read_as_it_is_written",
        "test_what_gives_nothing_away_stays_allowed",
        "test_an_address_that_the_environment_repeats_is_its_own",
    ),
]

SECRET = "sk-0123456789abcdef0123456789abcdef"
COMMANDS = {
    "wallet list": ("wallet", "list"),
    "tx list": ("tx", "list"),
    "freeze": ("freeze",),
    "admin list": ("admin", "list"),
    "mcp": ("mcp",),
    "dashboard": ("dashboard", "--port", "0"),
}


class Listener:
    """A stranger's server; it answers nobody."""

    def __init__(self, listening: socket.socket) -> None:
        self._listening = listening
        self.port: int = listening.getsockname()[1]

    @property
    def was_called(self) -> bool:
        # Whoever connected waits in the queue, though nobody accepted.
        self._listening.setblocking(False)
        try:
            self._listening.accept()[0].close()
        except BlockingIOError:
            return False
        return True


@pytest.fixture
def stranger() -> Iterator[Listener]:
    with socket.socket() as listening:
        listening.bind(("127.0.0.1", 0))
        listening.listen()
        yield Listener(listening)


@contextmanager
def run(
    folder: Path, *arguments: str, **environment: str
) -> Iterator[subprocess.CompletedProcess[str]]:
    plain = {"PATH": os.environ["PATH"], "PYTHONPATH": os.environ.get("PYTHONPATH", "")}
    plain["PYTHONPATH"] = os.pathsep.join(
        str((ROOT / each).absolute()) for each in plain["PYTHONPATH"].split(os.pathsep) if each
    )
    yield subprocess.run(
        [sys.executable, "-m", "solward_cli", *arguments],
        cwd=folder,
        env=plain | {"SOLWARD_HOME": str(folder / "home")} | environment,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=60,
    )


def hostile(folder: Path, stranger: Listener, names: tuple[str, ...]) -> None:
    values = {
        "SOLWARD_API_URL": f"http://127.0.0.1:{stranger.port}",
        "NEXT_PUBLIC_API_URL": f"http://127.0.0.1:{stranger.port}",
        "API_HOST": "127.0.0.1",
        "API_PORT": str(stranger.port),
    }
    (folder / ".env").write_text("".join(f"{name}={values[name]}\n" for name in names))


@promise("env-file-sends-no-secret")
@pytest.mark.parametrize("command", COMMANDS)
@pytest.mark.parametrize("secret", ["SOLWARD_API_KEY", "API_SECRET"])
def test_a_secret_of_the_environment_goes_nowhere_that_a_file_says(
    tmp_path: Path, stranger: Listener, command: str, secret: str
) -> None:
    hostile(tmp_path, stranger, ("SOLWARD_API_URL", "NEXT_PUBLIC_API_URL"))
    own = "API_SECRET" if command == "dashboard" else secret
    with run(tmp_path, *COMMANDS[command], **{own: SECRET}) as ended:
        assert ended.returncode == 2, ended
        assert f"is set in {tmp_path / '.env'}, but {own} is not" in ended.stderr
        assert "a .env may not redirect a secret" in ended.stderr
        assert SECRET not in ended.stderr + ended.stdout
    assert not stranger.was_called


@promise("env-file-sends-no-secret")
@pytest.mark.parametrize("name", ["API_HOST", "API_PORT"])
def test_host_and_port_of_a_file_do_not_either(
    tmp_path: Path, stranger: Listener, name: str
) -> None:
    hostile(tmp_path, stranger, (name,))
    with run(tmp_path, "wallet", "list", SOLWARD_API_KEY=SECRET) as ended:
        assert ended.returncode == 2
        assert f"Error: {name} is set in" in ended.stderr
    assert not stranger.was_called


VENDORS = {
    "doctor models": ("OPENAI_API_KEY", "OPENAI_BASE_URL", ("doctor", "models")),
    "doctor venue": ("JUPITER_API_KEY", "JUPITER_API_URL", ("doctor", "venue")),
    "a localnet's venue": ("JUPITER_API_KEY", "SOLANA_RPC_URL", ("doctor", "venue")),
}


class Stranger(BaseHTTPRequestHandler):
    """Answers nothing, and keeps the headers of what comes."""

    heard: ClassVar[list[str]] = []

    def do_GET(self) -> None:
        self.heard.append(f"{self.path} {self.headers}")
        self.send_error(500)

    def do_POST(self) -> None:
        self.do_GET()

    def log_message(self, *_of_the_request: object) -> None:
        pass


@promise("env-file-sends-no-secret")
@pytest.mark.parametrize("case", VENDORS)
def test_a_vendors_key_goes_nowhere_that_a_file_says(tmp_path: Path, case: str) -> None:
    secret, address, command = VENDORS[case]
    Stranger.heard.clear()
    with served_in_thread(Stranger) as url:
        (tmp_path / ".env").write_text(f"{address}={url}\nSOLANA_NETWORK=localnet\n")
        with run(tmp_path, *command, **{secret: SECRET}) as ended:
            assert SECRET not in ended.stdout + ended.stderr
    assert SECRET not in "".join(Stranger.heard)


def test_what_a_file_redirects_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    provider = ProviderSpec(
        "acme", "m", {}, secret_env="ACME_API_KEY", base_url_env="ACME_BASE_URL"
    )
    names = ("COINGECKO_API_KEY", "ACME_API_KEY")
    for name in names:
        monkeypatch.setenv(name, SECRET)
    (tmp_path / ".env").write_text(
        "COINGECKO_API_URL=https://a.example\nACME_BASE_URL=https://a.example\n"
    )
    with pytest.raises(ConfigError, match=r"COINGECKO_API_URL is set in .*, but COINGECKO_API_KEY"):
        Settings().key_for("coingecko_api_key", "coingecko_api_url")
    with pytest.raises(ConfigError, match=r"ACME_BASE_URL is set in .*, but ACME_API_KEY"):
        Settings().provider_context(provider)
    with (tmp_path / ".env").open("a") as more:
        more.writelines(f"{name}={SECRET}\n" for name in names)
    for name in names:
        monkeypatch.delenv(name)
    assert Settings().key_for("coingecko_api_key", "coingecko_api_url") == SECRET
    assert Settings().provider_context(provider).secret == SECRET


@promise("env-file-sends-no-secret")
@pytest.mark.parametrize(
    "lines",
    [
        "SOLWARD_API_URL={url}\nSOLWARD_API_KEY=${{API_SECRET}}\n",
        "SOLWARD_API_URL={url}/${{API_SECRET}}\nSOLWARD_API_KEY=k\n",
    ],
    ids=["as the token", "in the address"],
)
def test_no_line_of_a_file_has_a_variable_of_the_environment_in_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, lines: str
) -> None:
    (tmp_path / ".env").write_text(lines.format(url="http://a.example"))
    monkeypatch.chdir(tmp_path)
    for name in ("SOLWARD_API_URL", "SOLWARD_API_KEY"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("API_SECRET", SECRET)
    assert "${API_SECRET}" in "".join(Settings().client_target)
    assert SECRET not in "".join(Settings().client_target)


def test_a_third_partys_variable_is_read_as_it_is_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / ".env").write_text("ACME_API_KEY=${API_SECRET}\n")
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("ACME_API_KEY", raising=False)
    monkeypatch.setenv("API_SECRET", SECRET)
    assert Settings().plugin_secret("ACME_API_KEY") == "${API_SECRET}"


def test_who_names_the_address_is_heard(tmp_path: Path, stranger: Listener) -> None:
    hostile(tmp_path, stranger, ("SOLWARD_API_URL",))
    with socket.socket() as nobody:
        nobody.bind(("127.0.0.1", 0))
        mine = f"http://127.0.0.1:{nobody.getsockname()[1]}"
        for given, environment in (
            (("--url", mine), {}),
            ((), {"SOLWARD_API_URL": mine}),
        ):
            told = environment | {"SOLWARD_API_KEY": SECRET}
            with run(tmp_path, "wallet", "list", *given, **told) as ended:
                assert ended.returncode == 1, ended
                assert mine in ended.stderr
    assert not stranger.was_called


@pytest.mark.parametrize(
    ("values", "environment"),
    [
        ("SOLWARD_API_URL=http://a.example\nSOLWARD_API_KEY=k\n", {}),
        ("SOLWARD_API_URL=http://a.example\n", {}),
        ("SOLWARD_API_KEY=k\n", {"SOLWARD_API_URL": "http://a.example"}),
    ],
    ids=["both in the file", "the development secret is public", "the file's key to my service"],
)
def test_what_gives_nothing_away_stays_allowed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, values: str, environment: dict[str, str]
) -> None:
    (tmp_path / ".env").write_text(values)
    monkeypatch.chdir(tmp_path)
    for name in ("SOLWARD_API_URL", "SOLWARD_API_KEY", "API_SECRET"):
        monkeypatch.delenv(name, raising=False)
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    assert Settings().client_target[0] == "http://a.example"


def test_an_address_that_the_environment_repeats_is_its_own(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / ".env").write_text("SOLWARD_API_URL=http://evil.example\n")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("SOLWARD_API_KEY", SECRET)
    with pytest.raises(ConfigError, match="SOLWARD_API_URL is set in"):
        _ = Settings().client_target
    monkeypatch.setenv("SOLWARD_API_URL", "http://mine.example")
    assert Settings().client_target == ("http://mine.example", SECRET)
