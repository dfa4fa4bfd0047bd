"""Completion in a shell."""

from __future__ import annotations

import ast
import contextlib
import os
import pty
import re
import select
import shlex
import shutil
import socket
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from click.shell_completion import BashComplete, FishComplete, ShellComplete, ZshComplete
from click.testing import CliRunner
from tests.support.cli import Live
from tests.support.processes import SECRET

from solward_cli import _COMMANDS, main, named


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_the_script_of_each_shell_is_printed(shell: str) -> None:
    result = CliRunner().invoke(main, ["completion", shell])
    assert result.exit_code == 0
    assert f"_SOLWARD_COMPLETE={shell}_complete" in result.stdout


def test_another_shell_is_a_usage_error() -> None:
    result = CliRunner().invoke(main, ["completion", "tcsh"])
    assert result.exit_code == 2
    assert "'tcsh' is not one of 'bash', 'zsh', 'fish'" in result.stderr


def completed(words: str, **variables: str) -> list[str]:
    program = (
        "import sys\nfrom solward_cli import main\n"
        "try:\n    main(prog_name='solward', complete_var='_SOLWARD_COMPLETE')\n"
        "finally:\n    print('|', *{'quart', 'solders', 'sqlalchemy'} & set(sys.modules))\n"
    )
    environment = {
        "_SOLWARD_COMPLETE": "bash_complete",
        "COMP_WORDS": words,
        "COMP_CWORD": str(len(words.split(" ")) - 1),
    }
    done = subprocess.run(
        [sys.executable, "-c", program],
        env=os.environ | environment | variables,
        capture_output=True,
        text=True,
        check=True,
    )
    offered, _, heavy = done.stdout.partition("|")
    assert heavy.strip() == ""
    assert done.stderr == ""
    return [line.removeprefix("plain,") for line in offered.splitlines() if line]


@pytest.mark.more
def test_commands_and_options_are_completed_without_the_services_libraries() -> None:
    assert completed("solward ") == list(_COMMANDS)
    assert completed("solward wal") == ["wallet"]
    assert completed("solward wallet tr") == ["transfer"]
    assert "--dry-run" in completed("solward wallet transfer --d")


@pytest.mark.skipif(shutil.which("bash") is None, reason="there is no bash here")
def test_bash_takes_the_script_and_completes_with_it(tmp_path: Path) -> None:
    script = CliRunner().invoke(main, ["completion", "bash"]).stdout
    (tmp_path / "script").write_text(script)
    program = tmp_path / "solward"
    program.write_text(
        f"#!{sys.executable}\nfrom solward_cli import main\nmain(prog_name='solward')\n"
    )
    program.chmod(0o755)
    line = (
        "source ./script; COMP_WORDS=(solward age); COMP_CWORD=1; "
        '_solward_completion ./solward; echo "${COMPREPLY[@]}"'
    )
    done = subprocess.run(
        ["bash", "-c", line], cwd=tmp_path, capture_output=True, text=True, check=True
    )
    assert done.stdout.split() == ["agent"]


def offered(*words: str) -> list[str]:
    complete = BashComplete(main, {}, "solward", "_SOLWARD_COMPLETE")
    return [each.value for each in complete.get_completions([*words[:-1]], words[-1])]


@pytest.mark.more
def test_names_of_the_running_service_are_completed(
    live: Live, monkeypatch: pytest.MonkeyPatch
) -> None:
    # A shell does not wait as long as a busy machine may take.
    monkeypatch.setattr(named, "TIMEOUT_S", 60)
    monkeypatch.setenv("SOLWARD_API_URL", live.url)
    monkeypatch.setenv("SOLWARD_API_KEY", SECRET)
    wallet, agent = live.wallet(0), live.agent()
    for words in ("wallet balance", "tx list --wallet", "wallet transfer x", "wallet sweep x"):
        assert wallet in offered(*words.split(), "wallet-"), words
        assert offered(*words.split(), "nobody") == []
    for words in ("agent show", "agent chat"):
        assert agent in offered(*words.split(), agent[:3]), words
    assert offered("skills", "run", "tr") == ["transfer", "transfer_token"]
    monkeypatch.setenv("SOLWARD_API_URL", "http://127.0.0.1:9")
    assert wallet in offered("wallet", "balance", "--url", live.url, "wallet-")


@pytest.mark.more
@pytest.mark.parametrize("given", ["http://127.0.0.1:9", "no address", ""])
def test_without_a_service_no_name_is_offered_and_nothing_said(given: str) -> None:
    assert completed("solward wallet balance x", SOLWARD_API_URL=given) == []


@pytest.mark.more
def test_a_service_that_refuses_or_does_not_answer_is_not_waited_for(live: Live) -> None:
    wrong = {"SOLWARD_API_URL": live.url, "SOLWARD_API_KEY": "sk-wrong"}
    assert completed("solward wallet balance wallet-", **wrong) == []
    with socket.create_server(("127.0.0.1", 0)) as silent:
        address = f"http://127.0.0.1:{silent.getsockname()[1]}"
        assert completed("solward wallet balance x", SOLWARD_API_URL=address) == []


# Names that anybody with a key may give a wallet; `{}` is what of them is typed. Each makes a file
# `pwned` in the current folder where a shell runs it, asks another service, or names files there.
HOSTILE = [
    "{};touch pwned",
    "{}$(touch pwned)",
    "{}`touch pwned`",
    "{}';touch pwned;'",
    '{}";touch pwned;"',
    "{}\\;touch pwned",
    "{}$'\\n'touch pwned",
    "{}>pwned",
    "{}|touch pwned",
    "{}&touch pwned&",
    "{}'`;touch pwned;#",
    "{}!!",
    "{}*",
    "{}{{a,b}}",
    "{},b",
]


@contextlib.contextmanager
def bash(folder: Path, live: Live) -> Iterator[Callable[[str], list[str]]]:
    """An interactive bash on a terminal, with the completion of a `solward` that says what it was
    called with: what it gets for a line on which TAB and Enter are pressed."""
    program = folder / "bin" / "solward"
    program.parent.mkdir()
    program.write_text(
        f"#!{sys.executable}\nimport os, sys\nfrom solward_cli import named, main\n"
        "named.TIMEOUT_S = 60\n"
        "if 'completion' in sys.argv or '_SOLWARD_COMPLETE' in os.environ:\n"
        "    main(prog_name='solward')\n"
        "print(f'<{ascii(sys.argv[1:])}>')\n"
    )
    program.chmod(0o755)
    here = folder / "here"
    here.mkdir()
    pid, terminal = pty.fork()
    if pid == 0:
        os.chdir(here)
        variables = {"PATH": f"{program.parent}:{os.environ['PATH']}", "TERM": "dumb", "PS1": "> "}
        variables |= {"SOLWARD_API_URL": live.url, "SOLWARD_API_KEY": SECRET, "HOME": str(folder)}
        os.execvpe("bash", ["bash", "--norc", "--noprofile"], os.environ | variables)

    def told(line: str) -> list[str]:
        os.write(terminal, f"{line}\n".encode())
        shown = ""
        while (found := re.search(r"<(\[.*\])>", shown)) is None:
            assert select.select([terminal], [], [], 60)[0], shown
            shown += os.read(terminal, 65536).decode(errors="replace")
        return [str(each) for each in ast.literal_eval(found[1])]

    try:
        told('eval "$(solward completion bash)"; solward ready')
        yield told
    finally:
        os.close(terminal)
        os.waitpid(pid, 0)


@pytest.mark.long
@pytest.mark.skipif(shutil.which("bash") is None, reason="there is no bash here")
@pytest.mark.parametrize(
    "quote", ["", *(pytest.param(each, marks=pytest.mark.long) for each in ("'", '"'))]
)
def test_no_name_is_run_by_the_shell_that_completes_it(
    live: Live, tmp_path: Path, quote: str
) -> None:
    made = {f"w{at:02}{len(quote)}{ord(quote or '_')}": each for at, each in enumerate(HOSTILE)}
    with bash(tmp_path, live) as told:
        for typed, name in made.items():
            wallet = live.post("/wallets", name=name.format(typed))["walletId"]
            got = told(f"solward wallet show {quote}{typed}\t")
            assert got == ["wallet", "show", wallet], name
    assert list((tmp_path / "here").iterdir()) == []


@pytest.mark.long
@pytest.mark.skipif(shutil.which("bash") is None, reason="there is no bash here")
def test_a_name_is_completed_as_one_word(live: Live, tmp_path: Path) -> None:
    names = ["p1 with spaces é 漢字", "p2:1=2,@home", "p3/a+b%", "p4-plain_1.0", "p5漢字"]
    ids = {name: live.post("/wallets", name=name)["walletId"] for name in names}
    with bash(tmp_path, live) as told:
        for quote in ("", "'", '"'):
            for name in names:
                got = told(f"solward wallet show {quote}{name[:2]}\t")
                # By its id where a shell might end the word, or read it otherwise.
                assert got[2:] == [name if name[:2] in ("p4", "p5") else ids[name]]
        # Quotes within a word are no other line either.
        assert told('solward wallet show "p"1\t')[2:] in (["p1"], [ids[names[0]]])


@pytest.mark.more
@pytest.mark.parametrize("kind", [BashComplete, ZshComplete, FishComplete])
def test_nothing_that_a_shell_reads_otherwise_is_offered_to_it(
    live: Live, monkeypatch: pytest.MonkeyPatch, kind: type[ShellComplete]
) -> None:
    monkeypatch.setattr(named, "TIMEOUT_S", 60)
    monkeypatch.setenv("SOLWARD_API_URL", live.url)
    monkeypatch.setenv("SOLWARD_API_KEY", SECRET)
    option = live.post("/wallets", name="--url=http://thief.example")["walletId"]
    home = live.post("/wallets", name="~root")["walletId"]
    complete = kind(main, {}, "solward", "_SOLWARD_COMPLETE")
    words = {each.value for each in complete.get_completions(["wallet", "show"], "")}
    assert {option, home} < words
    assert all(re.fullmatch(r"[^\W_][\w.-]*", each) for each in words), words
    agents = {each.value for each in complete.get_completions(["agent", "show"], "")}
    assert all(shlex.quote(each) == each for each in agents)
