"""The assembler, by what the real virtual machine makes of its files."""

from __future__ import annotations

import struct

import pytest
from solders.instruction import Instruction
from tests.sbpf import AssemblyError, assemble
from tests.support.programs import Machine, error_of, succeeded

U64 = 2**64 - 1


def logged(body: str) -> list[str]:
    """What a program logs."""
    machine = Machine()
    payer = machine.wallet()
    program = machine.program(assemble(body))
    done = succeeded(machine.send([Instruction(program, b"\x07data", [])], payer))
    prefix = "Program log: "
    return [line.removeprefix(prefix) for line in done.logs() if line.startswith(prefix)]


def value(body: str) -> int:
    """What is in r1 after `body`, through the one syscall that writes numbers."""
    program = f"""
    entrypoint:
        {body}
        mov64 r2, 0
        mov64 r3, 0
        mov64 r4, 0
        mov64 r5, 0
        call sol_log_64_
        mov64 r0, 0
        exit
    """
    (line,) = logged(program)
    return int(line.partition(",")[0], 0)


@pytest.mark.parametrize(
    ("operation", "left", "right", "expected"),
    [
        ("add", 2**63, 2**63 + 5, 5),
        ("sub", 1, 2, U64),
        ("mul", 2**40 + 3, 2**30, (2**40 + 3) * 2**30 % 2**64),
        ("div", U64, 10, U64 // 10),
        ("mod", U64, 10, U64 % 10),
        ("or", 0b1100, 0b1010, 0b1110),
        ("and", 0b1100, 0b1010, 0b1000),
        ("xor", 0b1100, 0b1010, 0b0110),
        ("lsh", 3, 62, 3 << 62 & U64),
        ("rsh", U64, 60, 15),
        ("arsh", 2**63, 60, U64 - 7),
        ("mov", 1, 2, 2),
    ],
)
def test_arithmetic_of_registers_is_of_64_bits(
    operation: str, left: int, right: int, expected: int
) -> None:
    assert value(f"lddw r1, {left}\n lddw r2, {right}\n {operation}64 r1, r2") == expected


def test_arithmetic_of_numbers_extends_their_sign() -> None:
    assert value("mov64 r1, -1") == U64
    assert value("mov64 r1, 0x7fffffff\n add64 r1, -1") == 0x7FFFFFFE
    assert value("mov64 r1, 5\n neg64 r1") == U64 - 4
    assert value("lddw r1, 0x1122334455667788\n and64 r1, 0xff00") == 0x7700


def test_arithmetic_of_32_bits_keeps_32_bits() -> None:
    assert value("lddw r1, 0x1122334455667788\n mov32 r1, r1") == 0x55667788
    assert value("lddw r1, 0xffffffffffffffff\n div32 r1, 2") == 0x7FFFFFFF


@pytest.mark.parametrize("width", ["b", "h", "w", "dw"])
def test_memory_is_written_and_read_at_each_width(width: str) -> None:
    bits = {"b": 8, "h": 16, "w": 32, "dw": 64}[width]
    number = 0x1122334455667788
    body = f"lddw r3, {number}\n stdw [r10-16], -1\n stx{width} [r10-16], r3\n"
    assert value(body + f"ldx{width} r1, [r10 - 16]") == number % 2**bits
    # The neighbours are untouched.
    assert value(body + "ldxdw r1, [r10-16]") == (U64 >> bits << bits) + number % 2**bits
    assert value(f"stdw [r10-8], 0\n st{width} [r10-8], 7\n ldxdw r1, [r10-8]") == 7


@pytest.mark.parametrize(
    ("jump", "right", "taken"),
    [
        ("jeq", 5, True),
        ("jeq", 6, False),
        ("jne", 6, True),
        ("jgt", -1, False),
        ("jsgt", -1, True),
        ("jge", 5, True),
        ("jsge", 6, False),
        ("jlt", -1, True),
        ("jslt", -1, False),
        ("jle", 5, True),
        ("jsle", 4, False),
        ("jset", 4, True),
        ("jset", 8, False),
    ],
)
@pytest.mark.parametrize("register", [True, False])
def test_jumps_compare_with_and_without_sign(
    jump: str, right: int, taken: bool, register: bool
) -> None:
    other = "r3" if register else str(right)
    body = f"""
        mov64 r2, 5
        mov64 r3, {right}
        mov64 r1, 1
        {jump} r2, {other}, over
        mov64 r1, 0
    over:
        ja end
        mov64 r1, 9
    end:
    """
    assert value(body) == int(taken)


def test_a_loop_jumps_back() -> None:
    assert value("mov64 r1, 0\n again: add64 r1, 3\n jlt r1, 30, again") == 30


def test_a_called_label_returns_and_keeps_the_callers_registers_and_stack() -> None:
    program = """
    entrypoint:
        mov64 r6, 1
        stdw [r10-8], 2
        mov64 r1, 20
        call helper
        mov64 r1, r0
        ldxdw r2, [r10-8]
        mov64 r3, r6
        mov64 r4, 0
        mov64 r5, 0
        call sol_log_64_
        mov64 r0, 0
        exit
    helper:             ; it comes after its caller
        mov64 r6, 99
        stdw [r10-8], 99
        mov64 r0, r1
        mul64 r0, 2
        exit
    """
    assert logged(program) == ["0x28, 0x2, 0x1, 0x0, 0x0"]


def test_constants_are_found_by_their_labels_wherever_the_entry_point_is() -> None:
    program = """
    helper:
        mov64 r2, 5
        call sol_log_
        exit
    entrypoint:
        lddw r1, first
        call helper
        lddw r1, second
        call helper
        mov64 r0, 0
        exit
    .rodata
    odd: .hex 00ff01
    first: .ascii hello
    second: .hex 776f726c64
    """
    assert logged(program) == ["hello", "world"]


def test_the_input_is_read_as_the_runtime_writes_it() -> None:
    # No accounts: their number, the data's length, the data.
    assert value("ldxdw r6, [r1+8]\n ldxb r1, [r1+16]\n lsh64 r6, 8\n or64 r1, r6") == 0x507


def test_what_the_entry_point_returns_is_the_error() -> None:
    machine = Machine()
    payer = machine.wallet()
    program = machine.program(assemble("entrypoint:\n mov64 r0, 4242\n exit"))
    outcome = machine.send([Instruction(program, b"", [])], payer)
    assert "Custom(4242)" in error_of(outcome)


def test_the_file_is_an_elf_of_version_0_whose_relocations_name_the_syscalls() -> None:
    file = assemble("entrypoint:\n call sol_log_\n call abort\n call sol_log_\n exit")
    kind, machine, _, entry, _, sections_at, flags = struct.unpack_from("<HHIQQQI", file, 16)
    assert (kind, machine, flags) == (3, 263, 0)
    count, names_index = struct.unpack_from("<HH", file, 60)
    headers = [struct.unpack_from("<IIQQQQIIQQ", file, sections_at + 64 * n) for n in range(count)]
    names_at = headers[names_index][4]
    by_name = {
        file[names_at + each[0] : file.index(b"\0", names_at + each[0])].decode(): each
        for each in headers
    }
    text, rel = by_name[".text"], by_name[".rel.dyn"]
    assert entry == text[3] == text[4]
    symbols, strings = by_name[".dynsym"][4], by_name[".dynstr"][4]
    found = {}
    for at in range(rel[4], rel[4] + rel[5], 16):
        place, info = struct.unpack_from("<QQ", file, at)
        assert info & 0xFFFFFFFF == 10
        (name,) = struct.unpack_from("<I", file, symbols + 24 * (info >> 32))
        found[(place - entry) // 8] = file[strings + name :].split(b"\0")[0]
    assert found == {0: b"sol_log_", 1: b"abort", 2: b"sol_log_"}


@pytest.mark.parametrize(
    ("statement", "text"),
    [
        ("fly r1", "line 2: fly r1: there is no such instruction"),
        ("exit r0", "there is no such instruction"),
        ("mov64 r11, 1", "r11 is no register"),
        ("mov64 r1, 0x80000000", "line 2: mov64 r1, 0x80000000"),
        ("mov64 r1", "line 2: mov64 r1"),
        ("ldxdw r1, r2", "r2 is no place in memory"),
        ("ldxdw r1, [r2+32768]", "line 2: ldxdw"),
        ("stdw [r10-8], r1", "line 2: stdw"),
        ("ja nowhere", "nowhere is no label"),
        ("jeq r1, 1, sol_log_", "sol_log_ is no label"),
        ("call nowhere", "nowhere is no label and no syscall"),
        ("lddw r1, nowhere", "line 2: lddw r1, nowhere"),
        ("entrypoint: exit", "the label entrypoint is there twice"),
        (".rodata\nx: .word 1", "a constant is `.ascii` or `.hex`, not .word"),
        (".rodata\nx: .hex 0", "line 3: "),
    ],
)
def test_a_statement_that_is_wrong_is_named_with_its_line(statement: str, text: str) -> None:
    with pytest.raises(AssemblyError) as caught:
        assemble(
            f"entrypoint:\n{statement}\nexit"
            if ".rodata" not in statement
            else f"entrypoint: exit\n{statement}"
        )
    assert text in str(caught.value)


def test_a_program_without_an_entry_point_is_refused() -> None:
    with pytest.raises(AssemblyError, match="there is no label `entrypoint`"):
        assemble("main: exit")
