"""The command ``sbx-flappy report``: one HTML page of a training run, or of several side by side."""

import argparse
from pathlib import Path


def report(arguments: list[str], prog: str) -> None:
    """
    Write a page of the runs in the given log folders, and print where it lies.

    :param arguments: of the command line
    :param prog: the command's name, for its help and errors
    :raises SystemExit: with 2 for a wrong command line, with a message (status 1) for a run that cannot be read
    """
    parser = argparse.ArgumentParser(
        prog=prog, description="Write one HTML page, without a network, of a training run, or of several side by side."
    )
    parser.add_argument(
        "folders", nargs="+", type=Path, metavar="LOG_FOLDER", help="a run, or a log folder with one run in it"
    )
    parser.add_argument("-o", "--output", type=Path, help="The page (default: report.html in the first run's folder)")
    parser.add_argument("--title", help="Title of the page (default: the names of the runs)")
    parser.add_argument(
        "-tb",
        "--tensorboard-log",
        type=Path,
        action="append",
        help="Tensorboard log dir, or one event file in it, if it is not where train wrote it. "
        "Once for all runs, or once for each in their order",
    )
    args = parser.parse_args(arguments)
    logs: list[Path | None] = args.tensorboard_log or [None]
    if len(logs) not in (1, len(args.folders)):
        parser.error(f"--tensorboard-log is given {len(logs)} times, for {len(args.folders)} runs: once, or once for each run")
    if len(logs) < len(args.folders):
        logs *= len(args.folders)

    # What draws and reads is imported only here: the command line starts without it.
    from sbx_flappy.report.page import write_page
    from sbx_flappy.report.runs import name_runs, read_run
    from sbx_flappy.report.sources import LogError

    try:
        runs = name_runs([read_run(folder, log) for folder, log in zip(args.folders, logs, strict=True)])
        page = args.output or runs[0].folder / "report.html"
        write_page(page, runs, args.title)
    except (LogError, OSError) as e:
        raise SystemExit(f"{prog}: error: {e}") from e
    print(f"Report: {page}")
