"""%%energy for notebooks: measures a cell. Enable it with `%load_ext gpuyard`."""

from __future__ import annotations

import argparse
import ast
import shlex
from typing import Any, Optional

from .energy_window import Energy
from .shortcuts import energy


class _UsageError(Exception):
    pass


class _Parser(argparse.ArgumentParser):
    """An invalid option prints a line under the cell; it does not end the kernel."""

    def error(self, message: str) -> Any:
        raise _UsageError(f"{message}\n{self.format_usage()}")


def _parser() -> _Parser:
    parser = _Parser(prog="%%energy", add_help=False, description=__doc__)
    parser.add_argument("variable", nargs="?", help="variable for the Energy of the cell")
    parser.add_argument("--gpus", help="comma-separated GPUs [default: those of this process]")
    parser.add_argument("--grid", type=float, metavar="GRAMS", help="grams of CO2 per kWh")
    return parser


def load_ipython_extension(shell: Any) -> None:
    def cell_energy(line: str, cell: str) -> Any:
        """%%energy [VARIABLE] [--gpus 0,1] [--grid GRAMS_PER_KWH]: measures the cell."""
        try:
            chosen = _parser().parse_args(shlex.split(line))
        except _UsageError as error:
            print(error)
            return None
        with energy(chosen.gpus, name="notebook") as spent:
            if chosen.variable:
                shell.user_ns[chosen.variable] = spent
            try:
                return _run(shell, cell)
            finally:
                spent.end()  # also if the cell was interrupted
                print(summary(spent, chosen.grid))

    shell.register_magic_function(cell_energy, magic_kind="cell", magic_name="energy")


def _run(shell: Any, cell: str) -> Any:
    """Runs a cell in the notebook's namespace and returns the value of its last expression. An
    exception is not caught here, so that the notebook shows it once and stops there."""
    code = shell.transform_cell(cell)
    name = shell.compile.cache(code)  # so that a traceback has the cell's lines
    tree = shell.transform_ast(ast.parse(code, name))
    last: Optional[ast.Expression] = None
    if tree.body and isinstance(tree.body[-1], ast.Expr):
        last = ast.Expression(tree.body.pop().value)
    exec(compile(tree, name, "exec"), shell.user_ns)
    return eval(compile(last, name, "eval"), shell.user_ns) if last else None


def summary(spent: Energy, grid: Optional[float] = None) -> str:
    """A summary in one line: "12.3 s, 8.1 kJ (2.3 Wh) on 2 GPUs"."""
    joules, seconds, why = spent.joules, spent.seconds, spent.why
    if joules is None:
        return f"energy unknown: {why}"
    amount = f"{joules / 1000:.1f} kJ" if joules >= 1000 else f"{joules:.1f} J"
    count = len(spent.by_gpu)
    gpus = "1 GPU" if count == 1 else f"{count} GPUs"
    text = f"{seconds or 0:.1f} s, {amount} ({joules / 3600:.2f} Wh) on {gpus}"
    if grid is not None:
        text += f", {spent.co2(grid=grid) or 0:.2f} g CO2"
    return f"{text} ({why})" if why else text
