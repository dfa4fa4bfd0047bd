"""What deploy/ shows can be used as it is: its variables, its commands, its YAML."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import click
import pytest
import yaml
from tests.support.repository import ROOT

from solward.hosts.confinement import landlock
from solward.settings import Settings
from solward_cli import main

DEPLOY = ROOT / "deploy"
EXAMPLE = (DEPLOY / ".env.example").read_text()
COMPOSE: dict[str, Any] = yaml.safe_load((DEPLOY / "compose.yaml").read_text())
SINGLE_HOST = DEPLOY / "single-host"
UNITS = [*sorted(DEPLOY.glob("*.service")), SINGLE_HOST / "solward.service"]
PAGE = "\n".join(
    (ROOT / "docs/how-to" / name).read_text() for name in ("operate.md", "many-machines.md")
)

# Of PostgreSQL's image, Compose, Python and the shell.
OTHERS = {
    "COMPOSE_PROFILES",
    "PATH",
    "POSTGRES_DB",
    "POSTGRES_PASSWORD",
    "POSTGRES_USER",
    "PYTHONUNBUFFERED",
}
KNOWN = OTHERS | {name.upper() for name in Settings.model_fields}

SECRET = "7c1e9a5b3d2f4068b09d4e7a1c35f268e3a90d6b27c81f545f0b8e2d9a467c13"


def assigned(text: str) -> list[str]:
    return re.findall(r"^#?([A-Z][A-Z_]+)=", text, re.MULTILINE)


def services_of_ours() -> dict[str, dict[str, Any]]:
    return {name: each for name, each in COMPOSE["services"].items() if each["image"] == "solward"}


def commands() -> Iterator[tuple[str, list[str]]]:
    for name, service in services_of_ours().items():
        yield f"compose.yaml: {name}", service["command"]
    for unit in UNITS:
        [line] = re.findall(r"^ExecStart=(.+)$", unit.read_text(), re.MULTILINE)
        program, *words = line.replace("%i", "3002").split()
        assert program.endswith("/bin/solward")
        yield unit.name, words
    [line] = re.findall(r"^CMD (.+)$", (DEPLOY / "Dockerfile").read_text(), re.MULTILINE)
    yield "Dockerfile", yaml.safe_load(line)


def parse(words: list[str]) -> click.Context:
    context = main.make_context("solward", list(words))
    while isinstance(context.command, click.Group):
        name, command, rest = context.command.resolve_command(
            context, [*context._protected_args, *context.args]
        )
        assert command is not None
        context = command.make_context(name, rest, parent=context)
    return context


def named_in(text: str) -> list[str]:
    spans = re.findall(r"`(solward [^`]+)`", text)
    blocks = re.findall(r"^```\n(.*?)^```$", text, re.MULTILINE | re.DOTALL)
    lines = [line.split("#")[0] for block in blocks for line in block.splitlines()]
    return [*spans, *(m for line in lines for m in re.findall(r"^(?:\$ )?(solward .+)$", line))]


def test_every_variable_is_a_setting() -> None:
    named = set(assigned(EXAMPLE))
    for service in COMPOSE["services"].values():
        named |= set(service.get("environment", {}))
    named |= set(re.findall(r"\$\{([A-Z_]+)", (DEPLOY / "compose.yaml").read_text()))
    for unit in UNITS:
        named |= set(re.findall(r"^Environment=([A-Z_]+)=", unit.read_text(), re.MULTILINE))
    dockerfile = (DEPLOY / "Dockerfile").read_text()
    named |= set(re.findall(r"^(?:ENV|   ) ([A-Z_]+)=", dockerfile, re.MULTILINE))
    assert {"DATABASE_URL", "SOLWARD_HOME", "NEXT_PUBLIC_API_URL"} <= named
    assert named <= KNOWN


@pytest.mark.parametrize(
    ("where", "words"), list(commands()), ids=[where for where, _ in commands()]
)
def test_every_command_is_taken(where: str, words: list[str]) -> None:
    serving = ("server start", "worker", "dashboard", "localnet", "up")
    assert parse(words).command_path.removeprefix("solward ") in serving


def test_the_page_names_commands_and_options_that_exist() -> None:
    named = named_in(PAGE)
    assert len(named) > 10
    for text in named:
        command: click.Command = main
        words = text.split()[1:]
        while isinstance(command, click.Group) and words:
            found = command.get_command(click.Context(command), words.pop(0))
            assert found is not None, text
            command = found
        taken = {option for each in command.params for option in (*each.opts, "-h", "--help")}
        for word in words:
            assert not word.startswith("-") or word.partition("=")[0] in taken, text


def with_secrets(example: str) -> str:
    """Every setting without a value gets one of its own."""
    return re.sub(r"^([A-Z_]+)=$", rf"\1={SECRET}-\1", example, flags=re.MULTILINE)


def test_the_example_settings_are_accepted_once_their_secrets_are_filled_in(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    for name in Settings.model_fields:
        monkeypatch.delenv(name.upper(), raising=False)
    filled = tmp_path / ".env"
    filled.write_text(with_secrets(EXAMPLE))
    url = COMPOSE["x-process"]["environment"]["DATABASE_URL"]
    monkeypatch.setenv("DATABASE_URL", url.replace("${POSTGRES_PASSWORD:?}", SECRET))
    monkeypatch.setenv("SOLWARD_HOME", str(tmp_path))
    monkeypatch.chdir(tmp_path)
    settings = Settings(api_host="0.0.0.0")
    settings.check_serving()
    settings.check_shared_ledger()
    assert settings.shared_database
    assert settings.api_key_store == "database"


def test_the_settings_of_one_host_are_accepted_once_their_secrets_are_filled_in(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    for name in Settings.model_fields:
        monkeypatch.delenv(name.upper(), raising=False)
    example = (SINGLE_HOST / "solward.env.example").read_text()
    assert set(assigned(example)) <= KNOWN
    (tmp_path / ".env").write_text(with_secrets(example))
    monkeypatch.chdir(tmp_path)
    settings = Settings(solward_home=tmp_path)
    settings.check_serving()
    assert settings.dashboard_password is not None
    assert settings.dashboard_url in settings.cors_origins
    assert not settings.shared_database


def test_every_setting_of_the_example_that_is_commented_out_is_accepted_too(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    for name in Settings.model_fields:
        monkeypatch.delenv(name.upper(), raising=False)
    uncommented = re.sub(r"^#([A-Z_]+=)", r"\1", EXAMPLE, flags=re.MULTILINE)
    # What is commented out stands in place of a line before it.
    lines = {line.partition("=")[0]: line for line in with_secrets(uncommented).splitlines()}
    (tmp_path / ".env").write_text("\n".join(lines.values()))
    monkeypatch.chdir(tmp_path)
    settings = Settings(api_host="0.0.0.0")
    settings.check_serving()
    assert settings.mainnet
    assert len(settings.rpc_urls) == 2


@pytest.mark.parametrize("unit", UNITS, ids=lambda unit: unit.name)
def test_a_unit_lets_the_calls_pass_that_confine_plugins(unit: Path) -> None:
    """`@system-service` has no Landlock on systemd 252, and no plugin of a third party ran."""
    [allowed] = re.findall(r"^SystemCallFilter=(.+)$", unit.read_text(), re.MULTILINE)
    assert set(landlock.CALLS) <= set(allowed.split())


def test_every_process_of_ours_says_whether_it_is_well_and_has_time_to_end() -> None:
    for name in ("api", "worker"):
        service = COMPOSE["services"][name]
        assert service["restart"] == "always"
        assert service["healthcheck"]["test"][0] == "CMD"
        compile(service["healthcheck"]["test"][-1], name, "exec")
        assert int(service["stop_grace_period"].removesuffix("s")) >= 60


def test_no_secret_is_written_down_and_none_is_published_to_other_machines() -> None:
    for line in EXAMPLE.splitlines():
        name, _, value = line.removeprefix("#").partition("=")
        if re.search(r"_KEY$|SECRET|PASS", name):
            assert value == "", line
    for service in COMPOSE["services"].values():
        assert all(port.startswith("127.0.0.1:") for port in service.get("ports", ()))


def test_nothing_names_a_registry() -> None:
    for service in COMPOSE["services"].values():
        assert "/" not in service["image"]
    for image in re.findall(r"^FROM (\S+)", (DEPLOY / "Dockerfile").read_text(), re.MULTILINE):
        assert "/" not in image


@pytest.mark.parametrize("path", sorted(DEPLOY.glob("*.y*ml")), ids=lambda path: path.name)
def test_the_yaml_is_yaml(path: Path) -> None:
    assert isinstance(yaml.safe_load(path.read_text()), dict)


def test_the_image_gets_all_that_the_wheel_is_made_of() -> None:
    ignored = (DEPLOY / "Dockerfile.dockerignore").read_text().splitlines()
    let_in = {line[1:] for line in ignored if line.startswith("!")}
    carried = {"plugin_template", "examples/paid_api/paid_api"}
    wanted = {"framework", "plugins", "server", *carried, "hatch_build.py", "LICENSE"}
    assert wanted | {"README.md", "pyproject.toml", "requirements"} == let_in
    assert all((ROOT / name).exists() for name in let_in)
