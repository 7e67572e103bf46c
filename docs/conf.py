"""Sphinx's configuration: ``make docs`` builds the site."""

import os
import re
from pathlib import Path

from sphinx.application import Sphinx

import sbx_flappy

ROOT = Path(__file__).parents[1]
#: Pages that lie outside of docs/, by their names in the site
ELSEWHERE = {"benchmarks": Path("benchmarks/README.md"), "changelog": Path("CHANGELOG.md"), "index": Path("README.md")}
#: A link of Markdown to a file: its text, the file and the place in it
LINK = re.compile(r"(?<!!)\[([^\]]*)\]\((?!https?:|#)([^)#]+)(#[^)]*)?\)")

project = "sbx_flappy"
version = release = sbx_flappy.__version__
copyright = "the authors of sbx_flappy"

extensions = ["myst_parser", "sphinx.ext.autodoc", "sphinx.ext.viewcode", "sphinx_copybutton"]
exclude_patterns: list[str] = []
myst_heading_anchors = 3

toc_object_entries = False
autodoc_member_order = "bysource"
autodoc_typehints_format = "short"
python_use_unqualified_type_names = True
# Aliases stay as they are written, instead of what they stand for.
autodoc_type_aliases = {"Array": "Array", "PyTree": "PyTree"}

html_theme = "sphinx_rtd_theme"
html_title = f"sbx_flappy {version}"
html_show_sphinx = False
html_static_path = ["_static"]
html_css_files = ["custom.css"]


def resolve_links(text: str, page: Path) -> str:
    """
    Return a page whose links lead to the pages of the site, and which names other files of the repository without a link.

    :param text: Markdown
    :param page: its path in the repository, to which its links are relative
    """
    names = {path: name for name, path in ELSEWHERE.items()}

    def resolve(link: re.Match[str]) -> str:
        label, target, place = link[1], Path(os.path.normpath(page.parent / link[2])), link[3] or ""
        if not (ROOT / target).exists():
            raise FileNotFoundError(f"{page}: {link[2]} is not there.")
        if target in names:
            return f"[{label}](/{names[target]}.md{place})"
        if target.is_relative_to("docs"):
            return f"[{label}](/{target.relative_to('docs')}{place})"
        return label

    return LINK.sub(resolve, text)


def read_page(app: Sphinx, docname: str, source: list[str]) -> None:
    """Read a page, from where it lies in the repository, for Sphinx."""
    page = Path("docs", f"{docname}.md")
    if docname in ELSEWHERE and docname != "index":
        page = ELSEWHERE[docname]
        source[0] = (ROOT / page).read_text()
    source[0] = resolve_links(source[0], page)


def setup(app: Sphinx) -> None:
    """Connect the reader."""
    app.connect("source-read", read_page)
