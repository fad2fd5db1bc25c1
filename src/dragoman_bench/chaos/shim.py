"""What is injected below a server: a wall clock that is moved, and a disk that is read-only.

A small library in C, which the linker loads before the C library's (LD_PRELOAD) into the server and its processes.
It reads two numbers from a file that this module writes: seconds that are added to the wall clock, and whether each attempt to
write a file fails with EROFS, also of files that are open, as after an error of a disk. Sockets, pipes and the three standard
streams are not files. Monotonic clocks go on.
"""

from __future__ import annotations

import shutil
import struct
import subprocess
from dataclasses import dataclass
from pathlib import Path

_NUMBERS = struct.Struct("=qq")
_SOURCE = r"""
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/time.h>
#include <sys/uio.h>
#include <time.h>
#include <unistd.h>

static volatile int64_t *numbers;
#define REAL(name) static __typeof__(&name) real; if (!real) real = (__typeof__(&name))dlsym(RTLD_NEXT, #name)
#define REFUSE(condition) if (numbers && numbers[1] && (condition)) { errno = EROFS; return -1; }

__attribute__((constructor)) static void begin(void) {
    const char *path = getenv("CHAOS_SHIM");
    int file = path ? open(path, O_RDONLY | O_CLOEXEC) : -1;
    if (file < 0) return;
    void *found = mmap(0, 16, PROT_READ, MAP_SHARED, file, 0);
    close(file);
    if (found != MAP_FAILED) numbers = found;
}

static int is_file(int file) {
    struct stat found;
    int before = errno, is = file > 2 && !fstat(file, &found) && S_ISREG(found.st_mode);
    errno = before;
    return is;
}

int clock_gettime(clockid_t clock, struct timespec *now) {
    REAL(clock_gettime);
    int failed = real(clock, now);
    if (!failed && numbers && (clock == CLOCK_REALTIME || clock == CLOCK_REALTIME_COARSE)) now->tv_sec += numbers[0];
    return failed;
}
int gettimeofday(struct timeval *now, void *zone) {
    struct timespec found;
    if (clock_gettime(CLOCK_REALTIME, &found)) return -1;
    now->tv_sec = found.tv_sec;
    now->tv_usec = found.tv_nsec / 1000;
    return 0;
}
time_t time(time_t *out) {
    struct timespec found;
    clock_gettime(CLOCK_REALTIME, &found);
    if (out) *out = found.tv_sec;
    return found.tv_sec;
}
ssize_t write(int file, const void *data, size_t size) { REAL(write); REFUSE(is_file(file)) return real(file, data, size); }
ssize_t pwrite(int file, const void *data, size_t size, off_t at) {
    REAL(pwrite); REFUSE(is_file(file)) return real(file, data, size, at);
}
ssize_t pwrite64(int file, const void *data, size_t size, off64_t at) {
    REAL(pwrite64); REFUSE(is_file(file)) return real(file, data, size, at);
}
ssize_t writev(int file, const struct iovec *data, int size) {
    REAL(writev); REFUSE(is_file(file)) return real(file, data, size);
}
int ftruncate(int file, off_t size) { REAL(ftruncate); REFUSE(is_file(file)) return real(file, size); }
int ftruncate64(int file, off64_t size) { REAL(ftruncate64); REFUSE(is_file(file)) return real(file, size); }
int rename(const char *from, const char *to) { REAL(rename); REFUSE(1) return real(from, to); }
int unlink(const char *path) { REAL(unlink); REFUSE(1) return real(path); }
int mkdir(const char *path, mode_t mode) { REAL(mkdir); REFUSE(1) return real(path, mode); }
int rmdir(const char *path) { REAL(rmdir); REFUSE(1) return real(path); }

static int creates(int flags) { return (flags & O_CREAT) != 0; }
#define OPEN(name) int name(const char *path, int flags, ...) { \
    REAL(name); va_list more; va_start(more, flags); mode_t mode = va_arg(more, mode_t); va_end(more); \
    REFUSE(creates(flags)) return real(path, flags, mode); }
OPEN(open)
OPEN(open64)
#define OPENAT(name) int name(int folder, const char *path, int flags, ...) { \
    REAL(name); va_list more; va_start(more, flags); mode_t mode = va_arg(more, mode_t); va_end(more); \
    REFUSE(creates(flags)) return real(folder, path, flags, mode); }
OPENAT(openat)
OPENAT(openat64)
"""


@dataclass(frozen=True, slots=True)
class Shim:
    """The library of one server, with the file of its numbers."""

    library: Path
    numbers: Path

    @classmethod
    def built(cls, folder: Path) -> Shim | None:
        """Compile it. None: there is no C compiler."""
        compiler = shutil.which("cc") or shutil.which("gcc")
        if compiler is None:
            return None
        folder.mkdir(parents=True, exist_ok=True)
        shim = cls(folder / "shim.so", folder / "shim.numbers")
        command = [compiler, "-shared", "-fPIC", "-O1", "-x", "c", "-", "-o", str(shim.library), "-ldl"]
        subprocess.run(command, input=_SOURCE.encode(), check=True, capture_output=True)
        shim.set()
        return shim

    def environment(self) -> dict[str, str]:
        """What a server is started with."""
        return {"LD_PRELOAD": str(self.library), "CHAOS_SHIM": str(self.numbers)}

    def set(self, *, clock_s: int = 0, is_read_only: bool = False) -> None:
        """Move the wall clock by so many seconds, and make the disk read-only; or neither. Of processes that run, too."""
        with self.numbers.open("r+b" if self.numbers.exists() else "wb") as file:
            file.write(_NUMBERS.pack(clock_s, is_read_only))
