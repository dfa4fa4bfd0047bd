"""Docstrings of the product begin with a sentence that is understood at first reading.

A function's begins with a verb in the imperative, as PEP 257 has it. A class, a module or a property
may be described by a noun. None begins with a clause ("What it takes") or a preposition ("As of ...").
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from tests.support.repository import ROOT

VERBS = frozenset(
    """
    Accept Act Add Adopt Allow Answer Append Apply Approve Ask Assert Assess Assign Attach
    Authenticate Await Back Become Begin Bind Block Bound Bring Broadcast Build Burn Call Cancel
    Carry Change Charge Check Choose Claim Clean Clear Close Collect Combine Compare Compile
    Complete Compute Conceal Configure Confine Confirm Connect Continue Control Convert Copy Count
    Cover Create Cut Deactivate Decide Declare Decode Decrypt Define Delete Deliver Deny Deposit
    Describe Destroy Detach Determine Disable Discard Disconnect Display Divide Download Draw Drop
    Edit Empty Enable Encode Encrypt End Enter Estimate Evaluate Execute Expire Explain Export
    Extract Fail Fetch Fill Filter Find Finish Fit Follow Forget Format Forward Free Freeze Fund
    Generate Get Give Go Group Guard Halt Handle Hash Have Hide Hold Ignore Import Include Increase
    Index Initialize Insert Inspect Install Interrupt Invoke Issue Join Judge Keep Kill Launch Leave
    Let Limit Link List Listen Load Lock Log Look Lower Make Map Mark Match Measure Merge Mint Move
    Name Narrow Normalize Note Notify Observe Offer Open Order Parse Pass Pause Pay Perform Pick
    Place Plan Post Prepare Print Probe Process Produce Prompt Protect Prove Provide Prune Publish
    Pull Push Put Query Queue Quote Raise Reach Read Rebuild Receive Recognize Reconcile Record
    Redact Redraw Reduce Refresh Refund Refuse Register Reject Release Reload Remember Remove Rename
    Render Reopen Repeat Replace Replay Reply Report Request Require Reserve Reset Resolve Restart
    Restore Restrict Resume Retry Return Reverse Revoke Rewrite Roll Rotate Round Run Save Say
    Schedule Score Scrub Seal Search See Select Sell Send Separate Serve Set Settle Share Shorten
    Show Shut Sign Signal Simulate Skip Sort Split Stake Start State Stop Store Strip Submit
    Subscribe Sum Supply Suspend Swap Sweep Switch Take Tell Terminate Test Thaw Think Throttle Time
    Track Transfer Translate Try Turn Undo Unfreeze Unlock Unpack Unset Unwrap Update Upgrade Use
    Validate Verify Visit Wait Wake Walk Warn Watch Weigh Withdraw Work Wrap Write Yield
    """.split()
)
# What begins a clause or goes on from something before.
CLAUSES = frozenset(
    """
    After And As At Because Before Beside Between But By For From He How If In Into It Its Of On Or
    Since So That Their They This Those To Under Until What When Where Whether Which While Who Whose
    Why With Within Without
    """.split()
)
Documented = ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef


class Docstring(NamedTuple):
    """A docstring: where it stands, and of what."""

    place: str
    node: Documented
    text: str

    @property
    def first(self) -> str:
        return self.text.split()[0]

    @property
    def names_its_subject(self) -> bool:
        """Whether it is of something that a noun describes: a class, a module, a property."""
        if not isinstance(self.node, (ast.FunctionDef, ast.AsyncFunctionDef)):
            return True
        return any("property" in ast.unparse(each) for each in self.node.decorator_list)

    @property
    def fails(self) -> bool:
        if self.names_its_subject:
            return self.first in CLAUSES
        return self.first not in VERBS and not self.text.startswith("See `")


def docstrings() -> Iterator[Docstring]:
    for folder in ("framework", "plugins", "server"):
        for file in sorted((ROOT / folder).rglob("*.py")):
            yield from in_file(file)


def in_file(file: Path) -> Iterator[Docstring]:
    for node in ast.walk(ast.parse(file.read_text())):
        if isinstance(node, Documented) and (text := ast.get_docstring(node)):
            line = getattr(node, "lineno", 1)
            yield Docstring(f"{file.relative_to(ROOT)}:{line}", node, text)


def test_every_docstring_begins_with_a_sentence() -> None:
    found = list(docstrings())
    assert len(found) > 4_000
    assert [f"{each.place}: {each.text[:60]}" for each in found if each.fails] == []
