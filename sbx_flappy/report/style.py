"""How a page looks. The colours of runs are near Okabe and Ito's, which colour-blind readers tell apart."""

#: A run's colour on light ground and on dark ground
COLOURS = (
    ("#0072b2", "#56b4e9"),
    ("#d55e00", "#e69f00"),
    ("#009e73", "#2fc79b"),
    ("#aa4499", "#e08fc0"),
    ("#555555", "#f0e442"),
)


def _variables(ground: int) -> str:
    return " ".join(f"--run-{i}: {colours[ground]};" for i, colours in enumerate(COLOURS))


STYLE_SHEET = (
    f":root {{ color-scheme: light dark; {_variables(0)} }}\n"
    f"@media (prefers-color-scheme: dark) {{ :root {{ {_variables(1)} }} }}\n"
    """
:root { --page: #f4f5f7; --card: #ffffff; --ink: #1f2933; --soft: #5b6773; --grid: #dde1e6; --mark: #fff3cd; }
@media (prefers-color-scheme: dark) {
  :root { --page: #14181d; --card: #1d232a; --ink: #e4e8ec; --soft: #9aa7b4; --grid: #39424d; --mark: #4a3f16; }
}
* { box-sizing: border-box; }
body { margin: 0; background: var(--page); color: var(--ink); font: 16px/1.5 system-ui, sans-serif; }
main { max-width: 1240px; margin: 0 auto; padding: 24px 16px 48px; }
h1 { font-size: 1.7rem; line-height: 1.25; margin: 8px 0 20px; overflow-wrap: anywhere; }
h2 { font-size: 1.25rem; margin: 36px 0 12px; }
h3 { font-size: 1rem; margin: 0 0 8px; overflow-wrap: anywhere; }
.grid { display: grid; grid-template-columns: repeat(auto-fill, minmax(min(100%, 460px), 1fr)); gap: 16px; }
.card { background: var(--card); border: 1px solid var(--grid); border-radius: 10px; padding: 16px; min-width: 0; }
.wide { grid-column: 1 / -1; }
figure { margin: 0; }
svg { display: block; width: 100%; height: auto; stroke-linejoin: round; }
svg text { font-family: system-ui, sans-serif; }
video, img { display: block; max-width: 100%; max-height: 420px; margin: 0 auto; border-radius: 6px; }
figcaption { margin-top: 8px; font-size: 0.9rem; }
small { color: var(--soft); font-size: 0.8rem; }
.name { display: inline-flex; align-items: baseline; margin-right: 16px; }
code { font-size: 0.95em; white-space: nowrap; }
.name i { flex: none; width: 0.75em; height: 0.75em; border-radius: 3px; margin-right: 0.45em; }
.scroll { overflow-x: auto; }
table { border-collapse: collapse; width: 100%; font-size: 0.9rem; font-variant-numeric: tabular-nums; }
th, td { text-align: left; vertical-align: top; padding: 5px 12px 5px 0; border-top: 1px solid var(--grid); }
thead th { border-top: 0; }
tbody th { font-weight: normal; color: var(--soft); }
td { overflow-wrap: anywhere; min-width: 7em; }
.differs th, .differs td { background: var(--mark); color: var(--ink); }
.missing ul { margin: 0 0 8px; padding-left: 1.2em; font-size: 0.9rem; }
.missing p { margin: 0 0 4px; font-size: 0.9rem; }
details summary { cursor: pointer; font-weight: 600; }
details[open] summary { margin-bottom: 8px; }
@media (max-width: 640px) { table { font-size: 0.82rem; } th, td { padding-right: 8px; } .card { padding: 12px; } }
@media print { body { background: none; } .card { break-inside: avoid; } }
"""
)
