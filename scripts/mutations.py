"""How many of some small faults the tests find: statements that changed since a revision, chosen by a seed, each made wrong.

    python scripts/mutations.py --since abfa6c6 --seed 38 --number 40 tests

Works in a copy of the tree. First the tests run once, with a probe before each chosen statement that notes which test reaches
it; then each fault is put in alone, and only tests that reach it run, up to `--most`. A fault is *found* if one of them fails
or does not end, and *missed* if all pass. What a test reaches in a process that it starts counts where that inherits the
test's environment.
"""

from __future__ import annotations

import argparse
import ast
import json
import os
import random
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Iterator, Sequence
from copy import copy
from dataclasses import asdict, dataclass, field
from pathlib import Path

ROOT = Path(__file__).parent.parent
PROBE = """
import os

_known = set()


def note(number):
    test = os.environ.get("PYTEST_CURRENT_TEST", "")
    if test and (number, test) not in _known:
        _known.add((number, test))
        with open({path!r}, "a", encoding="utf-8") as out:
            out.write(f"{{number}} {{test.rpartition(' (')[0]}}\\n")
"""
"""A module of the copy, `reached_by_tests`."""
COMPARISONS: dict[type[ast.cmpop], type[ast.cmpop]] = {
    ast.Eq: ast.NotEq,
    ast.NotEq: ast.Eq,
    ast.Lt: ast.LtE,
    ast.LtE: ast.Lt,
    ast.Gt: ast.GtE,
    ast.GtE: ast.Gt,
    ast.In: ast.NotIn,
    ast.NotIn: ast.In,
    ast.Is: ast.IsNot,
    ast.IsNot: ast.Is,
}
TEST_S = 300
"""How long the tests of one fault may run, besides a minute for the start: a fault may make one wait for ever."""


@dataclass(slots=True)
class Fault:
    """A statement that is made wrong. `statement` and `node` are places in the order of `ast.walk`."""

    file: str
    line: int
    statement: int
    node: int
    right: str
    wrong: str = ""
    outcome: str = "not reached"
    tests: list[str] = field(default_factory=list[str])


# ---- statements and faults


def own_nodes(statement: ast.stmt) -> Iterator[ast.AST]:
    """The nodes of a statement without those of the statements inside it."""
    yield statement
    waiting = [one for one in ast.iter_child_nodes(statement) if not isinstance(one, ast.stmt)]
    while waiting:
        node = waiting.pop(0)
        yield node
        waiting += [one for one in ast.iter_child_nodes(node) if not isinstance(one, ast.stmt)]


def make_wrong(node: ast.AST) -> bool:
    """Change a node in place; False: there is nothing to change."""
    match node:
        case ast.Compare(ops=[op]) if type(op) in COMPARISONS:
            node.ops = [COMPARISONS[type(op)]()]
        case ast.BoolOp(op=op):
            node.op = ast.Or() if isinstance(op, ast.And) else ast.And()
        case ast.Constant(value=bool(value)):
            node.value = not value
        case ast.Constant(value=int(value)):
            node.value = value + 1
        case ast.BinOp(op=ast.Add()) | ast.AugAssign(op=ast.Add()):
            node.op = ast.Sub()
        case ast.BinOp(op=ast.Sub()) | ast.AugAssign(op=ast.Sub()):
            node.op = ast.Add()
        case ast.If(test=test) | ast.IfExp(test=test):
            node.test = ast.UnaryOp(ast.Not(), test)
        case ast.Return(value=value) if value is not None:
            node.value = ast.Constant(None)
        case ast.Expr(value=ast.Call() | ast.Await()):
            node.value = ast.Constant(None)
        case _:
            return False
    return True


def header(statement: ast.stmt) -> str:
    """A statement's first line."""
    return ast.unparse(statement).partition("\n")[0][:160]


def statements(tree: ast.Module) -> Iterator[tuple[int, ast.stmt]]:
    """The statements of functions with their places; no definitions and no imports."""
    inside = set[ast.AST]()
    for number, node in enumerate(ast.walk(tree)):
        if node in inside and isinstance(node, ast.stmt) and not isinstance(node, ast.Import | ast.ImportFrom):
            yield number, node
        if node in inside or isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            inside.update(ast.iter_child_nodes(node) if node in inside else getattr(node, "body", ()))


def faults_of(file: str, source: str) -> Iterator[Fault]:
    """All faults that a file can have."""
    tree = ast.parse(source)
    numbers = {node: number for number, node in enumerate(ast.walk(tree))}
    for statement, node in statements(tree):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            continue
        for part in own_nodes(node):
            if make_wrong(copy(part)):
                yield Fault(file, node.lineno, statement, numbers[part], header(node))


def choose(since: str, seed: int, number: int) -> list[Fault]:
    """Faults of different statements, in files of `src` that changed since a revision or were moved."""
    names = git("diff", "--name-only", "-M", "--diff-filter=AMR", since, "--", "src").splitlines()
    by_statement: dict[tuple[str, int], list[Fault]] = {}
    for name in sorted(name for name in names if name.endswith(".py")):
        for fault in faults_of(name, (ROOT / name).read_text(encoding="utf-8")):
            by_statement.setdefault((name, fault.statement), []).append(fault)
    chance = random.Random(seed)
    chosen = chance.sample(sorted(by_statement), min(number, len(by_statement)))
    found = [chance.choice(by_statement[place]) for place in chosen]
    for fault in found:
        fault.wrong = with_fault((ROOT / fault.file).read_text(encoding="utf-8"), fault)[1]
    return [one for one in found if one.wrong != one.right]


def with_fault(source: str, fault: Fault) -> tuple[str, str]:
    """The file with the fault, and the statement's first line in it."""
    tree = ast.parse(source)
    nodes = list(ast.walk(tree))
    make_wrong(nodes[fault.node])
    statement = nodes[fault.statement]
    assert isinstance(statement, ast.stmt)
    return ast.unparse(ast.fix_missing_locations(tree)), header(statement)


def with_probes(source: str, probes: dict[int, int]) -> str:
    """The file with a call before each of some statements: the numbers of the calls by the statements' places."""
    tree = ast.parse(source)
    wanted = {node: probes[at] for at, node in enumerate(ast.walk(tree)) if at in probes}
    for node in ast.walk(tree):
        for name in ("body", "orelse", "finalbody"):
            block: list[ast.stmt] | ast.expr = getattr(node, name, [])
            if isinstance(block, list):  # a lambda's body is none
                setattr(node, name, [made for one in block for made in (*_probe(wanted.get(one)), one)])
    return ast.unparse(ast.fix_missing_locations(tree))


def _probe(number: int | None) -> list[ast.stmt]:
    return [] if number is None else ast.parse(f"__import__('reached_by_tests').note({number})").body


# ---- runs


def git(*arguments: str) -> str:
    return subprocess.run(["git", "-C", str(ROOT), *arguments], capture_output=True, text=True, check=True).stdout


def copy_tree(folder: Path) -> None:
    """Copy the files that git knows."""
    for name in git("ls-files").splitlines():
        if (ROOT / name).is_file():
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            (folder / name).write_bytes((ROOT / name).read_bytes())


def run_tests(folder: Path, tests: Sequence[str], limit_s: float | None) -> int | None:
    """The exit code of pytest in the copy; None: it did not end in time."""
    environment = {**os.environ, "PYTHONPATH": f"{folder / 'src'}{os.pathsep}{folder}", "PYTHONDONTWRITEBYTECODE": "1"}
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", *(["-x"] if limit_s else []), *tests]
    try:
        return subprocess.run(
            command, cwd=folder, env=environment, timeout=limit_s, stdout=subprocess.DEVNULL
        ).returncode
    except subprocess.TimeoutExpired:
        return None


def find_tests(folder: Path, faults: Sequence[Fault], tests: Sequence[str]) -> None:
    """Note for each fault the tests that reach its statement."""
    reached = folder / "reached"
    reached.touch()
    (folder / "src" / "reached_by_tests.py").write_text(PROBE.format(path=str(reached)), encoding="utf-8")
    right = {fault.file: (folder / fault.file).read_text(encoding="utf-8") for fault in faults}
    for file, source in right.items():
        probes = {fault.statement: number for number, fault in enumerate(faults) if fault.file == file}
        (folder / file).write_text(with_probes(source, probes), encoding="utf-8")
    run_tests(folder, tests, None)
    for line in reached.read_text(encoding="utf-8").splitlines():
        number, _, test = line.partition(" ")
        if test not in faults[int(number)].tests:
            faults[int(number)].tests.append(test)
    for file, source in right.items():
        (folder / file).write_text(source, encoding="utf-8")


def judge(folder: Path, fault: Fault, most: int, chance: random.Random) -> None:
    """Run the tests of a fault."""
    if not fault.tests:
        return
    tests = chance.sample(sorted(fault.tests), min(most, len(fault.tests)))
    source = (folder / fault.file).read_text(encoding="utf-8")
    (folder / fault.file).write_text(with_fault(source, fault)[0], encoding="utf-8")
    code = run_tests(folder, tests, TEST_S + 60)
    fault.outcome = "missed" if code == 0 else "found" if code in (None, 1, 2) else f"pytest ended with {code}"
    (folder / fault.file).write_text(source, encoding="utf-8")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("tests", nargs="*", default=["tests"], help="files and folders of tests")
    parser.add_argument("--since", required=True, metavar="REVISION", help="files that changed since this revision")
    parser.add_argument("--seed", type=int, default=38)
    parser.add_argument("--number", type=int, default=40)
    parser.add_argument("--most", type=int, default=20, help="tests that run for one fault, chosen by the seed")
    parser.add_argument("--out", type=Path, help="a JSON file for all of it")
    options = parser.parse_args()
    faults = choose(options.since, options.seed, options.number)
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        copy_tree(folder)
        find_tests(folder, faults, options.tests)
        for fault in faults:
            judge(folder, fault, options.most, random.Random(options.seed))
            print(
                f"{fault.outcome:12} {len(fault.tests):4} tests  {fault.file}:{fault.line}  {fault.right}  →  {fault.wrong}",
                flush=True,
            )
            if options.out:
                options.out.write_text(json.dumps([asdict(one) for one in faults], indent=2, ensure_ascii=False) + "\n")
    print(", ".join(f"{number} {outcome}" for outcome, number in Counter(one.outcome for one in faults).items()))


if __name__ == "__main__":
    main()
