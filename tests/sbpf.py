"""A small assembler for sBPF v0, the bytecode of Solana's programs.

Formats: the instruction encoding and the calling convention as anza-xyz/sbpf documents them, and of
ELF what its loader reads of a file of version 0.

Source, a statement a line, `;` begins a comment:

    entrypoint:              a label; execution begins at this one
        lddw r1, 0x1122334455667788    64 bits, or the address of a label in `.rodata`
        mov64 r2, -1         arithmetic: OP64 or OP32, with a register or 32 signed bits
        ldxdw r3, [r1+8]     loads: ldxb, ldxh, ldxw, ldxdw
        stxw [r10-16], r3    stores of a register; of a number: stb, sth, stw, stdw
        jgt r3, r2, end      jumps, unsigned; signed ones have an `s`: jsgt
        call helper          a label, or the name of a syscall (`sol_log_`)
    end:
        exit                 from the entry point: r0 is the error, 0 is success
    .rodata
    greeting: .ascii hello   constants: `.ascii` to the end of the line, `.hex`
"""

from __future__ import annotations

import re
import struct
from dataclasses import dataclass, field

INSTRUCTION_BYTES = 8

# Where the program's own bytes begin in its address space; offsets in the file count from here.
_PROGRAM_START = 1 << 32

_ALU = {
    "add": 0x00,
    "sub": 0x10,
    "mul": 0x20,
    "div": 0x30,
    "or": 0x40,
    "and": 0x50,
    "lsh": 0x60,
    "rsh": 0x70,
    "neg": 0x80,
    "mod": 0x90,
    "xor": 0xA0,
    "mov": 0xB0,
    "arsh": 0xC0,
}
_ALU_CLASS = {"32": 0x04, "64": 0x07}
_JUMPS = {
    "jeq": 0x15,
    "jgt": 0x25,
    "jge": 0x35,
    "jset": 0x45,
    "jne": 0x55,
    "jsgt": 0x65,
    "jsge": 0x75,
    "jlt": 0xA5,
    "jle": 0xB5,
    "jslt": 0xC5,
    "jsle": 0xD5,
}
_WIDTHS = {"w": 0x00, "h": 0x08, "b": 0x10, "dw": 0x18}
_OF_REGISTER = 0x08
_LDDW, _LDX, _ST, _STX, _JA, _CALL, _EXIT = 0x18, 0x61, 0x62, 0x63, 0x05, 0x85, 0x95

_SYSCALL = re.compile(r"(?:sol_\w+|abort)")
_LABEL = re.compile(r"(\w+):\s*(.*)")
_MEMORY = re.compile(r"\[\s*(r\d+)\s*(?:([+-])\s*(\w+))?\s*\]")
_ALU_NAME = re.compile(r"([a-z]+)(32|64)")


class AssemblyError(ValueError):
    """The source is wrong; the text names line and statement."""


@dataclass(slots=True)
class _Program:
    """What the first pass finds: statements by instruction slot, and where the labels are."""

    statements: list[tuple[int, int, str, list[str]]] = field(default_factory=list)
    slots: int = 0
    code: dict[str, int] = field(default_factory=dict)
    constants: dict[str, int] = field(default_factory=dict)
    rodata: bytearray = field(default_factory=bytearray)
    syscalls: list[tuple[int, str]] = field(default_factory=list)


def assemble(source: str) -> bytes:
    """The program as an ELF file, as a loader takes it.

    Raises:
        AssemblyError: a statement is unknown, out of range, or names no label.
    """
    program = _parse(source)
    if "entrypoint" not in program.code:
        raise AssemblyError("there is no label `entrypoint`")
    text = b"".join(
        _encode(program, line, slot, name, operands)
        for line, slot, name, operands in program.statements
    )
    return _elf(
        text,
        bytes(program.rodata),
        program.code["entrypoint"] * INSTRUCTION_BYTES,
        program.syscalls,
    )


def _parse(source: str) -> _Program:
    program = _Program()
    in_rodata = False
    for line, raw in enumerate(source.splitlines(), 1):
        text = raw.partition(";")[0].strip()
        label = _LABEL.fullmatch(text)
        if label:
            name, text = label.groups()
            if name in program.code or name in program.constants:
                raise AssemblyError(f"line {line}: the label {name} is there twice")
            if in_rodata:
                program.constants[name] = len(program.rodata)
            else:
                program.code[name] = program.slots
        if text == ".rodata":
            in_rodata = True
        elif text and in_rodata:
            program.rodata += _constant(line, text)
        elif text:
            name, _, rest = text.partition(" ")
            operands = [each.strip() for each in rest.split(",")] if rest.strip() else []
            program.statements.append((line, program.slots, name, operands))
            program.slots += 2 if name == "lddw" else 1
    return program


def _constant(line: int, text: str) -> bytes:
    kind, _, value = text.partition(" ")
    try:
        if kind == ".ascii":
            return value.encode("ascii")
        if kind == ".hex":
            return bytes.fromhex(value)
    except ValueError as error:
        raise AssemblyError(f"line {line}: {error}") from None
    raise AssemblyError(f"line {line}: a constant is `.ascii` or `.hex`, not {kind}")


def _encode(program: _Program, line: int, slot: int, name: str, operands: list[str]) -> bytes:
    try:
        return _statement(program, slot, name, operands)
    except (KeyError, ValueError, struct.error) as error:
        statement = f"{name} {', '.join(operands)}".strip()
        raise AssemblyError(f"line {line}: {statement}: {error}") from None


def _statement(program: _Program, slot: int, name: str, operands: list[str]) -> bytes:
    alu = _ALU_NAME.fullmatch(name)
    if alu and alu[1] in _ALU:
        code = _ALU[alu[1]] | _ALU_CLASS[alu[2]]
        if alu[1] == "neg":
            (target,) = operands
            return _instruction(code, _register(target))
        target, value = operands
        return _with_value(code, _register(target), value)
    if name in _JUMPS:
        left, right, label = operands
        return _with_value(_JUMPS[name], _register(left), right, _distance(program, slot, label))
    if name.startswith("ldx") and name[3:] in _WIDTHS:
        target, place = operands
        base, offset = _place(place)
        return _instruction(_LDX | _WIDTHS[name[3:]], _register(target), base, offset)
    if name.startswith("stx") and name[3:] in _WIDTHS:
        place, value = operands
        base, offset = _place(place)
        return _instruction(_STX | _WIDTHS[name[3:]], base, _register(value), offset)
    if name.startswith("st") and name[2:] in _WIDTHS:
        place, value = operands
        base, offset = _place(place)
        return _instruction(_ST | _WIDTHS[name[2:]], base, 0, offset, _number(value))
    if name == "lddw":
        target, value = operands
        number = _address(program, value) if value in program.constants else _number(value)
        low, high = struct.unpack("<ii", struct.pack("<Q", number % 2**64))
        return _instruction(_LDDW, _register(target), 0, 0, low) + _instruction(0, 0, 0, 0, high)
    if name == "ja":
        (label,) = operands
        return _instruction(_JA, 0, 0, _distance(program, slot, label))
    if name == "call":
        return _call(program, slot, operands)
    if name == "exit" and not operands:
        return _instruction(_EXIT)
    raise ValueError("there is no such instruction")


def _call(program: _Program, slot: int, operands: list[str]) -> bytes:
    (called,) = operands
    if called in program.code:
        return _instruction(_CALL, 0, 1, 0, _distance(program, slot, called))
    if not _SYSCALL.fullmatch(called):
        raise ValueError(f"{called} is no label and no syscall")
    program.syscalls.append((slot * INSTRUCTION_BYTES, called))
    # The loader writes the syscall's number here, where the relocation points.
    return _instruction(_CALL, 0, 0, 0, -1)


def _with_value(code: int, target: int, value: str, offset: int = 0) -> bytes:
    if re.fullmatch(r"r\d+", value):
        return _instruction(code | _OF_REGISTER, target, _register(value), offset)
    return _instruction(code, target, 0, offset, _number(value))


def _instruction(
    code: int, target: int = 0, source: int = 0, offset: int = 0, value: int = 0
) -> bytes:
    return struct.pack("<BBhi", code, target | source << 4, offset, value)


def _distance(program: _Program, slot: int, label: str) -> int:
    if label not in program.code:
        raise ValueError(f"{label} is no label")
    return program.code[label] - slot - 1


def _register(text: str) -> int:
    if re.fullmatch(r"r(?:\d|10)", text):
        return int(text[1:])
    raise ValueError(f"{text} is no register; there are r0 to r10")


def _place(text: str) -> tuple[int, int]:
    found = _MEMORY.fullmatch(text)
    if not found:
        raise ValueError(f"{text} is no place in memory, as [r1+8] is")
    register, sign, offset = found.groups()
    distance = _number(offset) if offset else 0
    return _register(register), -distance if sign == "-" else distance


def _number(text: str) -> int:
    return int(text, 0)


def _address(program: _Program, name: str) -> int:
    """Where a constant is when the program runs: its offset in the file, in the program's space."""
    start = _ELF_HEADER_BYTES + program.slots * INSTRUCTION_BYTES
    return _PROGRAM_START + start + program.constants[name]


_ELF_HEADER_BYTES = 64
_SHARED_OBJECT, _MACHINE_SBPF = 3, 263
_PROGBITS, _STRTAB, _DYNAMIC, _REL, _DYNSYM = 1, 3, 6, 9, 11
_ALLOC, _EXECUTABLE = 2, 4
_R_BPF_64_32 = 10
_DT_STRTAB, _DT_SYMTAB, _DT_STRSZ, _DT_SYMENT, _DT_REL, _DT_RELSZ, _DT_RELENT = (
    5,
    6,
    10,
    11,
    17,
    18,
    19,
)


@dataclass(frozen=True, slots=True)
class _Section:
    """One section; its address is its offset in the file, as the loader of version 0 wants it."""

    name: bytes
    kind: int
    content: bytes
    offset: int
    flags: int = 0
    link: int = 0
    entry_bytes: int = 0


def _elf(text: bytes, rodata: bytes, entry: int, syscalls: list[tuple[int, str]]) -> bytes:
    names = sorted({name for _, name in syscalls})
    strings = b"\0"
    symbols = bytes(24)
    for name in names:
        # Undefined, global, a function: the loader looks it up among the syscalls.
        symbols += struct.pack("<IBBHQQ", len(strings), 0x12, 0, 0, 0, 0)
        strings += name.encode("ascii") + b"\0"
    relocations = b"".join(
        struct.pack("<QQ", _ELF_HEADER_BYTES + at, (names.index(name) + 1) << 32 | _R_BPF_64_32)
        for at, name in syscalls
    )
    sections: list[_Section] = []
    end = _ELF_HEADER_BYTES

    def add(name: bytes, kind: int, content: bytes, flags: int = 0, **fields: int) -> _Section:
        nonlocal end
        # What the loader reads as structures is aligned; code and constants follow each other.
        offset = end if flags & _ALLOC and kind == _PROGBITS else -(-end // 8) * 8
        section = _Section(name, kind, content, offset, flags, **fields)
        sections.append(section)
        end = offset + len(content)
        return section

    add(b".text", _PROGBITS, text, _ALLOC | _EXECUTABLE)
    if rodata:
        add(b".rodata", _PROGBITS, rodata, _ALLOC)
    dynstr = len(sections) + 2
    symbol_table = add(b".dynsym", _DYNSYM, symbols, _ALLOC, link=dynstr, entry_bytes=24)
    string_table = add(b".dynstr", _STRTAB, strings, _ALLOC)
    table = [
        (_DT_STRTAB, string_table.offset),
        (_DT_SYMTAB, symbol_table.offset),
        (_DT_STRSZ, len(strings)),
        (_DT_SYMENT, 24),
    ]
    if relocations:
        rel = add(b".rel.dyn", _REL, relocations, _ALLOC, link=dynstr - 1, entry_bytes=16)
        table += [(_DT_REL, rel.offset), (_DT_RELSZ, len(relocations)), (_DT_RELENT, 16)]
    dynamic = b"".join(struct.pack("<QQ", *each) for each in [*table, (0, 0)])
    add(b".dynamic", _DYNAMIC, dynamic, _ALLOC, link=dynstr, entry_bytes=16)
    section_names = b"\0" + b"".join(s.name + b"\0" for s in sections) + b".shstrtab\0"
    add(b".shstrtab", _STRTAB, section_names)
    return _written(sections, section_names, _ELF_HEADER_BYTES + entry, -(-end // 8) * 8)


def _written(sections: list[_Section], names: bytes, entry: int, headers_at: int) -> bytes:
    header = struct.pack(
        "<4sBBBB8xHHIQQQIHHHHHH",
        b"\x7fELF",
        2,  # 64 bits
        1,  # little-endian
        1,
        0,
        _SHARED_OBJECT,
        _MACHINE_SBPF,
        1,
        entry,
        _ELF_HEADER_BYTES,
        headers_at,
        0,  # the version of sBPF
        _ELF_HEADER_BYTES,
        56,
        0,  # no program headers: the loader of version 0 reads sections
        64,
        len(sections) + 1,
        len(sections),
    )
    file = bytearray(header)
    headers = bytes(64)
    for section in sections:
        file += bytes(section.offset - len(file)) + section.content
        headers += struct.pack(
            "<IIQQQQIIQQ",
            names.index(section.name + b"\0"),
            section.kind,
            section.flags,
            section.offset if section.flags & _ALLOC else 0,
            section.offset,
            len(section.content),
            section.link,
            0,
            8 if section.entry_bytes else 1,
            section.entry_bytes,
        )
    return bytes(file) + bytes(headers_at - len(file)) + headers
