"""A stand-in for the service: what plugins' code must not reach, alive in a process.

`python -m tests.hosts.victim USER FOLDER SECRET` prints what it has as JSON, and serves until its
standard input ends.
"""

from __future__ import annotations

import ctypes
import json
import os
import select
import signal
import socket
import sys
from pathlib import Path

from tests.hosts.attacks import become, call


def main(user: str, folder: Path, secret: str) -> None:
    become(user)
    libc = ctypes.CDLL(None)
    # Changing the user made this process undumpable, which would hide it from attacks.
    libc.prctl(4, 1, 0, 0, 0)
    signal.signal(signal.SIGUSR1, signal.SIG_IGN)

    for name in ("home", "site-packages", "package", "scratch"):
        (folder / name).mkdir()
    home = folder / "home"
    os.chdir(home)
    keystore, notes = home / "keystore.json", home / "notes"
    keystore.write_text(secret)
    keystore.chmod(0o600)
    notes.write_text("notes of the operator")
    os.setxattr(notes, "user.secret", secret.encode())
    (folder / "package" / "plugin.py").write_text("# as it was installed\n")
    (folder / "scratch" / "planted").symlink_to(keystore)

    memory = ctypes.create_string_buffer(secret.encode())
    shared = call("shmget", 0, 4096, 0o1600)
    libc.shmat.restype = ctypes.c_void_p
    ctypes.memmove(libc.shmat(shared, None, 0), memory, len(memory))
    call("shmctl", shared, 0, 0)  # removed when nobody is attached any more
    key = call("add_key", b"user", b"solward-victim", secret.encode(), len(secret), -4)
    call("keyctl", 5, key, 0x3F3F0000)  # its user may read it

    rest, udp = socket.socket(), socket.socket(type=socket.SOCK_DGRAM)
    rest.bind(("127.0.0.1", 0))
    udp.bind(("127.0.0.1", 0))
    abstract, named = (socket.socket(socket.AF_UNIX) for _ in range(2))
    abstract.bind(f"\0solward-victim-{os.getpid()}")
    named.bind(str(home / "service.sock"))
    log = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
    log.bind(str(home / "log.sock"))
    for listening in (rest, abstract, named):
        listening.listen(100)

    facts = {
        "pid": os.getpid(),
        "folder": str(folder),
        "keystore": str(keystore),
        "keystore_fd": os.open(keystore, os.O_RDONLY),
        "address": ctypes.addressof(memory),
        "length": len(secret),
        "shared": shared,
        "key": key,
        "rest": rest.getsockname()[1],
        "udp": udp.getsockname()[1],
        "abstract": abstract.getsockname().decode(),
        "named": str(home / "service.sock"),
        "log": str(home / "log.sock"),
    }
    print(json.dumps(facts), flush=True)
    while True:
        ready, _, _ = select.select([sys.stdin, rest, abstract, named, udp, log], [], [])
        if sys.stdin in ready:
            break
        for waiting in ready:
            if waiting is udp:
                udp.sendto(secret.encode(), udp.recvfrom(2000)[1])
            elif waiting is log:
                log.recv(2000)
            else:
                with waiting.accept()[0] as caller:
                    caller.sendall(secret.encode())
    call("keyctl", 21, key)  # invalidated


if __name__ == "__main__":
    main(sys.argv[1], Path(sys.argv[2]), sys.argv[3])
