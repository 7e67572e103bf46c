"""
Runs commands in processes of their own.

Nothing of this package is imported here, so that each command imports it as it does when a user runs it.
"""

import atexit
import multiprocessing
import os
import runpy
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

#: What takes most of a command's start, and none of it ours
PRELOADED = ["flax.linen", "jax", "matplotlib.pyplot", "optax", "optuna", "pandas", "sb3_contrib", "tensorboard", "torch"]


def in_fork(command: Sequence[str], cwd: Path, env: dict[str, str], output: Path) -> None:
    """Run a module as ``python -m`` does, in a process that has loaded other packages, and write what it prints to a file."""
    with output.open("wb", buffering=0) as file:
        os.dup2(file.fileno(), 1)
        os.dup2(file.fileno(), 2)
    sys.stdout, sys.stderr = (open(number, "w", buffering=1, closefd=False) for number in (1, 2))
    os.environ.clear()
    os.environ.update(env)
    os.chdir(cwd)
    sys.path[:0] = [str(cwd)]
    sys.argv = list(command)
    try:
        runpy.run_module(command[0], run_name="__main__", alter_sys=True)
    finally:
        atexit._run_exitfuncs()


def run(*command: str, cwd: Path, status: int = 0, module: bool = True) -> str:
    """
    Run Python in ``cwd`` and return what it printed.

    A module starts in a fork of a process that has loaded the packages of others, unless it starts processes itself.

    :param command: a module and its arguments, or the interpreter's arguments if not ``module``
    :param status: the exit status that is right
    """
    path = os.pathsep.join([str(cwd), os.environ.get("PYTHONPATH", "")]).strip(os.pathsep)
    headless = {"MPLBACKEND": "Agg", "SDL_VIDEODRIVER": "dummy"}
    env = {**os.environ, **headless, "PYTHONPATH": path, "PYTHONUNBUFFERED": "1", "COLUMNS": "200"}
    if module and "subproc" not in command:
        context = multiprocessing.get_context("forkserver")
        context.set_forkserver_preload(PRELOADED)
        with tempfile.TemporaryDirectory() as folder:
            output = Path(folder, "output")
            process = context.Process(target=in_fork, args=(command, cwd, env, output))
            process.start()
            process.join(600)
            if process.is_alive():
                process.kill()
            printed = output.read_text()
            assert process.exitcode == status, printed
        return printed
    arguments = [sys.executable, *(["-m"] if module else []), *command]
    pipes: dict[str, Any] = {"stdout": subprocess.PIPE, "stderr": subprocess.STDOUT, "text": True}
    result = subprocess.run(arguments, cwd=cwd, env=env, timeout=600, check=False, **pipes)
    assert result.returncode == status, result.stdout
    return result.stdout
