"""Compiles the URL builders of routes once a process; each test's application has the same ones."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator
from contextlib import contextmanager
from typing import Any
from unittest import mock

from werkzeug.routing import PathConverter, Rule, UnicodeConverter

_compile = Rule._compile_builder

# Their `to_url`, which the compiled code calls, depends on neither their arguments nor their map.
_PLAIN = {UnicodeConverter, PathConverter}


@contextmanager
def compiled_once() -> Iterator[None]:
    """Reuse what Werkzeug compiled for a rule with the same parts, until the block ends.

    An application has 100 rules, and compiling their builders takes a third of opening a service.
    """
    made: dict[Hashable, Callable[..., tuple[str, str]]] = {}

    def compile_or_reuse(self: Rule, append_unknown: bool = True) -> Any:
        # The rule's text names its variables' converters.
        key = (self.rule, tuple(self._trace), append_unknown)
        if not self.defaults and key in made:
            return made[key]
        builder = _compile(self, append_unknown)
        if not self.defaults and {*map(type, self._converters.values())} <= _PLAIN:
            made[key] = builder
        return builder

    with mock.patch.object(Rule, "_compile_builder", compile_or_reuse):
        yield
