"""Puts small faults (mutants) into product modules, one at a time, and tells which tests notice.

Run it before and after a change of the tests or of the layout, and compare:

    python -m tests.mutants --from tests/mutants.json --results before.json
    python -m tests.mutants --from tests/mutants.json --results after.json
    python -m tests.mutants --compare before.json after.json

A mutant is known by its function's qualified name, the text of its line, its operator and its
occurrence. The module's name is no part of it, so a stored list is found again after a move.

The tests run on a copy of the checkout with an environment of its own. The checkout never changes.
"""

from __future__ import annotations

import argparse
import ast
import contextlib
import hashlib
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from types import FrameType
from typing import Any, Final

ROOT: Final = Path(__file__).resolve().parents[1]
SOURCES: Final = ("framework", "plugins", "server")
EVERYWHERE: Final = "framework/solward"
LIMIT_S: Final = 180
# Two at most, so that one long function does not take all places.
PER_FUNCTION: Final = 2

# Of pytest's exit statuses: all passed, and none was selected.
PASSED: Final = (0, 5)
LEFT_OUT: Final = ("long", "llm", "devnet", "agentdojo", "more")
# A kill is confirmed by runs of one test, which pytest's own timeout ends at 120 s.
CONFIRMATION_S: Final = 300
# The nearest tests run first and alone: collecting all of them takes longer than most kills.
BATCHES: Final = (4, 12, 32)

LOG_METHODS: Final = frozenset(
    {"debug", "info", "warning", "error", "exception", "critical", "log", "msg"}
)
COMPARISONS: Final[Mapping[type[ast.cmpop], tuple[str, str]]] = {
    ast.Lt: (r"<", "<="),
    ast.LtE: (r"<=", "<"),
    ast.Gt: (r">", ">="),
    ast.GtE: (r">=", ">"),
    ast.Eq: (r"==", "!="),
    ast.NotEq: (r"!=", "=="),
    ast.Is: (r"is", "is not"),
    ast.IsNot: (r"is\s+not", "is"),
    ast.In: (r"in", "not in"),
    ast.NotIn: (r"not\s+in", "in"),
}
ARITHMETIC: Final[Mapping[type[ast.operator], tuple[str, str]]] = {
    ast.Add: (r"\+", "-"),
    ast.Sub: (r"-", "+"),
    ast.Mult: (r"\*", "//"),
    ast.FloorDiv: (r"//", "*"),
    ast.Div: (r"/", "*"),
}
OPPOSITE_CALLS: Final = {"min": "max", "max": "min"}


# Candidates: every place of a module where a fault can be put.


@dataclass(frozen=True, slots=True)
class Edit:
    """A fault at a place of a module's text.

    Attributes:
        function: the qualified name of the function or class around it, or `<module>`.
        operator: the kind of fault.
        line: the text of the line where the edit begins, stripped.
        occurrence: counts the same edits of the same line text in the same function, from 0.
        start: the first byte that is replaced.
        end: the byte after the last one that is replaced.
        text: what stands there instead.
    """

    function: str
    operator: str
    line: str
    occurrence: int
    start: int
    end: int
    text: str

    @property
    def id(self) -> str:
        """Names the edit wherever its function stands."""
        return _digest(self.function, self.line, self.operator, str(self.occurrence))

    def applied(self, source: bytes) -> bytes:
        """Returns the module's text with the fault."""
        return source[: self.start] + self.text.encode() + source[self.end :]


def _digest(*parts: str) -> str:
    return hashlib.sha256("\0".join(parts).encode()).hexdigest()[:16]


def edits(source: bytes) -> list[Edit]:
    """Returns every fault that can be put into a module."""
    finder = _Finder(source)
    finder.visit(ast.parse(source))
    return finder.found


def is_valid(source: bytes, edit: Edit) -> bool:
    """Tells whether the faulty text parses and means something else."""
    try:
        mutated = ast.parse(edit.applied(source))
    except SyntaxError:
        return False
    return ast.dump(mutated) != ast.dump(ast.parse(source))


class _Finder(ast.NodeVisitor):
    """Collects edits. What it does not visit gets none: annotations, decorators, log lines."""

    def __init__(self, source: bytes) -> None:
        self.found: list[Edit] = []
        self._source = source
        self._lines = source.splitlines(keepends=True)
        self._starts = [0]
        for line in self._lines:
            self._starts.append(self._starts[-1] + len(line))
        self._scope: list[str] = []
        self._returns: list[ast.expr | None] = []
        self._counts: Counter[tuple[str, str, str]] = Counter()

    def _start(self, node: ast.stmt | ast.expr) -> int:
        return self._starts[node.lineno - 1] + node.col_offset

    def _end(self, node: ast.stmt | ast.expr) -> int:
        assert node.end_lineno is not None
        assert node.end_col_offset is not None
        return self._starts[node.end_lineno - 1] + node.end_col_offset

    def _add(self, operator: str, start: int, end: int, text: str) -> None:
        begin = self._source.rfind(b"\n", 0, start) + 1
        line = self._source[begin:].split(b"\n", 1)[0].decode().strip()
        function = ".".join(self._scope) or "<module>"
        key = (function, line, operator)
        self.found.append(Edit(function, operator, line, self._counts[key], start, end, text))
        self._counts[key] += 1

    def _between(self, left: ast.expr, right: ast.expr, pattern: str, text: str, name: str) -> None:
        """Adds an edit of the operator that stands between two operands."""
        start = self._end(left)
        gap = self._source[start : self._start(right)].decode()
        found = re.search(pattern, gap)
        # A comment in between may contain the operator.
        if found and "#" not in gap:
            self._add(name, start + found.start(), start + found.end(), text)

    def _visit_function(self, node: ast.FunctionDef | ast.AsyncFunctionDef) -> None:
        if node.name == "__repr__":
            return
        self._scope.append(node.name)
        self._returns.append(node.returns)
        for each in (*node.args.defaults, *filter(None, node.args.kw_defaults), *node.body):
            self.visit(each)
        self._returns.pop()
        self._scope.pop()

    def visit_FunctionDef(self, node: ast.FunctionDef) -> None:
        self._visit_function(node)

    def visit_AsyncFunctionDef(self, node: ast.AsyncFunctionDef) -> None:
        self._visit_function(node)

    def visit_ClassDef(self, node: ast.ClassDef) -> None:
        # A protocol says what others do, and no code of it runs.
        if any(_is_name(base, "Protocol") for base in node.bases):
            return
        self._scope.append(node.name)
        for each in node.body:
            self.visit(each)
        self._scope.pop()

    def visit_AnnAssign(self, node: ast.AnnAssign) -> None:
        if node.value is not None and not _is_name(node.target, "__all__"):
            self.visit(node.value)

    def visit_Assign(self, node: ast.Assign) -> None:
        if not any(_is_name(target, "__all__") for target in node.targets):
            self.generic_visit(node)

    def visit_Subscript(self, node: ast.Subscript) -> None:
        if not (_is_name(node.value, "Literal") or _is_name(node.value, "Annotated")):
            self.generic_visit(node)

    def visit_JoinedStr(self, node: ast.JoinedStr) -> None:
        """Leaves f-strings out: before Python 3.12 their parts have wrong positions."""

    def visit_If(self, node: ast.If) -> None:
        if _is_name(node.test, "TYPE_CHECKING") or "__main__" in ast.dump(node.test):
            for each in node.orelse:
                self.visit(each)
            return
        if len(node.body) == 1 and isinstance(node.body[0], ast.Raise) and not node.orelse:
            self._add("guard to pass", self._start(node), self._end(node), "pass")
            self.visit(node.test)
            return
        self.generic_visit(node)

    def visit_Raise(self, node: ast.Raise) -> None:
        self._add("raise to pass", self._start(node), self._end(node), "pass")

    def visit_Expr(self, node: ast.Expr) -> None:
        call = node.value.value if isinstance(node.value, ast.Await) else node.value
        if isinstance(call, ast.Call):
            if _is_log_line(call):
                return
            self._add("call to pass", self._start(node), self._end(node), "pass")
        self.generic_visit(node)

    def visit_Return(self, node: ast.Return) -> None:
        annotation = self._returns[-1] if self._returns else None
        if not any(each is None or _is_none(each) for each in (annotation, node.value)):
            self._add("return to None", self._start(node), self._end(node), "return None")
        self.generic_visit(node)

    def visit_Compare(self, node: ast.Compare) -> None:
        operands = [node.left, *node.comparators]
        for left, operator, right in zip(operands, node.ops, operands[1:], strict=False):
            pattern, text = COMPARISONS[type(operator)]
            self._between(left, right, pattern, text, f"comparison to {text}")
        self.generic_visit(node)

    def visit_BoolOp(self, node: ast.BoolOp) -> None:
        old, new = ("and", "or") if isinstance(node.op, ast.And) else ("or", "and")
        for left, right in zip(node.values, node.values[1:], strict=False):
            self._between(left, right, rf"\b{old}\b", new, f"{old} to {new}")
        self.generic_visit(node)

    def visit_UnaryOp(self, node: ast.UnaryOp) -> None:
        if isinstance(node.op, ast.Not):
            operand = self._source[self._start(node.operand) : self._end(node.operand)].decode()
            self._add("not dropped", self._start(node), self._end(node), f"({operand})")
        self.generic_visit(node)

    def visit_BinOp(self, node: ast.BinOp) -> None:
        if type(node.op) in ARITHMETIC and not (_is_text(node.left) or _is_text(node.right)):
            pattern, text = ARITHMETIC[type(node.op)]
            self._between(node.left, node.right, pattern, text, f"arithmetic to {text}")
        self.generic_visit(node)

    def visit_AugAssign(self, node: ast.AugAssign) -> None:
        if type(node.op) in ARITHMETIC and not _is_text(node.value):
            pattern, text = ARITHMETIC[type(node.op)]
            self._between(node.target, node.value, pattern, text, f"arithmetic to {text}")
        self.generic_visit(node)

    def visit_Call(self, node: ast.Call) -> None:
        if isinstance(node.func, ast.Name) and node.func.id in OPPOSITE_CALLS:
            text = OPPOSITE_CALLS[node.func.id]
            name = f"{node.func.id} to {text}"
            self._add(name, self._start(node.func), self._end(node.func), text)
        self.generic_visit(node)

    def visit_Constant(self, node: ast.Constant) -> None:
        if isinstance(node.value, bool):
            text = str(not node.value)
            self._add(f"bool to {text}", self._start(node), self._end(node), text)
        elif isinstance(node.value, int):
            # The number alone says which way, so that a move does not change it.
            step = 1 if node.value % 2 == 0 else -1
            text = str(node.value + step)
            self._add(f"integer to {text}", self._start(node), self._end(node), text)


def _is_name(node: ast.expr, name: str) -> bool:
    return (isinstance(node, ast.Name) and node.id == name) or (
        isinstance(node, ast.Attribute) and node.attr == name
    )


def _is_none(node: ast.expr) -> bool:
    return isinstance(node, ast.Constant) and node.value is None


def _is_text(node: ast.expr) -> bool:
    if isinstance(node, ast.BinOp):
        return _is_text(node.left) or _is_text(node.right)
    if isinstance(node, ast.Constant):
        return isinstance(node.value, (str, bytes))
    return isinstance(node, (ast.JoinedStr, ast.List, ast.Tuple, ast.ListComp))


def _is_log_line(call: ast.Call) -> bool:
    return (
        isinstance(call.func, ast.Attribute)
        and call.func.attr in LOG_METHODS
        and isinstance(call.func.value, ast.Name)
        and call.func.value.id.strip("_").lower() in {"log", "logger"}
    )


# The choice: which of the candidates are run, and where a stored choice stands today.


@dataclass(frozen=True, slots=True)
class Mutant:
    """A fault in a module of the tree as it is.

    Attributes:
        path: the module's path from the root.
    """

    path: str
    edit: Edit

    def row(self, source: bytes) -> dict[str, str]:
        """Returns what a list and results say of it."""
        begin = source.rfind(b"\n", 0, self.edit.start) + 1
        mutated = self.edit.applied(source)[begin:].split(b"\n", 1)[0].decode().strip()
        return {
            "id": self.edit.id,
            "module": self.path,
            "function": self.edit.function,
            "operator": self.edit.operator,
            "line": self.edit.line,
            "becomes": mutated,
        }


def modules_below(root: Path, folders: Iterable[str]) -> dict[str, bytes]:
    """Returns the Python files of the folders by their paths from the root."""
    return {
        path.relative_to(root).as_posix(): path.read_bytes()
        for folder in folders
        for path in sorted((root / folder).rglob("*.py"))
    }


def _by_id(modules: Mapping[str, bytes]) -> dict[str, list[Mutant]]:
    found: dict[str, list[Mutant]] = defaultdict(list)
    for path, source in modules.items():
        for edit in edits(source):
            found[edit.id].append(Mutant(path, edit))
    return found


def choose(
    modules: Mapping[str, bytes], elsewhere: Mapping[str, bytes], seed: int, count: int
) -> list[Mutant]:
    """Chooses mutants of `modules`.

    Args:
        modules: texts by path.
        elsewhere: modules in which none is chosen. A mutant that has its twin there is left out,
            because a stored list could not tell them apart after a move.
    """
    everywhere = _by_id({**elsewhere, **modules})
    places: Counter[tuple[str, str]] = Counter()
    chosen: list[Mutant] = []
    for each in sorted(everywhere, key=lambda each: _digest(str(seed), each)):
        mutant, *twins = everywhere[each]
        place = (mutant.path, mutant.edit.function)
        if twins or mutant.path not in modules or places[place] == PER_FUNCTION:
            continue
        if is_valid(modules[mutant.path], mutant.edit):
            places[place] += 1
            chosen.append(mutant)
            if len(chosen) == count:
                break
    return chosen


def find(rows: Iterable[Mapping[str, str]], modules: Mapping[str, bytes]) -> list[Mutant | None]:
    """Returns where each stored mutant stands now; None where none or several places match."""
    everywhere = _by_id(modules)
    found: list[Mutant | None] = []
    for row in rows:
        places = everywhere.get(row["id"], [])
        if len(places) > 1:
            name = Path(row["module"]).name
            places = [each for each in places if Path(each.path).name == name]
        found.append(places[0] if len(places) == 1 else None)
    return found


# The tests of a module: those that import it, nearest first.


class Imports:
    """Who imports whom, read from the sources without running them."""

    def __init__(self, root: Path) -> None:
        self._paths = {
            _dotted(path.relative_to(base)): path
            for base, folder in (
                (root, root / "tests"),
                *((root / each, root / each) for each in SOURCES),
            )
            for path in folder.rglob("*.py")
        }
        self._root = root
        self._words: dict[str, frozenset[str]] = {}
        self._exports: dict[str, dict[str, str]] = {}
        self._known: dict[str, frozenset[str]] = {}

    def module(self, path: str) -> str:
        """Returns the dotted name of a path from the root."""
        return _dotted(Path(*Path(path).parts[1:]))

    def tests_of(self, path: str, function: str) -> list[str]:
        """Returns the paths of the test files that import a module, nearest first.

        They import it directly or through one or two helpers of the tests; tests of its own package
        may import another module of it that does. If no test does, those that import a module which
        imports it are returned.
        """
        target = self.module(path)
        package = target.rpartition(".")[0]
        importers = {
            name
            for name in self._paths
            if not name.startswith("tests.") and target in self.imported(name)
        }
        levels = self._levels({target}) or self._levels(importers)
        siblings = {name for name in importers if name.rpartition(".")[0] == package}
        beside = package.replace(package.partition(".")[0], "tests", 1)
        for test, level in self._levels(siblings).items():
            if test.rpartition(".")[0] == beside:
                levels.setdefault(test, level + 1)
        names = {each for each in function.split(".") if not each.startswith(("_", "<"))}
        names |= self._callers(target, function)
        return [
            self._paths[test].relative_to(self._root).as_posix()
            for test in sorted(levels, key=lambda each: self._distance(each, target, names, levels))
        ]

    def imported(self, name: str) -> frozenset[str]:
        """Returns the modules that a module's text imports, with re-exports resolved."""
        if name not in self._known:
            self._known[name] = frozenset(self._named(name).values())
        return self._known[name]

    def _tree(self, name: str) -> ast.Module:
        return ast.parse(self._paths[name].read_bytes())

    def _named(self, name: str) -> dict[str, str]:
        """Returns the module behind each name that a module imports."""
        found: dict[str, str] = {}
        is_package = self._paths[name].name == "__init__.py"
        for node in ast.walk(self._tree(name)):
            if isinstance(node, ast.Import):
                for alias in node.names:
                    if alias.name in self._paths:
                        found[alias.name] = alias.name
            elif isinstance(node, ast.ImportFrom):
                package = node.module or ""
                if node.level:
                    parts = name.split(".")[: -node.level + is_package or None]
                    package = ".".join([*parts, *filter(None, [node.module])])
                for alias in node.names:
                    if behind := self._behind(package, alias.name):
                        found[alias.asname or alias.name] = behind
        return found

    def _behind(self, package: str, name: str) -> str | None:
        if f"{package}.{name}" in self._paths:
            return f"{package}.{name}"
        if package not in self._paths:
            return None
        if self._paths[package].name != "__init__.py":
            return package
        if package not in self._exports:
            # Set first: packages may import each other.
            self._exports[package] = {}
            self._exports[package] = self._named(package)
        return self._exports[package].get(name, package)

    @cached_property
    def _helpers(self) -> dict[str, frozenset[str]]:
        """The helper modules that each module of the tests imports, with `conftest` of its folders.

        The root's `conftest` is left out: it would make every test one of every module it imports.
        """
        tests = {name for name in self._paths if name.startswith("tests.")}
        found = {}
        for name in tests:
            parents = name.split(".")[:-1]
            conftests = {
                ".".join([*parents[:depth], "conftest"]) for depth in range(2, len(parents) + 1)
            }
            found[name] = (self.imported(name) | conftests) & tests - {name, "tests.conftest"}
        return found

    def _levels(self, targets: set[str]) -> dict[str, int]:
        """Returns the test files that import a target: 0 directly, 1 or 2 through helpers."""
        levels: dict[str, int] = {}
        for name in self._helpers:
            if not name.rpartition(".")[2].startswith("test_"):
                continue
            reached = {name}
            for level in range(3):
                if any(targets & self.imported(each) for each in reached):
                    levels[name] = level
                    break
                reached = {helper for each in reached for helper in self._helpers[each]}
        return levels

    def _callers(self, target: str, function: str) -> set[str]:
        """Returns the public names of the module through which a function of its own is called."""
        uses = {
            node.name: {
                each.id if isinstance(each, ast.Name) else each.attr
                for each in ast.walk(node)
                if isinstance(each, (ast.Name, ast.Attribute))
            }
            for node in self._tree(target).body
            if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef))
        }
        reached, new = set[str](), {function.partition(".")[0]}
        while new:
            reached |= new
            new = {name for name, used in uses.items() if used & new} - reached
        return {name for name in reached if not name.startswith(("_", "<"))}

    def _distance(
        self, test: str, target: str, names: set[str], levels: Mapping[str, int]
    ) -> tuple[Any, ...]:
        """Sort key of a test file: named like the module, names the function, in its folder."""
        folder, _, stem = target.rpartition(".")
        own = test.split(".")[1:-1]
        same = 0
        for mine, its in zip(own, folder.split(".")[1:], strict=False):
            if mine != its:
                break
            same += 1
        if test not in self._words:
            self._words[test] = frozenset(re.findall(r"\w+", self._paths[test].read_text()))
        return (
            not test.rpartition(".")[2].startswith(f"test_{stem}"),
            levels[test] > 0,
            -len(names & self._words[test]),
            -same,
            levels[test],
            len(own),
            test,
        )


def _dotted(path: Path) -> str:
    parts = path.with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


# The copy and the run.


@dataclass(frozen=True, slots=True)
class Run:
    """A run of pytest.

    Attributes:
        status: None if it was out of time.
        seconds: how long it took, without the time in which it waited for a processor. So a busy
            machine does not turn a killed mutant into one that was out of time.
    """

    status: int | None
    seconds: float
    output: str

    @property
    def passed(self) -> bool:
        """Tells whether no test failed; one that was out of time has not passed."""
        return self.status in PASSED

    @property
    def failures(self) -> list[str]:
        """The ids of the tests that failed, or the paths of files that could not be collected."""
        found: list[str] = re.findall(
            r"^(?:FAILED|ERROR) (.+?)(?: - .*)?$", self.output, re.MULTILINE
        )
        return found


class Checkout:
    """A copy of the checkout with an environment of its own, in which mutants are put."""

    def __init__(self, root: Path, folder: Path) -> None:
        self.root = folder
        if sys.prefix == sys.base_prefix:
            raise SystemExit(
                "Run it with the virtual environment: .venv/bin/python -m tests.mutants"
            )
        listed = subprocess.run(
            ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"],
            cwd=root, check=True, capture_output=True, text=True,
        )  # fmt: skip
        for name in filter(None, listed.stdout.split("\0")):
            if (root / name).is_file():
                (folder / name).parent.mkdir(parents=True, exist_ok=True)
                shutil.copy2(root / name, folder / name, follow_symlinks=False)
        self._copy_environment(Path(sys.prefix), folder / ".venv")
        # Tests ask git for the files of the checkout.
        for command in (["git", "init", "--quiet"], ["git", "add", "--all"]):
            subprocess.run(command, cwd=folder, check=True)
        self._check()
        self._run("-m", "compileall", "-q", *SOURCES, "tests")
        self._mutants = 0

    @property
    def python(self) -> Path:
        """The interpreter whose packages are the copy's, with `-I` and in child processes too."""
        return self.root / ".venv/bin/python"

    @staticmethod
    def _copy_environment(old: Path, new: Path) -> None:
        """Copies the virtual environment by hard links, and points it at the copied sources."""
        shutil.copytree(old, new, symlinks=True, copy_function=_link)
        for path in (*new.glob("lib/python*/site-packages/*.pth"), *new.glob("bin/*")):
            if not path.is_symlink():
                text = path.read_bytes()
                moved = text.replace(bytes(old), bytes(new))
                moved = moved.replace(bytes(old.parent), bytes(new.parent))
                if moved != text:
                    # Another file: the old one is also the checkout's.
                    mode = path.stat().st_mode
                    path.unlink()
                    path.write_bytes(moved)
                    path.chmod(mode)

    def _run(self, *arguments: str) -> str:
        return subprocess.run(
            [self.python, *arguments], cwd=self.root, check=True, capture_output=True, text=True
        ).stdout

    def _check(self) -> None:
        for flags in ((), ("-I",)):
            found = self._run(*flags, "-c", "import solward; print(solward.__file__)").strip()
            if not Path(found).is_relative_to(self.root):
                raise SystemExit(
                    f"The copy's environment imports {found}: mutants would not be seen"
                )

    @contextlib.contextmanager
    def mutated(self, mutant: Mutant) -> Iterator[None]:
        """Puts a mutant into the copy while the block runs."""
        path = self.root / mutant.path
        source, old = path.read_bytes(), path.stat()
        self._mutants += 1
        path.write_bytes(mutant.edit.applied(source))
        # Python tells stale bytecode by size and second: each text gets a second of its own.
        os.utime(path, (old.st_atime, old.st_mtime - 86_400 - self._mutants))
        try:
            yield
        finally:
            path.write_bytes(source)
            os.utime(path, (old.st_atime, old.st_mtime))

    def pytest(
        self, tests: Sequence[str], left_out: Iterable[str], limit_s: float, *, whole: bool = False
    ) -> Run:
        """Runs tests up to the first failure, or all of them if `whole`."""
        # What one mutant made fail must not be tried first on the next.
        shutil.rmtree(self.root / ".hypothesis", ignore_errors=True)
        command = [
            str(self.python), "-m", "pytest", "-q", "-n", "0", "-p", "no:cacheprovider",
            *([] if whole else ["-x"]), "--hypothesis-seed=34", "--color=no", "--tb=no", "-rfE",
            "--no-header",
            "-m", " and ".join(f"not {mark}" for mark in LEFT_OUT),
            *(f"--deselect={each}" for each in left_out), *tests,
        ]  # fmt: skip
        environment = {
            name: value
            for name, value in os.environ.items()
            if name not in {"PYTHONPATH", "VIRTUAL_ENV", "PYTHONHOME"}
        }
        with tempfile.TemporaryFile("w+") as output:
            process = subprocess.Popen(
                command, cwd=self.root, env=environment, stdin=subprocess.DEVNULL,
                stdout=output, stderr=subprocess.STDOUT, start_new_session=True,
            )  # fmt: skip
            began = time.monotonic()
            counted = waited = 0.0
            try:
                while process.poll() is None and counted < limit_s:
                    waited = max(waited, _waited_s(process.pid))
                    with contextlib.suppress(subprocess.TimeoutExpired):
                        process.wait(0.5)
                    counted = time.monotonic() - began - waited
            finally:
                in_time = process.poll() is not None
                _end(process)
            output.seek(0)
            return Run(process.returncode if in_time else None, counted, output.read())


def _waited_s(process: int) -> float:
    """Returns how long a process waited for a processor; 0 where the system does not say."""
    try:
        return int(Path(f"/proc/{process}/schedstat").read_text().split()[1]) / 1e9
    except (OSError, IndexError):
        return 0


def _link(source: str, target: str) -> None:
    try:
        os.link(source, target)
    except OSError:
        shutil.copy2(source, target)


def _end(process: subprocess.Popen[bytes]) -> None:
    """Ends pytest, which gets time to end what its tests have started, and its process group."""
    if process.poll() is None:
        process.send_signal(signal.SIGINT)
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(20)
    with contextlib.suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
    process.wait()


@dataclass(frozen=True, slots=True)
class Outcome:
    """What became of a mutant.

    Attributes:
        outcome: `killed`, `survived`, `timeout`, or `not found`.
        by: the test that failed.
        seconds: how long its tests ran, without those that confirmed the failure.
        files: how many test files had passed, and how many import the module.
    """

    outcome: str
    by: str = ""
    seconds: float = 0
    files: str = ""


class Judge:
    """Runs the tests of mutants in a copy."""

    def __init__(self, checkout: Checkout, limit_s: float) -> None:
        self._checkout = checkout
        self._limit_s = limit_s
        self._imports = Imports(checkout.root)
        # Tests that fail without a mutant too: what they say of one is worth nothing.
        self._broken: set[str] = set()
        self._clean: set[str] = set()

    def outcome(self, mutant: Mutant) -> Outcome:
        """Runs the tests of a mutant until one fails."""
        tests = self._imports.tests_of(mutant.path, mutant.edit.function)
        passed, seconds = 0, 0.0
        left_out = {*self._broken}
        for batch in _batches(tests):
            while batch:
                with self._checkout.mutated(mutant):
                    run = self._checkout.pytest(batch, left_out, self._limit_s - seconds)
                seconds += run.seconds
                if run.status is None:
                    return Outcome("timeout", "", seconds, f"{passed} of {len(tests)}")
                if run.passed:
                    break
                failed = (run.failures or batch)[0]
                if self._fails_again(mutant, failed):
                    return Outcome("killed", failed, seconds, f"{passed} of {len(tests)}")
                if "::" not in failed or failed in left_out:
                    # A file that cannot be collected, or a test that cannot be left out alone.
                    batch = [each for each in batch if each != failed.partition("::")[0]]
                left_out.add(failed)
            passed += len(batch)
        return Outcome("survived", "", seconds, f"{passed} of {len(tests)}")

    def _fails_again(self, mutant: Mutant, failed: str) -> bool:
        """Tells whether a test fails alone too: one that a busy machine made fail does not."""
        if failed in self._broken:
            return False
        with self._checkout.mutated(mutant):
            return not self._checkout.pytest([failed], (), CONFIRMATION_S).passed

    def broken(self, killers: Iterable[str]) -> set[str]:
        """Returns which of the tests fail without a mutant; they are left out from now on."""
        new = sorted({*killers} - self._clean - self._broken)
        if new:
            run = self._checkout.pytest(new, (), CONFIRMATION_S + 10 * len(new), whole=True)
            doubtful = set() if run.passed else ({*run.failures} & {*new} or {*new})
            for each in new:
                # A test that fails only among the others is asked alone.
                good = (
                    each not in doubtful or self._checkout.pytest([each], (), CONFIRMATION_S).passed
                )
                (self._clean if good else self._broken).add(each)
        return self._broken & {*killers}


def _batches(tests: list[str]) -> Iterator[list[str]]:
    begin = 0
    for size in (*BATCHES, len(tests)):
        if begin < len(tests):
            yield tests[begin : begin + size]
        begin += size


# Results and their comparison.


def summary(rows: Iterable[Mapping[str, Any]]) -> str:
    """Returns the last line of a run, such as `37 killed, 2 survived, 1 timed out of 40`."""
    counts = Counter(row["outcome"] for row in rows)
    text = (
        f"{counts['killed']} killed, {counts['survived']} survived, {counts['timeout']} timed out"
    )
    if counts["not found"]:
        text += f", {counts['not found']} not found"
    return f"{text} of {counts.total()}"


def compare(before: Path, after: Path) -> int:
    """Prints what died before and lives now; returns 1 if there is any, else 0."""
    old, new = (
        {row["id"]: row for row in json.loads(path.read_text())["mutants"]}
        for path in (before, after)
    )
    missing = {"outcome": "not run"}
    lives = [
        each for each in old
        if old[each]["outcome"] == "killed" and new.get(each, missing)["outcome"] != "killed"
    ]  # fmt: skip
    dies = [
        each for each in new
        if new[each]["outcome"] == "killed" and old.get(each, missing)["outcome"] != "killed"
    ]  # fmt: skip
    for each in lives:
        row = old[each]
        print(f"{new.get(each, missing)['outcome']} now, killed before by {row['by']}:")
        print(f"    {row['module']}, {row['function']}: {row['line']}")
        print(f"    {row['operator']}: {row['becomes']}")
    print(f"before: {summary(old.values())}")
    print(f"after:  {summary(new.values())}")
    print(f"{len(lives)} died before and live now, {len(dies)} die now and lived before")
    return 1 if lives else 0


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs the command; returns its exit status."""
    parser = argparse.ArgumentParser(
        prog="python -m tests.mutants",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    add = parser.add_argument
    add("folders", nargs="*", help=f"whose modules; {EVERYWHERE} with --from")
    add("--seed", type=int, default=34)
    add("--count", type=int, default=40)
    add("--write", type=Path, metavar="FILE", help="write the chosen list and run nothing")
    add("--from", type=Path, metavar="FILE", dest="stored", help="run the mutants of a list")
    add("--only", type=int, action="append", metavar="N", help="run the Nth; may be repeated")
    add("--results", type=Path, metavar="FILE", help="written after each; --only keeps its others")
    add("--limit", type=float, default=LIMIT_S, help="seconds for each mutant")
    add("--compare", type=Path, nargs=2, metavar=("BEFORE", "AFTER"))
    given = parser.parse_args(arguments)
    if given.compare:
        return compare(*given.compare)
    if given.stored is None and not given.folders:
        parser.error("name folders, or a list with --from")
    everywhere = modules_below(ROOT, [EVERYWHERE])
    modules = modules_below(ROOT, given.folders) if given.folders else everywhere
    mutants: Sequence[Mutant | None]
    if given.stored:
        rows = json.loads(given.stored.read_text())["mutants"]
        mutants = find(rows, modules)
    else:
        mutants = choose(modules, everywhere, given.seed, given.count)
        rows = [each.row(modules[each.path]) for each in mutants if each]
    if given.write:
        _write(given.write, {"seed": given.seed, "mutants": rows})
        return 0
    # Both: a shell's background process ignores SIGINT, and its children would as well.
    for each in (signal.SIGINT, signal.SIGTERM):
        signal.signal(each, _interrupt)
    numbers = given.only or range(1, len(rows) + 1)
    return _run_all(rows, mutants, numbers, given.results, given.limit, keep=bool(given.only))


def _interrupt(number: int, frame: FrameType | None) -> None:
    raise KeyboardInterrupt


def _write(path: Path, content: Mapping[str, Any]) -> None:
    path.write_text(json.dumps(content, indent=1, ensure_ascii=False) + "\n")


def _run_all(
    rows: Sequence[Mapping[str, str]],
    mutants: Sequence[Mutant | None],
    numbers: Iterable[int],
    results: Path | None,
    limit_s: float,
    *,
    keep: bool,
) -> int:
    done: dict[str, Mapping[str, Any]] = {}
    if keep and results and results.is_file():
        done = {row["id"]: row for row in json.loads(results.read_text())["mutants"]}
    with tempfile.TemporaryDirectory(
        prefix="solward-mutants-", ignore_cleanup_errors=True
    ) as folder:
        try:
            judge = Judge(Checkout(ROOT, Path(folder).resolve()), limit_s)
            left = list(numbers)
            while left:
                for number in left:
                    row, mutant = rows[number - 1], mutants[number - 1]
                    found = Outcome("not found") if mutant is None else judge.outcome(mutant)
                    path = row["module"] if mutant is None else mutant.path
                    print(
                        f"{number:3} of {len(rows)}  {found.outcome:9} {found.seconds:4.0f} s  "
                        f"{path} {row['function']}: {row['operator']}: {row['becomes']}"
                        + (f"  by {found.by}" if found.by else f"  ({found.files} files)"),
                        flush=True,
                    )
                    done[row["id"]] = {
                        **row, "module": path, "outcome": found.outcome, "by": found.by,
                        "seconds": round(found.seconds, 1), "files": found.files, "limit": limit_s,
                    }  # fmt: skip
                    if results:
                        ordered = [done[each["id"]] for each in rows if each["id"] in done]
                        _write(results, {"mutants": ordered})
                killers = {number: done[rows[number - 1]["id"]]["by"] for number in left}
                broken = judge.broken(filter(None, killers.values()))
                for each in sorted(broken):
                    print(f"{each} fails without a mutant too; its mutants run again without it")
                left = [number for number in left if killers[number] in broken]
        except KeyboardInterrupt:
            print("Interrupted: the copy is removed; the checkout was not touched.", flush=True)
            return 130
    print(summary(done.values()))
    return 0


if __name__ == "__main__":
    sys.exit(main())
