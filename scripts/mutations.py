"""How many of some small faults the tests find: statements that changed since a revision, chosen by a seed, each made wrong.

    python scripts/mutations.py --since abfa6c6 --seed 38 --number 40 tests

Works in a copy of the tree. First the tests run once, with a probe before each chosen statement that notes which test reaches
it, and how long the test takes; then each fault is put in alone, and only tests that reach it run, the shortest `--most`. A
fault is *found* if one of them fails or does not end, and *missed* if all pass. What a test reaches in a process that it starts
counts where that inherits the test's environment.

`--moved` chooses among the statements that stood in other files at the revision, in functions of the same names, and judges
each fault there, too, by the revision's own tests.
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


def pytest_runtest_logreport(report):
    if report.when == "call":
        with open({path!r}, "a", encoding="utf-8") as out:
            out.write(f"{{report.duration}}s {{report.nodeid}}\n")


def note(number):
    test = os.environ.get("PYTEST_CURRENT_TEST", "")
    if test and (number, test) not in _known:
        _known.add((number, test))
        with open({path!r}, "a", encoding="utf-8") as out:
            out.write(f"{{number}} {{test.rpartition(' (')[0]}}\\n")
"""
"""A module of the copy, `reached_by_tests`, which is a plugin of pytest, too."""
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
    tests: list[str] = field(default_factory=list[str])  # the shortest first
    before: Fault | None = None  # the same one in the revision


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


def functions_of(tree: ast.Module) -> dict[ast.AST, str]:
    """The name of the innermost function of each node within one."""
    names: dict[ast.AST, str] = {}
    for function in ast.walk(tree):
        if isinstance(function, ast.FunctionDef | ast.AsyncFunctionDef):
            names |= dict.fromkeys(ast.walk(function), function.name)
    return names


Key = tuple[str, str]
"""Of a statement: the name of the innermost function around it, and what it says."""


def keyed_statements(source: str) -> Iterator[tuple[Key, int]]:
    """The keys of a file's statements, with their places."""
    tree = ast.parse(source)
    names = functions_of(tree)
    for number, statement in statements(tree):
        yield (names.get(statement, ""), ast.dump(statement)), number


def statements_at(revision: str) -> dict[Key, list[tuple[str, int]]]:
    """The files and places of all statements of `src` at a revision."""
    found: dict[Key, list[tuple[str, int]]] = {}
    for file in git("ls-tree", "-r", "--name-only", revision, "src").splitlines():
        for key, number in keyed_statements(git("show", f"{revision}:{file}")) if file.endswith(".py") else ():
            found.setdefault(key, []).append((file, number))
    return found


def choose(since: str, seed: int, number: int, *, moved: bool = False) -> list[Fault]:
    """Faults of different statements, in files of `src` that changed since a revision or were moved.

    `moved`: of statements that stood in other files then, with the same fault there.
    """
    names = git("diff", "--name-only", "-M", "--diff-filter=AMR", since, "--", "src").splitlines()
    then = statements_at(since) if moved else {}
    by_statement: dict[tuple[str, int], list[Fault]] = {}
    were: dict[tuple[str, int], tuple[str, int]] = {}
    for name in sorted(name for name in names if name.endswith(".py")):
        source = (ROOT / name).read_text(encoding="utf-8")
        for key, at in keyed_statements(source) if moved else ():
            places = then.get(key, [])
            if places and name not in (file for file, _ in places):
                were[name, at] = places[0]
        for fault in faults_of(name, source):
            if not moved or (name, fault.statement) in were:
                by_statement.setdefault((name, fault.statement), []).append(fault)
    chance = random.Random(seed)
    found: list[Fault] = []
    for place in chance.sample(sorted(by_statement), len(by_statement)):
        fault = chance.choice(by_statement[place])
        fault.wrong = with_fault((ROOT / fault.file).read_text(encoding="utf-8"), fault)[1]
        if fault.wrong != fault.right:
            fault.before = same_fault(fault, since, *were[place]) if moved else None
            found.append(fault)
        if len(found) == number:
            break
    return found


def same_fault(fault: Fault, revision: str, file: str, number: int) -> Fault:
    """The fault in statement `number` of a file at a revision, which says what the fault's own does."""
    nodes = list(ast.walk(ast.parse((ROOT / fault.file).read_text(encoding="utf-8"))))
    place = list(ast.walk(nodes[fault.statement])).index(nodes[fault.node])
    others = list(ast.walk(ast.parse(git("show", f"{revision}:{file}"))))
    node = others.index(list(ast.walk(others[number]))[place])
    return Fault(file, getattr(others[number], "lineno", 0), number, node, fault.right, fault.wrong)


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


def copy_tree(folder: Path, revision: str | None = None) -> None:
    """Copy the files that git knows; those of a revision, where one is given."""
    if revision is not None:
        archive = subprocess.Popen(["git", "-C", str(ROOT), "archive", revision], stdout=subprocess.PIPE)
        subprocess.run(["tar", "-x", "-C", str(folder)], stdin=archive.stdout, check=True)
        if archive.wait():
            raise SystemExit(f"git archive {revision} failed")
        return
    for name in git("ls-files").splitlines():
        if (ROOT / name).is_file():
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            (folder / name).write_bytes((ROOT / name).read_bytes())


def run_tests(folder: Path, tests: Sequence[str], limit_s: float | None) -> int | None:
    """The exit code of pytest in the copy; None: it did not end in time."""
    environment = {**os.environ, "PYTHONPATH": f"{folder / 'src'}{os.pathsep}{folder}", "PYTHONDONTWRITEBYTECODE": "1"}
    plugins = ["-p", "no:cacheprovider", *(["-x"] if limit_s else ["-p", "reached_by_tests"])]
    command = [sys.executable, "-m", "pytest", "-q", *plugins, *tests]
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
    durations_s: dict[str, float] = {}
    for line in reached.read_text(encoding="utf-8").splitlines():
        number, _, test = line.partition(" ")
        if number.endswith("s"):
            durations_s[test] = float(number[:-1])
        elif test not in faults[int(number)].tests:
            faults[int(number)].tests.append(test)
    for fault in faults:
        fault.tests.sort(key=lambda test: durations_s.get(test, 0.0))
    for file, source in right.items():
        (folder / file).write_text(source, encoding="utf-8")


def judge(folder: Path, fault: Fault, most: int) -> None:
    """Run the tests of a fault, the shortest ones."""
    if not fault.tests:
        return
    tests = fault.tests[:most]
    source = (folder / fault.file).read_text(encoding="utf-8")
    (folder / fault.file).write_text(with_fault(source, fault)[0], encoding="utf-8")
    code = run_tests(folder, tests, TEST_S + 60)
    fault.outcome = "missed" if code == 0 else "found" if code in (None, 1, 2) else f"pytest ended with {code}"
    (folder / fault.file).write_text(source, encoding="utf-8")


def judge_all(faults: Sequence[Fault], tests: Sequence[str], most: int, revision: str | None = None) -> Iterator[Fault]:
    """Find the tests of all faults in a copy of the tree, or of a revision; yield each fault once it is judged."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        copy_tree(folder, revision)
        find_tests(folder, faults, [one for one in tests if one.startswith("-") or (folder / one).exists()])
        for fault in faults:
            judge(folder, fault, most)
            print(
                f"{fault.outcome:12} {len(fault.tests):4} tests  {fault.file}:{fault.line}  {fault.right}  →  {fault.wrong}",
                flush=True,
            )
            yield fault


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("tests", nargs="*", default=["tests"], help="files and folders of tests, of either tree")
    parser.add_argument("--since", required=True, metavar="REVISION", help="files that changed since this revision")
    parser.add_argument("--moved", action="store_true", help="statements that were moved, judged at the revision, too")
    parser.add_argument("--seed", type=int, default=38)
    parser.add_argument("--number", type=int, default=40)
    parser.add_argument("--most", type=int, default=20, help="tests that run for one fault, the shortest")
    parser.add_argument("--out", type=Path, help="a JSON file for all of it")
    options = parser.parse_args()
    faults = choose(options.since, options.seed, options.number, moved=options.moved)
    sides = [(None, faults)]
    if options.moved:
        sides.append((options.since, [one.before for one in faults if one.before is not None]))
    for revision, chosen in sides:
        for _ in judge_all(chosen, options.tests, options.most, revision):
            if options.out:
                written = [asdict(one) for one in faults]
                options.out.write_text(json.dumps(written, indent=2, ensure_ascii=False) + "\n")
        counted = Counter(one.outcome for one in chosen).items()
        print(f"{revision or 'now'}: {', '.join(f'{number} {outcome}' for outcome, number in counted)}")


if __name__ == "__main__":
    main()
