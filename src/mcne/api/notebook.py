"""Progress of a training in a notebook."""

from __future__ import annotations

import sys
from typing import Any

from mcne.text import Html, element, paragraph
from mcne.training.journal import PlainReporter, Record


def is_notebook() -> bool:
    """Whether this process shows its output in a notebook."""
    ipython = sys.modules.get("IPython")
    shell = None if ipython is None else ipython.get_ipython()
    return type(shell).__name__ == "ZMQInteractiveShell"


class NotebookReporter(PlainReporter):
    """A progress bar with the latest line of terminal output below it."""

    def __init__(self, title: str, *, epochs: int) -> None:
        from IPython.display import display

        super().__init__(self._show, epochs=epochs)
        self._title = title
        self._done = 0
        self._line = ""
        self._handle: Any = display(self, display_id=True)

    def epoch(self, record: Record, *, seconds: float, examples: int) -> None:
        """Move the bar."""
        self._done = record["epoch"]
        super().epoch(record, seconds=seconds, examples=examples)

    def _show(self, line: str) -> None:
        self._line = line
        self._handle.update(self)

    def _repr_html_(self) -> Html:
        bar = element("progress", value=str(self._done), max=str(self._epochs))
        return element("div", element("strong", self._title), " ", bar, paragraph(self._line))
