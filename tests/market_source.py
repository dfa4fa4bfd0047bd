"""The source of the demo market's program, and the file that the localnet ships.

python -m tests.market_source
"""

from __future__ import annotations

from solders.token import ID as TOKEN_PROGRAM
from tests.sbpf import assemble

from solward_localnet.market import AUTHORITY_SEED, BUMP, FILE, POOL_BYTES

# The pools' fee, which stays in their reserves, in basis points.
FEE_BPS = 30
# The first byte of the instruction's data.
SWAP = 1

INVALID_INSTRUCTION = 6000
# Less than the least amount out; Jupiter's program has the same number for it.
SLIPPAGE_EXCEEDED = 6001
INVALID_ACCOUNTS = 6002

# Offsets in an account as the runtime writes it. The data has room behind it to grow.
SIGNS, WRITTEN, RUNS, KEY, OWNER, LAMPORTS, LENGTH, DATA = 1, 2, 3, 8, 40, 72, 80, 88
_ROOM = 10_240

MOST_ACCOUNTS = 11

# Below the frame pointer: a pointer to each account, how many there are, and of each what the call
# of another program takes. The rest of the frame, below `INFOS`, is free.
TABLE, COUNT, INFOS = -96, -104, -800
_INFO_BYTES = 56

READ_ACCOUNTS = f"""
    mov64 r6, r1
    ldxdw r7, [r6]
    stxdw [r10{COUNT}], r7
    jgt r7, {MOST_ACCOUNTS}, invalid_accounts
    add64 r6, 8
    mov64 r8, 0
    jeq r7, 0, accounts_read
read_account:
    ldxb r1, [r6]
    jne r1, 255, invalid_accounts       ; one that is there twice
    mov64 r2, r8
    lsh64 r2, 3
    add64 r2, r10
    stxdw [r2{TABLE}], r6
    mov64 r3, r8
    mul64 r3, {_INFO_BYTES}
    add64 r3, r10
    add64 r3, {INFOS}
    mov64 r1, r6
    add64 r1, {KEY}
    stxdw [r3], r1
    mov64 r1, r6
    add64 r1, {LAMPORTS}
    stxdw [r3+8], r1
    ldxdw r4, [r6+{LENGTH}]
    stxdw [r3+16], r4
    mov64 r1, r6
    add64 r1, {DATA}
    stxdw [r3+24], r1
    mov64 r1, r6
    add64 r1, {OWNER}
    stxdw [r3+32], r1
    ldxb r1, [r6+{SIGNS}]
    stxb [r3+48], r1
    ldxb r1, [r6+{WRITTEN}]
    stxb [r3+49], r1
    ldxb r1, [r6+{RUNS}]
    stxb [r3+50], r1
    add64 r4, 7
    and64 r4, -8
    add64 r6, r4
    add64 r6, {DATA + _ROOM}
    ldxdw r1, [r6]
    stxdw [r3+40], r1                   ; rent epoch
    add64 r6, 8
    add64 r8, 1
    jlt r8, r7, read_account
accounts_read:
"""
"""Begins an entry point. After it r7 is the number of accounts, and r6 points to the data's length.
It jumps to `invalid_accounts` where there are too many accounts, or one twice."""

# On the stack of the entry point, below what `READ_ACCOUNTS` keeps there: the least amount out, the
# program's own address, the pool at hand and what it pays.
_MINIMUM, _PROGRAM, _POOL, _OUT = INFOS - 8, INFOS - 16, INFOS - 24, INFOS - 32
_AMOUNT = DATA + 64
# On the stack of `pay`: the instruction, its accounts, its data, the authority's seeds.
_CALL, _METAS, _CALL_DATA, _SEEDS, _SIGNERS = -40, -88, -104, -136, -152
_TOKEN_TRANSFER = 3

_SLIPPAGE_TEXT = "the market gives less than the minimum out"

SOURCE = f"""
entrypoint:
{READ_ACCOUNTS}
    jeq r7, 8, read_data
    jne r7, 11, invalid_accounts
read_data:
    ldxdw r1, [r6]
    jne r1, 17, invalid_instruction
    ldxb r1, [r6+8]
    jne r1, {SWAP}, invalid_instruction
    ldxdw r9, [r6+9]                    ; r9: what is paid next
    jeq r9, 0, invalid_instruction
    ldxdw r1, [r6+17]
    stxdw [r10{_MINIMUM}], r1
    add64 r6, 25
    stxdw [r10{_PROGRAM}], r6

    mov64 r6, 5                         ; r6: the next pool
    mov64 r8, 2                         ; r8: the account that pays next
hop:
    mov64 r1, r6
    lsh64 r1, 3
    add64 r1, r10
    add64 r1, {TABLE}
    stxdw [r10{_POOL}], r1
    ldxdw r2, [r10{_PROGRAM}]
    call is_pool
    jeq r0, 0, invalid_accounts
    ldxdw r1, [r10{_POOL}]
    ldxdw r2, [r1+8]
    ldxdw r2, [r2+{_AMOUNT}]
    ldxdw r3, [r1+16]
    ldxdw r3, [r3+{_AMOUNT}]
    mov64 r1, r9
    call received                       ; of the reserves before this payment
    stxdw [r10{_OUT}], r0
    mov64 r1, r10
    mov64 r2, r6
    add64 r2, 1
    call pay
    ldxdw r9, [r10{_OUT}]
    mov64 r8, r6
    add64 r8, 2
    add64 r6, 3
    jlt r6, r7, hop

    ldxdw r1, [r10{_MINIMUM}]
    jlt r9, r1, slippage_exceeded
    mov64 r1, r10
    mov64 r2, 3
    call pay
    mov64 r0, 0
    exit

invalid_instruction:
    mov64 r0, {INVALID_INSTRUCTION}
    exit
invalid_accounts:
    mov64 r0, {INVALID_ACCOUNTS}
    exit
slippage_exceeded:
    lddw r1, slippage_text
    mov64 r2, {len(_SLIPPAGE_TEXT)}
    call sol_log_
    mov64 r0, {SLIPPAGE_EXCEEDED}
    exit

; r1: pointers to a pool, the vault paid and the vault paying; r2: this program. r0: 1 where the
; pool is this program's and the vaults are its own, else 0.
is_pool:
    ldxdw r6, [r1]
    ldxdw r7, [r1+8]
    ldxdw r8, [r1+16]
    mov64 r1, r6
    add64 r1, {OWNER}
    call same_key
    jeq r0, 0, is_pool_end
    mov64 r0, 0
    ldxdw r1, [r6+{LENGTH}]
    jne r1, {POOL_BYTES}, is_pool_end
    add64 r6, {DATA}
    add64 r7, {KEY}
    add64 r8, {KEY}
    mov64 r1, r6
    mov64 r2, r7
    call same_key
    jeq r0, 1, second_vault
    mov64 r1, r7                        ; the other direction
    mov64 r7, r8
    mov64 r8, r1
    mov64 r1, r6
    mov64 r2, r7
    call same_key
    jeq r0, 0, is_pool_end
second_vault:
    mov64 r1, r6
    add64 r1, 32
    mov64 r2, r8
    call same_key
is_pool_end:
    exit

; r1, r2: two addresses. r0: 1 where they are the same, else 0.
same_key:
    mov64 r0, 0
    ldxdw r3, [r1]
    ldxdw r4, [r2]
    jne r3, r4, same_key_end
    ldxdw r3, [r1+8]
    ldxdw r4, [r2+8]
    jne r3, r4, same_key_end
    ldxdw r3, [r1+16]
    ldxdw r4, [r2+16]
    jne r3, r4, same_key_end
    ldxdw r3, [r1+24]
    ldxdw r4, [r2+24]
    jne r3, r4, same_key_end
    mov64 r0, 1
same_key_end:
    exit

; r1: paid, r2: the reserve paid into, r3: the reserve paid from. r0: what is received,
; e * r3 / (r2 * 10000 + e) with e = r1 * {10_000 - FEE_BPS}, rounded down.
received:
    mov64 r6, r2
    mov64 r7, r3
    mov64 r2, {10_000 - FEE_BPS}
    call multiply
    mov64 r8, r0                        ; e: r8, and above it r9
    mov64 r9, r1
    mov64 r1, r6
    mov64 r2, 10000
    call multiply
    add64 r0, r8
    jge r0, r8, divisor_carried
    add64 r1, 1
divisor_carried:
    add64 r1, r9
    stxdw [r10-8], r0                   ; the divisor
    stxdw [r10-16], r1
    mov64 r1, r8
    mov64 r2, r7
    call multiply
    mov64 r6, r0                        ; the dividend: r6, and above it r8 and r1
    mov64 r8, r1
    mov64 r1, r9
    mov64 r2, r7
    call multiply
    add64 r8, r0
    jge r8, r0, dividend_carried
    add64 r1, 1
dividend_carried:
    ldxdw r4, [r10-8]
    ldxdw r5, [r10-16]
    mov64 r2, r1                        ; r2 above r8 is the remainder, less than the divisor
    mov64 r0, 0
    mov64 r9, 64
divide:
    lsh64 r0, 1
    lsh64 r2, 1
    mov64 r3, r8
    rsh64 r3, 63
    or64 r2, r3
    lsh64 r8, 1
    mov64 r3, r6
    rsh64 r3, 63
    or64 r8, r3
    lsh64 r6, 1
    jlt r2, r5, divided
    jgt r2, r5, subtract
    jlt r8, r4, divided
subtract:
    or64 r0, 1
    sub64 r2, r5
    jge r8, r4, borrowed
    sub64 r2, 1
borrowed:
    sub64 r8, r4
divided:
    sub64 r9, 1
    jne r9, 0, divide
    exit

; r1, r2: factors. r0: the lower 64 bits of the product, r1: the upper ones.
multiply:
    mov64 r3, r1
    rsh64 r3, 32
    lsh64 r1, 32
    rsh64 r1, 32
    mov64 r4, r2
    rsh64 r4, 32
    lsh64 r2, 32
    rsh64 r2, 32
    mov64 r0, r1                        ; r1, r3: lower and upper half of one; r2, r4: of the other
    mul64 r0, r2
    mul64 r1, r4
    mul64 r2, r3
    mul64 r3, r4
    mov64 r4, r1                        ; the middle: r1 + r2 + what r0 carries
    rsh64 r4, 32
    add64 r3, r4
    mov64 r4, r2
    rsh64 r4, 32
    add64 r3, r4
    lsh64 r1, 32
    rsh64 r1, 32
    lsh64 r2, 32
    rsh64 r2, 32
    add64 r1, r2
    mov64 r2, r0
    rsh64 r2, 32
    add64 r1, r2
    mov64 r2, r1
    rsh64 r2, 32
    add64 r3, r2
    lsh64 r0, 32
    rsh64 r0, 32
    lsh64 r1, 32
    or64 r0, r1
    mov64 r1, r3
    exit

; r1: the stack of the entry point, r2: the account that is paid, r8: the one that pays, r9: the
; units. Of the user's account the user disposes, of a vault the authority.
pay:
    lddw r3, token_program
    stxdw [r10{_CALL}], r3
    mov64 r3, r10
    add64 r3, {_METAS}
    stxdw [r10{_CALL + 8}], r3
    stdw [r10{_CALL + 16}], 3
    mov64 r3, r10
    add64 r3, {_CALL_DATA}
    stxdw [r10{_CALL + 24}], r3
    stdw [r10{_CALL + 32}], 9

    stb [r10{_CALL_DATA}], {_TOKEN_TRANSFER}
    stxdw [r10{_CALL_DATA + 1}], r9

    lsh64 r8, 3
    add64 r8, r1
    ldxdw r3, [r8{TABLE}]
    add64 r3, {KEY}
    stxdw [r10{_METAS}], r3
    stdw [r10{_METAS + 8}], 1           ; written, no signer
    lsh64 r2, 3
    add64 r2, r1
    ldxdw r3, [r2{TABLE}]
    add64 r3, {KEY}
    stxdw [r10{_METAS + 16}], r3
    stdw [r10{_METAS + 24}], 1
    ldxdw r3, [r1{TABLE + 8 * 4}]
    sub64 r8, r1
    jne r8, {8 * 2}, pay_authority
    ldxdw r3, [r1{TABLE + 8 * 1}]
pay_authority:
    add64 r3, {KEY}
    stxdw [r10{_METAS + 32}], r3
    stdw [r10{_METAS + 40}], 256        ; a signer, not written

    lddw r3, seed
    stxdw [r10{_SEEDS}], r3
    stdw [r10{_SEEDS + 8}], {len(AUTHORITY_SEED)}
    add64 r3, {len(AUTHORITY_SEED)}
    stxdw [r10{_SEEDS + 16}], r3
    stdw [r10{_SEEDS + 24}], 1
    mov64 r4, r10
    add64 r4, {_SEEDS}
    stxdw [r10{_SIGNERS}], r4
    stdw [r10{_SIGNERS + 8}], 2

    ldxdw r3, [r1{COUNT}]
    mov64 r2, r1
    add64 r2, {INFOS}
    mov64 r1, r10
    add64 r1, {_CALL}
    mov64 r4, r10
    add64 r4, {_SIGNERS}
    mov64 r5, 1
    call sol_invoke_signed_c
    exit

.rodata
token_program: .hex {bytes(TOKEN_PROGRAM).hex()}
seed: .hex {AUTHORITY_SEED.hex()}{BUMP:02x}
slippage_text: .ascii {_SLIPPAGE_TEXT}
"""


if __name__ == "__main__":
    FILE.write_bytes(assemble(SOURCE))
