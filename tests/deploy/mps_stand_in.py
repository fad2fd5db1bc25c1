#!/usr/bin/env python3
"""Stands in for nvidia-cuda-mps-control, where there is no GPU: its commands and its processes, without CUDA.

Clients are the pids in the file `clients` of the pipe folder. `terminated` there has those that were terminated.
"""

import os
import subprocess
import sys
import time
from pathlib import Path

PIPE = Path(os.environ["CUDA_MPS_PIPE_DIRECTORY"])


def runs(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return "Z" not in Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]


def control() -> None:
    server = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"])
    (PIPE / "pids").write_text(f"{os.getpid()} {server.pid}")
    while not (PIPE / "quit").exists():
        time.sleep(0.02)
    server.kill()


def answer(command: str) -> str:
    control, server = map(int, (PIPE / "pids").read_text().split())
    if not runs(control):
        sys.exit(1)
    match command.split():
        case ["get_server_list"]:
            return str(server)
        case ["get_client_list", _]:
            return (PIPE / "clients").read_text() if (PIPE / "clients").exists() else ""
        case ["terminate_client", _, client]:
            with (PIPE / "terminated").open("a") as file:
                file.write(f"{client}\n")
        case ["quit"]:
            (PIPE / "quit").touch()
    return ""


if sys.argv[1:] == ["-f"]:
    control()
elif not (PIPE / "pids").exists():
    sys.exit(1)
else:
    print(answer(sys.stdin.read()))
