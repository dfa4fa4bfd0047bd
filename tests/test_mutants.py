"""The choice of mutants is the same after a move, each kind of fault parses, and a loss is red."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from tests.mutants import (
    Edit,
    Imports,
    Judge,
    Mutant,
    Run,
    choose,
    compare,
    edits,
    find,
    is_valid,
    summary,
)

SAMPLE = b'''
"""A module, 1 + 1."""
from typing import TYPE_CHECKING, Literal, Protocol
if TYPE_CHECKING:
    LEFT_OUT = 1
__all__ = ["kept"]
Size = Literal[1, 2]
# Multi-byte text before a node: \xe2\x82\xac.
EURO = "\xe2\x82\xac"; PAGE = 64

class Amount(Protocol):
    def left_out(self, most: int = 1) -> int:
        ...

class Kept:
    strict: bool = True

    def __repr__(self) -> str:
        return str(1 + 1)

    async def kept(self, a: int, b: Literal[3] = 3) -> int | None:
        """Docstring, 1 < 2."""
        if a < b: raise ValueError(1)
        if not (
            a == b and b is not None
        ):
            _log.info("left out", at=1)
            await self.told(min(a, b))
        try:
            a += b
        except ValueError:
            raise
        return f"{a + 1}" + a * b
'''

KINDS = {
    ("integer to 65", 'EURO = "€"; PAGE = 65'),
    ("bool to False", "strict: bool = False"),
    ("integer to 2", "async def kept(self, a: int, b: Literal[3] = 2) -> int | None:"),
    ("guard to pass", "pass"),
    ("comparison to <=", "if a <= b: raise ValueError(1)"),
    ("not dropped", "if (a == b and b is not None):"),
    ("comparison to !=", "a != b and b is not None"),
    ("comparison to is", "a == b and b is None"),
    ("and to or", "a == b or b is not None"),
    ("call to pass", "pass"),
    ("min to max", "await self.told(max(a, b))"),
    ("arithmetic to -", "a -= b"),
    ("raise to pass", "pass"),
    ("return to None", "return None"),
    ("arithmetic to //", 'return f"{a + 1}" + a // b'),
}


def line_of(source: bytes, start: int) -> str:
    begin = source.rfind(b"\n", 0, start) + 1
    return source[begin:].split(b"\n", 1)[0].decode().strip()


def test_a_fault_of_each_kind_parses_and_differs_and_nothing_else_gets_one() -> None:
    found = edits(SAMPLE)
    assert {(each.operator, line_of(each.applied(SAMPLE), each.start)) for each in found} == KINDS
    assert all(is_valid(SAMPLE, each) for each in found)
    assert all(each.function in {"<module>", "Kept", "Kept.kept"} for each in found)


def test_what_does_not_parse_or_means_the_same_is_no_mutant() -> None:
    edit = Edit("<module>", "bool to False", "x = True", 0, start=4, end=8, text="False")
    assert is_valid(b"x = True", edit)
    assert not is_valid(b"x = ((True))", edit)
    assert not is_valid(b"x = False # there already", replace(edit, end=9))


def function(name: str, bound: int) -> bytes:
    return f"def {name}(a: int) -> bool:\n    return a < {bound} and a + 1 < {bound}\n".encode()


def test_the_same_mutants_are_chosen_and_found_after_a_move_and_beside_a_changed_neighbour() -> (
    None
):
    files = {
        "solward/vault/a.py": function("first", 10) + function("second", 20),
        "solward/vault/b.py": function("third", 30) + function("fourth", 40),
    }
    moved = {
        "solward/audit/deep/a.py": b"import os\n" + function("second", 20) + function("first", 10),
        "solward/database/c.py": function("third", 30) + function("fourth", 44),
    }
    before = choose(files, {}, seed=34, count=5)
    rows = [each.row(files[each.path]) for each in before]
    after = find(rows, moved)
    places = {"first": "audit/deep/a", "second": "audit/deep/a", "third": "database/c"}
    for each, there in zip(before, after, strict=True):
        if each.edit.function == "fourth":
            assert there is None
        else:
            assert there is not None
            assert there.path == f"solward/{places[each.edit.function]}.py"
            assert there.edit.id == each.edit.id
            assert there.row(moved[there.path]) | {"module": each.path} in rows
    stable = [each for each in before if each.edit.function != "fourth"]
    again = choose(moved, {}, seed=34, count=8)
    assert [each.edit.id for each in again if each.edit.function != "fourth"][: len(stable)] == [
        each.edit.id for each in stable
    ]
    assert choose(files, {}, seed=35, count=5) != before


def test_two_of_a_function_at_most_and_none_with_a_twin() -> None:
    files = {"solward/vault/a.py": function("first", 10), "solward/vault/b.py": function("x", 1)}
    assert len(choose({"solward/vault/a.py": files["solward/vault/a.py"]}, {}, 34, 9)) == 2
    chosen = choose(files, {"solward/other.py": function("x", 1)}, 34, 9)
    assert {each.path for each in chosen} == {"solward/vault/a.py"}


def test_the_tests_of_a_module_are_those_that_import_it_nearest_first(tmp_path: Path) -> None:
    texts = {
        "framework/solward/__init__.py": "from solward.vault import rules\n",
        "framework/solward/vault/__init__.py": "from solward.vault.rules import judge\n",
        "framework/solward/vault/rules.py": "def judge(): return _sum()\ndef _sum(): return 1\n",
        "framework/solward/vault/hidden.py": "",
        "framework/solward/user.py": "from solward.vault import hidden\n",
        "framework/solward/vault/front.py": "from solward.vault import hidden, rules\n",
        "tests/conftest.py": "import solward.vault.rules\n",
        "tests/support/world.py": "from tests.support import base\n",
        "tests/support/base.py": "from solward.vault.rules import judge\n",
        "tests/test_far.py": "from solward.vault import judge\n",
        "tests/vault/test_near.py": "from solward.vault import rules\nrules.judge()\n",
        "tests/vault/test_rules_more.py": "from solward import rules\n",
        "tests/vault/test_helped.py": "from tests.support.world import a\n",
        "tests/vault/test_other.py": "import solward.user\n",
        "tests/vault/test_front.py": "import solward.vault.front\n",
        "tests/mcp/test_front.py": "import solward.vault.front\n",
        "tests/cli/conftest.py": "import tests.support.base\n",
        "tests/cli/test_by_conftest.py": "",
    }
    for name, text in texts.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text)
    imports = Imports(tmp_path)
    assert imports.tests_of("framework/solward/vault/rules.py", "_sum") == [
        "tests/vault/test_rules_more.py",
        "tests/vault/test_near.py",
        "tests/test_far.py",
        # Through a module of the same package.
        "tests/vault/test_front.py",
        "tests/vault/test_helped.py",
        "tests/cli/test_by_conftest.py",
    ]
    # No test imports it: those of the modules that do.
    assert imports.tests_of("framework/solward/vault/hidden.py", "<module>") == [
        "tests/vault/test_front.py",
        "tests/vault/test_other.py",
        "tests/mcp/test_front.py",
    ]


class FakeCheckout:
    """Answers as pytest would, from what each file's test says with and without a mutant.

    Attributes:
        answers: `passes`, `fails` without a mutant too, `notices` it, `flaky`: fails once only.
    """

    def __init__(self, root: Path, **answers: str) -> None:
        self.root = root
        self.answers = {f"tests/test_{name}.py": answer for name, answer in answers.items()}
        self.is_mutated = False
        for name in self.answers:
            (root / name).parent.mkdir(exist_ok=True)
            (root / name).write_text("import solward.a\n")
        (root / "framework/solward").mkdir(parents=True)
        (root / "framework/solward/a.py").write_text("A = True\n")

    @contextlib.contextmanager
    def mutated(self, mutant: Mutant) -> Iterator[None]:
        self.is_mutated = True
        yield
        self.is_mutated = False

    def pytest(
        self, tests: list[str], left_out: set[str], limit_s: float, *, whole: bool = False
    ) -> Run:
        for name in (each.partition("::")[0] for each in tests):
            answer = self.answers[name]
            if answer == "hangs":
                return Run(None, limit_s, "")
            if answer == "flaky":
                self.answers[name] = "passes"
            fails = answer in {"fails", "flaky"} or (answer == "notices" and self.is_mutated)
            if fails and f"{name}::test_it" not in left_out:
                return Run(1, 7, f"F\nFAILED {name}::test_it - assert 1 == 2\n1 failed")
        return Run(0, 7, "")


@pytest.mark.parametrize(
    ("answers", "outcome", "by", "seconds"),
    [
        ({"b": "passes", "c": "notices"}, "killed", "tests/test_c.py::test_it", 7),
        ({"b": "passes", "c": "passes"}, "survived", "", 7),
        ({"b": "passes", "c": "hangs"}, "timeout", "", 100),
        ({"b": "flaky", "c": "passes"}, "survived", "", 14),
        ({"b": "flaky", "c": "notices"}, "killed", "tests/test_c.py::test_it", 14),
    ],
)
def test_a_mutant_is_killed_by_a_test_that_fails_twice(
    answers: dict[str, str], outcome: str, by: str, seconds: float, tmp_path: Path
) -> None:
    judge = Judge(FakeCheckout(tmp_path, **answers), 100)
    found = judge.outcome(Mutant("framework/solward/a.py", edits(b"A = True\n")[0]))
    assert (found.outcome, found.by, found.seconds) == (outcome, by, seconds)


def test_a_test_that_fails_without_a_mutant_kills_none(tmp_path: Path) -> None:
    judge = Judge(FakeCheckout(tmp_path, b="fails", c="notices"), 100)
    mutant = Mutant("framework/solward/a.py", edits(b"A = True\n")[0])
    first = judge.outcome(mutant)
    assert first.by == "tests/test_b.py::test_it"
    assert judge.broken([first.by]) == {first.by}
    second = judge.outcome(mutant)
    assert (second.outcome, second.by) == ("killed", "tests/test_c.py::test_it")
    assert judge.broken([second.by]) == set()


def results(path: Path, *outcomes: str) -> Path:
    rows = [
        {
            "id": str(number), "module": "a.py", "function": "f", "operator": "and to or",
            "line": "a and b", "becomes": "a or b", "outcome": outcome, "by": "tests/test_a.py::t",
        }
        for number, outcome in enumerate(outcomes)
    ]  # fmt: skip
    path.write_text(json.dumps({"mutants": rows}))
    return path


@pytest.mark.parametrize("now", ["survived", "timeout", "not found"])
def test_a_mutant_that_died_before_and_lives_now_is_red(
    now: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    before = results(tmp_path / "before.json", "killed", "killed", "survived")
    assert compare(before, before) == 0
    better = results(tmp_path / "better.json", "killed", "killed", "killed")
    assert compare(before, better) == 0
    capsys.readouterr()
    assert compare(before, results(tmp_path / "after.json", "killed", now, "killed")) == 1
    printed = capsys.readouterr().out
    assert printed.startswith(
        f"{now} now, killed before by tests/test_a.py::t:\n    a.py, f: a and"
    )
    assert printed.endswith("1 died before and live now, 1 die now and lived before\n")
    # One that was not run is not dead.
    assert compare(before, results(tmp_path / "short.json", "killed")) == 1


def test_the_summary_counts_each_outcome() -> None:
    outcomes = ["killed"] * 37 + ["survived"] * 2 + ["timeout"]
    rows = [{"outcome": each} for each in outcomes]
    assert summary(rows) == "37 killed, 2 survived, 1 timed out of 40"
