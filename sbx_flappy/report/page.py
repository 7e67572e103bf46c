"""The page: one HTML file that needs no other file and no network."""

import base64
import re
from collections.abc import Sequence
from html import escape
from pathlib import Path
from string import Template
from typing import Any

from sbx_flappy.atomic_files import replace_file
from sbx_flappy.report.charts import LEARNING, OPTIMISATION, Chart, Line, draw
from sbx_flappy.report.runs import VIDEO_TYPES, Run
from sbx_flappy.report.sources import LogError
from sbx_flappy.report.style import COLOURS, STYLE_SHEET
from sbx_flappy.report.summary import UNKNOWN, figures, not_logged

#: The largest video that is put into the page, in bytes; a browser holds a page in memory as a whole
MAX_VIDEO_BYTES = 30_000_000

PAGE = Template("""<!DOCTYPE html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>$title</title>
<style>
$style
</style>
</head>
<body>
<main>
<h1>$title</h1>
$body
</main>
</body>
</html>
""")


def write_page(path: Path, runs: Sequence[Run], title: str | None = None) -> None:
    """
    Write the page of one run, or of several side by side.

    :param path: the HTML file; its folder must be there
    :param runs: at most as many as there are colours
    :param title: of the page (default: the names of the runs)
    :raises LogError: for too many runs, or a folder that is not there
    """
    if len(runs) > len(COLOURS):
        raise LogError(f"At most {len(COLOURS)} runs can be told apart in one chart, not {len(runs)}.")
    if not path.parent.is_dir():
        raise LogError(f"The folder of {path} is not there.")
    title = title or ", ".join(run.name for run in runs)
    videos = [_video(run) for run in runs if run.video is not None]
    sections = [
        ("", [_summary(runs, "" if len(videos) % 2 and len(runs) <= 2 else "wide"), *videos, _not_logged(runs)]),
        ("Learning", [_chart(chart, runs) for chart in LEARNING]),
        ("Optimisation", [_chart(chart, runs) for chart in OPTIMISATION]),
        ("Settings", [_settings(runs)]),
    ]
    body = "\n".join(_section(heading, cards) for heading, cards in sections)
    text = PAGE.substitute(title=escape(title), style=STYLE_SHEET, body=body)
    path = path.resolve()
    if path.exists() and not path.is_file():  # a pipe, say
        path.write_text(text, encoding="utf-8", errors="backslashreplace")
        return
    with replace_file(path, keep_permissions=False, sync=False) as file:
        file.write(text.encode(errors="backslashreplace"))


def _section(heading: str, cards: Sequence[str]) -> str:
    """Return a heading and the cards beneath it, or nothing if all cards are empty."""
    shown = [card for card in cards if card]
    if not shown:
        return ""
    return "\n".join([f"<h2>{heading}</h2>" if heading else "", '<section class="grid">', *shown, "</section>"])


def _card(title: str, content: str, kind: str = "") -> str:
    """Return a card; title and content are HTML already."""
    return f'<article class="card {kind}">\n<h3>{title}</h3>\n{content}\n</article>'


def _name(runs: Sequence[Run], i: int) -> str:
    """Return a run's name, which may be broken into lines at its slashes, with its colour before it."""
    name = escape(runs[i].name).replace("/", "/<wbr>")
    return f'<span class="name"><i style="background: var(--run-{i})"></i><span>{name}</span></span>'


def _table(head: Sequence[str], rows: Sequence[tuple[str, Sequence[str], bool]]) -> str:
    """
    Return a table.

    :param head: titles of the columns after the first, HTML
    :param rows: title and cells, plain text, and whether the row is marked as one whose cells differ
    """
    lines = [
        '<div class="scroll"><table>',
        f"<thead><tr><th></th>{''.join(f'<th>{cell}</th>' for cell in head)}</tr></thead><tbody>",
    ]
    for title, cells, differs in rows:
        mark = ' <b title="differs">≠</b>' if differs else ""
        columns = "".join(f"<td>{escape(cell)}</td>" for cell in cells)
        row = '<tr class="differs">' if differs else "<tr>"
        lines.append(f"{row}<th>{escape(title)}{mark}</th>{columns}</tr>")
    return "\n".join([*lines, "</tbody></table></div>"])


def _summary(runs: Sequence[Run], kind: str) -> str:
    head = [_name(runs, i) for i in range(len(runs))]
    return _card("Summary", _table(head, [(title, cells, False) for title, cells in figures(runs)]), kind)


def _video(run: Run) -> str:
    assert run.video is not None
    size = run.video.stat().st_size
    title = f"Video of {escape(run.name)}"
    if size > MAX_VIDEO_BYTES:
        return _card(title, f"<p>{escape(str(run.video))} is too large for a page: {size / 1e6:.0f} MB.</p>")
    kind = VIDEO_TYPES[run.video.suffix]
    data = f"data:{kind};base64,{base64.b64encode(run.video.read_bytes()).decode()}"
    if kind == "image/gif":
        return _card(title, f'<img alt="{title}" src="{data}">')
    return _card(title, f'<video controls muted loop playsinline src="{data}"></video>')


def _not_logged(runs: Sequence[Run]) -> str:
    parts = []
    for i, run in enumerate(runs):
        sentences = not_logged(run)
        if sentences:
            parts.append(f"<p>{_name(runs, i)}</p>" if len(runs) > 1 else "")
            parts.append(f"<ul>{''.join(f'<li>{_with_code(sentence)}</li>' for sentence in sentences)}</ul>")
    return _card("Not logged", "\n".join(parts), "missing wide") if parts else ""


def _with_code(sentence: str) -> str:
    """Return a sentence as HTML, in which the options of a command stand out and are not broken into two lines."""
    return re.sub(r"(?<!\S)--?[a-z][a-z-]*", r"<code>\g<0></code>", escape(sentence))


def _chart(chart: Chart, runs: Sequence[Run]) -> str:
    """Return the card of a chart, or nothing if no run has logged it."""
    lines: list[Line | None] = [chart.line(run) for run in runs]
    # Minutes are not known where nothing but evaluations or a progress.csv without times is there.
    lines = [None if line is None or _is_unknown(line, chart.x) else line for line in lines]
    if not any(lines):
        return ""
    legend = "".join(_name(runs, i) for i, line in enumerate(lines) if line is not None)
    note = chart.note
    windows = {line.window for line in lines if line is not None and line.window}
    if windows:
        counts = " or ".join(map(str, sorted(windows)))
        note = f"Line: mean of {counts} episodes. Band: all but the upper and lower tenth of them."
    caption = f"<figcaption><div>{legend}</div><small>{escape(note)}</small></figcaption>"
    return _card(chart.title, f"<figure>\n{draw(chart, lines)}\n{caption}\n</figure>")


def _is_unknown(line: Line, x: str) -> bool:
    values: Any = getattr(line.curve, x)
    return bool((values != values).all())


def _settings(runs: Sequence[Run]) -> str:
    tables: list[str] = []
    head = [_name(runs, i) for i in range(len(runs))]
    for title, all_settings in (
        ("Hyperparameters (config.yml)", [run.config for run in runs]),
        ("Options of train (args.yml)", [run.args for run in runs]),
    ):
        rows = []
        for key in sorted(set().union(*all_settings)):
            cells = [_text(settings[key]) if key in settings else UNKNOWN for settings in all_settings]
            rows.append((key, cells, len(set(cells)) > 1))
        if rows:
            is_open = "" if tables else " open"
            tables.append(f"<details{is_open}><summary>{title}</summary>\n{_table(head, rows)}\n</details>")
    return "\n".join(f'<article class="card wide">\n{table}\n</article>' for table in tables)


def _text(value: Any) -> str:
    return UNKNOWN if value is None or value == "" else str(value)
