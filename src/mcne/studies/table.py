"""A table of text, as Markdown and as HTML, and pages of them."""

from __future__ import annotations

import html
from collections.abc import Sequence
from dataclasses import dataclass

STYLE = """
:root { color-scheme: light dark; --line: #8884; --soft: #8882; }
body { font: 15px/1.5 system-ui, sans-serif; margin: 2rem auto; max-width: 92rem; padding: 0 1rem; }
.wide { overflow-x: auto; } table { border-collapse: collapse; font-variant-numeric: tabular-nums; }
th, td { padding: .25rem .6rem; border-bottom: 1px solid var(--line); text-align: right; white-space: nowrap; }
th:first-child, td:first-child { text-align: left; position: sticky; left: 0; background: Canvas; }
td.best { font-weight: 700; background: var(--soft); }
"""


@dataclass(frozen=True)
class Table:
    """A table of text with a title and a note; ``best`` marks cells by row and column."""

    title: str
    header: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    note: str = ""
    best: frozenset[tuple[int, int]] = frozenset()

    def markdown(self) -> str:
        """As Markdown, the best cells bold."""
        lines = [f"### {self.title}", "", *([self.note, ""] if self.note else [])]
        lines += ["| " + " | ".join(self.header) + " |", "|" + "---|" * len(self.header)]
        for at, row in enumerate(self.rows):
            texts = [" ".join(cell.split()).replace("|", "\\|") for cell in row]  # a cell is one line, without bars
            cells = (f"**{cell}**" if (at, column) in self.best else cell for column, cell in enumerate(texts))
            lines.append("| " + " | ".join(cells) + " |")
        return "\n".join(lines)

    def html(self) -> str:
        """As HTML, the best cells marked."""
        head = "".join(f"<th>{html.escape(cell)}</th>" for cell in self.header)
        body = "".join(f"<tr>{''.join(self._cell(at, row))}</tr>" for at, row in enumerate(self.rows))
        note = f"<p>{html.escape(self.note)}</p>" if self.note else ""
        table = f'<div class="wide"><table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table></div>'
        return f"<section><h2>{html.escape(self.title)}</h2>{note}{table}</section>"

    def _cell(self, at: int, row: tuple[str, ...]) -> list[str]:
        marks = [' class="best"' if (at, column) in self.best else "" for column in range(len(row))]
        return [f"<td{mark}>{html.escape(cell)}</td>" for mark, cell in zip(marks, row, strict=True)]


def markdown_page(title: str, about: Sequence[str], tables: Sequence[Table]) -> str:
    """A page as Markdown."""
    return "\n\n".join([f"# {title}", *about, *(table.markdown() for table in tables)]) + "\n"


def html_page(title: str, about: Sequence[str], tables: Sequence[Table]) -> str:
    """A page as one HTML file that needs no other."""
    sections = "".join(f"<p>{html.escape(line)}</p>" for line in about) + "".join(table.html() for table in tables)
    return (
        f'<!DOCTYPE html><html lang="en"><head><meta charset="utf-8"><title>{html.escape(title)}</title>'
        f'<meta name="viewport" content="width=device-width"><style>{STYLE}</style></head>'
        f"<body><h1>{html.escape(title)}</h1>{sections}</body></html>\n"
    )
