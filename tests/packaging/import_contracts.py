"""A contract type of import-linter's: what a package may import, everything else being refused.

import-linter has contracts that forbid named modules. A module that nobody has written yet cannot
be named, so a pure package needs the opposite: the list of what it may import.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable

from grimp import ImportGraph
from importlinter import Contract, ContractCheck, fields, output
from importlinter.application import contract_utils
from importlinter.application.contract_utils import AlertLevel


class ImportsOnlyContract(Contract):
    """The source packages import each other, the standard library and what is listed, directly.

    Options:
        source_modules: packages, with all modules in them.
        allowed_modules: packages, with all modules in them. A root package stands for its
            `__init__` alone: `solward` is its public surface, not every module of it.
        allowed_libraries: top-level modules of third parties.
        ignore_imports: single imports that pass, as in import-linter's own contracts.
    """

    type_name = "imports_only"

    source_modules = fields.SetField(subfield=fields.StringField())
    allowed_modules = fields.SetField(subfield=fields.StringField(), required=False, default=set())
    allowed_libraries = fields.SetField(
        subfield=fields.StringField(), required=False, default=set()
    )
    ignore_imports = fields.SetField(subfield=fields.ImportExpressionField(), required=False)
    unmatched_ignore_imports_alerting = fields.EnumField(AlertLevel, default=AlertLevel.ERROR)

    def check(self, graph: ImportGraph, verbose: bool) -> ContractCheck:
        """Find each direct import that the lists do not allow; a listed module must exist."""
        ignored = contract_utils.remove_ignored_imports_and_report(
            graph=graph,
            ignore_imports=self.ignore_imports,
            unmatched_alerting=self.unmatched_ignore_imports_alerting,
        )
        missing = (self.source_modules | self.allowed_modules) - graph.modules
        if missing:
            raise ValueError(f"{self.name}: no such module: {', '.join(sorted(missing))}")
        sources = _with_descendants(graph, self.source_modules)
        packages = {name for name in self.allowed_modules if "." in name}
        allowed = sources | self.allowed_modules | _with_descendants(graph, packages)
        allowed |= self.allowed_libraries | sys.stdlib_module_names
        refused = [
            (source, imported, graph.get_import_details(importer=source, imported=imported))
            for source in sorted(sources)
            for imported in sorted(graph.find_modules_directly_imported_by(source) - allowed)
        ]
        return ContractCheck(
            kept=not refused,
            warnings=list(ignored.warnings),
            ignored_import_count=ignored.ignored_import_count,
            metadata={"refused": refused},
        )

    def render_broken_contract(self, check: ContractCheck) -> None:
        """Print each refused import with its lines."""
        for source, imported, details in check.metadata["refused"]:
            lines = ", ".join(f"l.{each['line_number']}" for each in details)
            output.print_error(f"{source} may not import {imported} ({lines})")
        output.new_line()


def _with_descendants(graph: ImportGraph, packages: Iterable[str]) -> set[str]:
    found = set(packages)
    for package in packages:
        found |= graph.find_descendants(package)
    return found
