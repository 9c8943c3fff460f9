"""Options and arguments that several commands share. Each is defined once, as a type for Typer."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Literal

import typer

from mcne.models.registry import METHODS

METHODS_HELP = f"{', '.join(list(METHODS)[:-1])} or {list(METHODS)[-1]}."
METHODS_EPILOG = "\n\n".join(["Methods:", *(f"{name}: {method.summary}" for name, method in METHODS.items())])


ThemeName = Literal["light", "dark"]


def _checked_figure(path: Path) -> Path:
    """Refuse a file that no figure can be written to, before a long computation."""
    from mcne.plots.style import check_place

    check_place(path)
    return path


# What to read

RunPath = Annotated[Path, typer.Argument(help="A finished run, or saved embeddings.", metavar="RUN")]
DataOption = Annotated[Path, typer.Option("--data", help="A prepared dataset.")]
DataArgument = Annotated[Path, typer.Argument(help="A prepared dataset.", metavar="DATA")]
SplitName = Annotated[
    str, typer.Option("--split", help="A split of the dataset; random-N is made with seed N if it does not exist.")
]

# How to train

Method = Annotated[str, typer.Argument(help=METHODS_HELP, metavar="METHOD")]
ConfigFile = Annotated[Path | None, typer.Option("--config", help="A TOML file of settings.")]
Settings = Annotated[
    list[str] | None, typer.Option("--set", help="One setting: learning_rate=0.01 (repeatable).", metavar="K=V")
]
Seed = Annotated[int, typer.Option("--seed", min=0, help="Seed of the model; the split has its own.")]
Device = Annotated[Literal["auto", "cpu", "cuda"], typer.Option("--device", help="auto: the GPU if there is one.")]
Resume = Annotated[
    bool, typer.Option("--resume", help="Continue an interrupted run in --out from its newest checkpoint.")
]
Jobs = Annotated[
    int | None,
    typer.Option("--jobs", min=1, help="Number of parallel trainings; default: one per core, or 8 per GPU."),
]
TableOnly = Annotated[bool, typer.Option("--table", help="Train nothing; write the table of what is finished so far.")]

# What to write and print

RunOut = Annotated[Path, typer.Option("--out", help="The run's directory; existing files are never replaced.")]
StudyOut = Annotated[Path, typer.Option("--out", help="The study's directory; what is finished there is kept.")]
FigureOut = Annotated[Path, typer.Option("--out", help="A new file: .png, .svg or .pdf.", callback=_checked_figure)]
Theme = Annotated[ThemeName, typer.Option("--theme", help="The background that the figure is drawn for.")]
AsJson = Annotated[bool, typer.Option("--json", help="Print the result as JSON.")]
