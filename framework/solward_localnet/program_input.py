"""What a program is given: where the runtime writes it, and the code that finds the accounts.

The input is the number of accounts, the accounts one after the other, the length of the
instruction's data, the data, and the program's own address.
"""

from __future__ import annotations

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
