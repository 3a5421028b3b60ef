"""Write `cmake/function_order.ld`: the functions that models call when they are loaded and run.

The linker puts these first, and side by side what the same models call. A process then maps little
of the module's code: the kernel maps windows of 64 KiB around what is called, and the thousand
functions that a model needs would lie in half of all windows.

Each model is loaded and run, from its file and from an engine file, by a process with a copy of the
module in which every function begins with a breakpoint; whoever meets one is known, and it is taken
away. Linux on x86-64. The order need not be renewed with every change: a function that the list
does not have, or has under another name, lies behind, where it would lie without a list.

Usage: python tools/write_function_order.py [MODEL ...], names of `bench.models`; by default all.
"""

from __future__ import annotations

import ctypes
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

LIST = ROOT / "cmake" / "function_order.ld"

PTRACE_TRACEME = 0
PTRACE_CONT = 7
PTRACE_GETREGS = 12
PTRACE_SETREGS = 13
PTRACE_SETOPTIONS = 0x4200
PTRACE_O_TRACECLONE = 8
WAIT_ALL = 0x40000000  # __WALL
RIP = 16  # its place among the registers
BREAKPOINT = 0xCC
WINDOW = 1 << 16  # Linux's fault_around_bytes


def run_model(path: str, inputs: str) -> None:
    """Load and run a model; what the traced processes do."""
    import numpy as np

    import sardonyx

    with np.load(inputs) as archive:
        sardonyx.load(path, threads=2).run(dict(archive))


@dataclass
class Function:
    """A function of the module: its names, its size in bytes, and the runs that called it."""

    names: list[str]
    size: int
    runs: set[int]


def functions(module: Path) -> dict[int, Function]:
    """Functions of a module by address, which is the place in the file as well."""
    command = ["nm", "-S", "--defined-only", module]
    listed = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    rows = re.findall(r"^([0-9a-f]+) ([0-9a-f]+) [tTwW] (\S+)$", listed, re.MULTILINE)
    result: dict[int, Function] = {}
    for address, size, name in rows:
        function = result.setdefault(int(address, 16), Function([], int(size, 16), set()))
        function.names.append(name)
    return result


class Tracer:
    """Runs commands that import a copy of the module with breakpoints."""

    def __init__(self, module: Path, package: Path) -> None:
        self.functions = functions(module)
        code = bytearray(module.read_bytes())
        self._first_bytes = {address: code[address : address + 1] for address in self.functions}
        for address in self.functions:
            code[address] = BREAKPOINT
        self._copy = package / "sardonyx" / module.name
        shutil.copytree(ROOT / "python", package, ignore=shutil.ignore_patterns("*.so", "src"))
        self._copy.write_bytes(code)
        self._ptrace = ctypes.CDLL(None, use_errno=True).ptrace
        self._ptrace.argtypes = [ctypes.c_long, ctypes.c_long, ctypes.c_void_p, ctypes.c_void_p]
        self._ptrace.restype = ctypes.c_long

    def _base(self, process: int) -> int:
        for line in Path(f"/proc/{process}/maps").read_text().splitlines():
            if line.endswith(str(self._copy)):
                return int(line.partition("-")[0], 16)
        raise RuntimeError("a breakpoint outside of the module")

    def _start(self, command: list[str], environment: dict[str, str]) -> int:
        process = os.fork()
        if process == 0:
            self._ptrace(PTRACE_TRACEME, 0, None, None)
            os.execvpe(command[0], command, environment)
        os.waitpid(process, 0)
        self._ptrace(PTRACE_SETOPTIONS, process, None, PTRACE_O_TRACECLONE)
        self._ptrace(PTRACE_CONT, process, None, None)
        return process

    def calls(self, command: list[str], environment: dict[str, str]) -> list[int]:
        """Addresses of the functions that the command calls, in the order of their first calls."""
        process = self._start(command, environment)
        base = 0
        called: dict[int, None] = {}
        registers = (ctypes.c_ulong * 27)()
        while True:
            thread, status = os.waitpid(-1, WAIT_ALL)
            if not os.WIFSTOPPED(status):
                if thread != process:
                    continue
                if os.waitstatus_to_exitcode(status) != 0:
                    raise RuntimeError(f"{' '.join(command)} failed")
                return list(called)
            passed = os.WSTOPSIG(status)
            if passed == signal.SIGTRAP and status >> 16 == 0:
                base = base or self._base(process)
                self._ptrace(PTRACE_GETREGS, thread, None, registers)
                registers[RIP] -= 1
                address = registers[RIP] - base
                called[address] = None
                with Path(f"/proc/{process}/mem").open("r+b", buffering=0) as memory:
                    memory.seek(registers[RIP])
                    memory.write(self._first_bytes[address])
                self._ptrace(PTRACE_SETREGS, thread, None, registers)
            if passed in (signal.SIGTRAP, signal.SIGSTOP):  # ours, and that of a new thread
                passed = 0
            self._ptrace(PTRACE_CONT, thread, None, passed)


def record(models: list[str], module: Path, folder: Path) -> list[Function]:
    """Find the functions that the models call, each with its runs."""
    import numpy as np

    import sardonyx
    from bench.models import cases, ensure

    tracer = Tracer(module, folder / "python")
    inputs, engine = folder / "inputs.npz", folder / "model.sdx"
    runs = 0
    for name in models:
        feeds = next(iter(cases(name).values()))
        np.savez(inputs, **feeds)
        shapes = {key: array.shape for key, array in feeds.items()}
        sardonyx.compile(ensure(name), engine, shapes=shapes)
        for path, target in ((ensure(name), ""), (engine, ""), (ensure(name), "avx2")):
            environment = {**os.environ, "PYTHONPATH": f"{folder / 'python'}:{ROOT}"}
            if target:
                environment["SARDONYX_TARGET"] = target
            command = [sys.executable, __file__, "--run", str(path), str(inputs)]
            for address in tracer.calls(command, environment):
                tracer.functions[address].runs.add(runs)
            runs += 1
    return [function for function in tracer.functions.values() if function.runs]


def arrange(called: list[Function]) -> list[str]:
    """Put the functions in order and return their names.

    Window by window: next come those whose runs differ least from the runs that need what the
    window has so far.
    """
    groups: dict[frozenset[int], list[Function]] = {}
    for function in called:
        groups.setdefault(frozenset(function.runs), []).append(function)
    names: list[str] = []
    place = 0
    window = max(groups, key=len)  # the runs that need it
    while groups:
        runs = min(groups, key=lambda runs: (len(runs ^ window), -len(runs)))
        group = groups.pop(runs)
        names += [name for function in group for name in function.names]
        before, place = place, place + sum(function.size for function in group)
        window = runs | window if place // WINDOW == before // WINDOW else runs
    return names


def main() -> int:
    """Write the list."""
    if sys.argv[1:2] == ["--run"]:
        run_model(*sys.argv[2:])
        return 0
    from bench.models import collection
    from sardonyx import _sardonyx

    models = sys.argv[1:] or [name for name, model in collection().items() if model.benchmarked]
    with tempfile.TemporaryDirectory() as folder:
        names = arrange(record(models, Path(_sardonyx.__file__).resolve(), Path(folder)))
    lines = [
        "/* Written by tools/write_function_order.py: what models call when loaded and run. */",
        "SECTIONS {",
        "  .text.first : {",
        *(f"    *(.text.{name})" for name in names if not name.endswith(".cold")),
        "  }",
        "}",
        "INSERT BEFORE .text;",
    ]
    LIST.write_text("\n".join(lines) + "\n")
    print(f"{LIST}: {len(names)} functions")
    return 0


if __name__ == "__main__":
    sys.exit(main())
