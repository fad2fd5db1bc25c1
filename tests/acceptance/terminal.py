"""Run a command in a terminal of its own, as a shell would: `python -m tests.acceptance.terminal TTY COMMAND...`.

Started in a session of its own, it opens TTY, which so becomes the session's terminal, and turns into the command.
"""

from __future__ import annotations

import os
import sys

if __name__ == "__main__":
    tty = os.open(sys.argv[1], os.O_RDWR)
    for stream in range(3):
        os.dup2(tty, stream)
    os.close(tty)
    os.execv(sys.argv[2], sys.argv[2:])
