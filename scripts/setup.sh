#!/usr/bin/env bash
# Makes .venv and installs dragoman with the engine that fits this machine: vLLM's CUDA build where there is an NVIDIA GPU,
# its CPU build otherwise. Versions are those of constraints/. Run through `make setup`.
#   PYTHON=python3.12     the interpreter to use            ENGINE=cpu|cuda   overrides what was detected
#   COMPILE=no        leave it to the first start to compile Python modules
#   TORCH_INDEX=URL       an index with CPU builds of torch, where the configured ones have none
set -euo pipefail
cd "$(dirname "$0")/.."
PYTHON=${PYTHON:-python3}
VENV=${VENV:-.venv}

die() { printf 'setup: %s\n' "$*" >&2; exit 2; }
say() { printf '\033[2msetup:\033[0m %s\n' "$*" >&2; }

command -v "$PYTHON" >/dev/null || die "$PYTHON not found; install Python 3.11 to 3.13, or set PYTHON= to one"
"$PYTHON" -c 'import sys; sys.exit(not (3, 11) <= sys.version_info[:2] <= (3, 13))' ||
    die "$("$PYTHON" --version) is not supported: dragoman needs Python 3.11 to 3.13; set PYTHON= to one"

engine=${ENGINE:-}
if [ -z "$engine" ]; then
    if [ -e /dev/nvidiactl ] || nvidia-smi -L >/dev/null 2>&1; then engine=cuda; else engine=cpu; fi
fi
case $engine in cpu | cuda) ;; *) die "ENGINE=$engine: must be cpu or cuda" ;; esac

[ -x "$VENV/bin/python" ] || { say "making $VENV with $("$PYTHON" --version)"; "$PYTHON" -m venv "$VENV"; }
stamp="$VENV/.dragoman-$engine"
want=$(cat pyproject.toml constraints/"$engine".txt constraints/overrides.txt scripts/setup.sh | cksum)
[ -f "$stamp" ] && [ "$(cat "$stamp")" = "$want" ] && exit 0

if command -v uv >/dev/null; then UV=uv; else
    [ -x "$VENV/bin/uv" ] || { say "installing uv"; "$VENV/bin/python" -m pip install -q "$(grep '^uv==' constraints/tools.txt)"; }
    UV=$VENV/bin/uv
fi
# uv reads UV_FIND_LINKS where pip reads PIP_FIND_LINKS: honour either.
export UV_FIND_LINKS=${UV_FIND_LINKS:-${PIP_FIND_LINKS:-}}
[ -n "$UV_FIND_LINKS" ] || unset UV_FIND_LINKS
options=(--python "$VENV/bin/python" --constraint "constraints/$engine.txt")
if [ "$engine" = cpu ]; then
    options+=(--override constraints/overrides.txt)
    [ -z "${TORCH_INDEX:-}" ] || options+=(--index "$TORCH_INDEX" --index-strategy unsafe-best-match)
    torch=$(grep '^torch==' constraints/cpu.txt)
    if ! "$UV" pip install --dry-run --no-deps -q "${options[@]}" "$torch" >/dev/null 2>&1; then
        die "no CPU build of torch ($torch) is reachable: the configured index and PIP_FIND_LINKS have none.
       Run again with TORCH_INDEX=<URL of an index that has it>; PyTorch's install page names theirs (platform: CPU)."
    fi
fi
say "installing dragoman[$engine] (a few minutes on a first run)"
"$UV" pip install "${options[@]}" -e ".[$engine,bench,train,dev]"
echo "$want" >"$stamp"
# uv compiles no modules. What the engine imports is compiled here, unless it is to be used at once, and does it itself.
if [ "${COMPILE:-yes}" = yes ]; then
    say "compiling what the server imports"
    env -u PYTHONDONTWRITEBYTECODE "$VENV/bin/python" -c 'import dragoman.api.server, dragoman.engine.preload, dragoman.engine.async_engine' >/dev/null
fi
