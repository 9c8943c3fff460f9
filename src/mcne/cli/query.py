"""``mcne evaluate | recommend | similar | explain | export | report``: what a finished run says, without torch."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer
from typer import Argument, Option

import mcne
from mcne.cli.options import AsJson, RunPath, existing_run
from mcne.cli.output import print_json, print_line, print_table
from mcne.errors import UsageError
from mcne.text import human_bytes, percent, with_name

if TYPE_CHECKING:
    from mcne.api.model import Model
    from mcne.embeddings.answers import Ranking
    from mcne.embeddings.artifact import ConditionalEmbeddings
    from mcne.embeddings.explanation import Explanation, Likeness
    from mcne.embeddings.reasons import Reasons

FinishedRun = Annotated[Path, Argument(help="A finished run.", metavar="RUN", callback=existing_run)]
Protocol = Annotated[Literal["sampled", "full", "popular"], Option(help="Items to rank test items against.")]
User = Annotated[str, Option(help="A user's id.")]
Other = Annotated[str, Option(help="Another user's id.")]
BehaviorName = Annotated[str, Option(help="A behavior's name.")]
OnBehavior = Annotated[str | None, Option(help="Default: the whole vector.")]
K = Annotated[int, Option("-k", help="Number of results.")]
Why = Annotated[
    Literal["none", "own", "full"],
    Option(help="Exact reasons: own tells nothing about other people, full also names friends (mcne-plus)."),
]
NewDirectory = Annotated[Path, Option(help="A new directory.")]
Format = Annotated[Literal["parquet", "npz", "word2vec"], Option("--format", help="What to write.")]
Map = Annotated[Path | None, Option("--map", help="The .json file of mcne plot map; default: compute a smaller map.")]
ItsDataset = Annotated[Path | None, Option(help="The dataset of a comparison, or of a run whose dataset was moved.")]


def evaluate(run: FinishedRun, protocol: Protocol = "sampled", as_json: AsJson = False) -> None:
    """Evaluate how well a run ranks the test items of its split."""
    from mcne.data.negatives import COUNT
    from mcne.evaluation.metrics import TITLES
    from mcne.evaluation.protocol import evaluate as measure
    from mcne.training import Run

    opened = Run.open(run)
    dataset, split = opened.data()
    summary = measure(opened.scorer(dataset, split), dataset, split, part="test", protocol=protocol).summary()
    if as_json:
        print_json(summary)
        return
    against = {"sampled": f"{COUNT} random items", "popular": f"{COUNT} items drawn by popularity", "full": "all items"}
    print_line(f"{opened.spec.method} on {dataset.name}, test part of {opened.places['split']}", "bold")
    print_line(f"ranked with {against[protocol]} that the user lacks; in percent")
    cutoffs = [name.partition("@")[2] for name in summary["mean"] if name.startswith("recall@")]
    rows = []
    for name, means in [*summary["behaviors"].items(), ("mean", summary["mean"])]:
        for at, cutoff in enumerate(cutoffs):
            users = f"{means['users']:,}" if "users" in means and not at else ""
            values = [percent(means[f"{metric}@{cutoff}"], 2) for metric in TITLES]
            rows.append([name if not at else "", users, f"@{cutoff}", *values])
    print_table(["", "users", "at", *(title.replace(" ", "\n") for title in TITLES.values())], rows)
    print_line("pooled Recall and hits-ideal NDCG are there to compare with the paper's tables", "dim")


def recommend(
    run: RunPath, user: User, behavior: BehaviorName, k: K = 10, why: Why = "none", as_json: AsJson = False
) -> None:
    """Recommend items of a behavior to a user, without those the user already has."""
    embeddings = mcne.load(run)
    ranking = embeddings.recommend(user, behavior, k=k)
    row = embeddings.users.row(user, what="user")
    label, asked = _asked(embeddings, row)
    reasons = None
    if why != "none":
        reasons = [embeddings.why(user, item, behavior, level=why) for item in ranking.ids]
    title = f"{behavior} for user {label}"
    _show_ranking(title, "item", ranking, asked | {"behavior": behavior}, as_json, reasons)
    if why == "full" and not as_json:
        print_line("these reasons tell about other people: --why own leaves them out", "dim")
    if len(ranking) < k and not as_json:
        space = embeddings.space(behavior)
        seen = len(space.seen(row))
        typer.echo(f"no more: {behavior} has {len(space.items):,} items, user {label} has {seen:,} of them", err=True)


def similar(run: RunPath, user: User, behavior: OnBehavior = None, k: K = 10, as_json: AsJson = False) -> None:
    """List the users most similar to a user on a behavior, ranked by inner product."""
    embeddings = mcne.load(run)
    ranking = embeddings.similar_users(user, behavior, k=k)
    label, asked = _asked(embeddings, embeddings.users.row(user, what="user"))
    title = f"similar to user {label} on {behavior or 'the whole vector'}"
    _show_ranking(title, "user", ranking, asked | {"behavior": behavior}, as_json)
    if len(ranking) < k and not as_json:
        typer.echo(f"no more: the network has {embeddings.n_users:,} users", err=True)


def explain(run: RunPath, user: User, other: Other, as_json: AsJson = False) -> None:
    """Explain why two users are linked or similar: attention, similarity, dimensions, common friends and items."""
    explanation = mcne.load(run).explain(user, other)
    if as_json:
        print_json(explanation.to_json())
    else:
        show_explanation(explanation)


def export(run: RunPath, out: NewDirectory, file_format: Format) -> None:
    """Write vectors, masks and items for other programs."""
    from mcne.api.methods import load_embeddings

    for file in load_embeddings(run).export(out, file_format):
        typer.echo(str(file))


def report(
    path: Annotated[
        Path, Argument(help="A finished run, or a comparison with tables.", metavar="RUN|DIR", callback=existing_run)
    ],
    out: Annotated[Path, Option(help="A new HTML file.")],
    data: ItsDataset = None,
    sweep: Annotated[list[Path] | None, Option(help="Also show this sweep on the same dataset (repeatable).")] = None,
    figures: Annotated[Path | None, Option(help="A new directory for each figure as PNG and SVG.")] = None,
    kept_map: Map = None,
    no_map: Annotated[bool, Option("--no-map", help="Omit the map of users, the slowest part.")] = False,
) -> None:
    """Write one HTML file: data, learning curves, quality with intervals beside other runs, masks, a map, example
    answers, settings and a model card.

    The page works offline, in light or dark mode, and never replaces a file. Finished runs beside RUN with the same
    split are evaluated, too.
    """
    from mcne.files import check_new

    if no_map and kept_map is not None:
        raise UsageError("--map and --no-map exclude each other", "--map", "omit one of them", value=str(kept_map))
    check_new(out)
    if figures is not None:
        check_new(figures, option="--figures")

    from mcne.report.page import save_all  # imports matplotlib, so mistakes above are reported first
    from mcne.report.writing import report_of, write_page

    page = report_of(path, data=data, sweeps=sweep or (), with_map=not no_map, kept_map=kept_map)
    for section in page.sections:
        if section.lacks:
            typer.echo(f"{section.title}: {section.lacks}", err=True)
    if figures is not None:
        save_all(page.drawings, figures)
        typer.echo(f"wrote {len(page.drawings)} figures, each as PNG and SVG, in {figures}")
    typer.echo(f"wrote {out} ({human_bytes(write_page(page, out))})")


def show_explanation(explanation: Explanation) -> None:
    """An explanation for a person, in tables that wrap."""
    print_line(f"users {' and '.join(explanation.users)} {explanation.relation}", "bold")
    print_line(f"common friends: {explanation.common_friends}")
    if messages := explanation.messages:
        rows = []
        for message in messages:
            for layer, weights in enumerate(message.attention, start=1):
                rows.append([message.path if layer == 1 else "", str(layer), *(f"{weight:.3f}" for weight in weights)])
        print_line("\nAttention: what counts in the messages along the link", "italic")
        print_table(["", "layer", *explanation.attention_on], rows)
        shares = (f"{each.receiver} hears {each.sender} as one of {round(1 / each.share):,}" for each in messages)
        print_line("; ".join(shares), "dim")
    if explanation.remark:
        print_line(explanation.remark)
    rows = [[on.behavior, *_likeness(on.likeness), str(on.common_items)] for on in explanation.behaviors]
    rows.append(["whole vector", *_likeness(explanation.whole), ""])
    made_of = explanation.made_of
    print_line(f"\nSimilarity, the {made_of} that make it, and items that both have", "italic")
    print_table(["", "product", "cosine", made_of, "common items"], rows, left=(made_of, "common items"))


def _show_ranking(
    title: str,
    kind: str,
    ranking: Ranking,
    question: dict[str, Any],
    as_json: bool,
    reasons: Sequence[Reasons] | None = None,
) -> None:
    if as_json:
        names = ranking.names or [""] * len(ranking)
        answers: list[dict[str, Any]] = [
            {f"{kind}_id": raw} | ({"name": name} if name else {}) | {"score": score}
            for (raw, score), name in zip(ranking, names, strict=True)
        ]
        for answer, each in zip(answers, reasons or (), strict=False):
            answer["reasons"] = each.to_json()["reasons"]
        print_json(question | {f"{kind}s": answers})
        return
    print_line(title, "bold")
    rows = [[str(place), str(raw), f"{score:.4f}"] for place, (raw, score) in enumerate(ranking, start=1)]
    heads = ["", kind, "score"]
    if ranking.names is not None and any(ranking.names):
        rows = [[place, raw, name, score] for (place, raw, score), name in zip(rows, ranking.names, strict=True)]
        heads = ["", kind, "name", "score"]
    if reasons is not None:
        rows = [[*row, each.sentence()] for row, each in zip(rows, reasons, strict=True)]
        heads.append("because of")
    if rows:
        print_table(heads, rows, left=(kind, "name", "because of"))


def _asked(answering: Model | ConditionalEmbeddings, row: int) -> tuple[str, dict[str, Any]]:
    """A user for people, and as JSON."""
    from mcne.data.ids import name_of

    user_id = answering.users[row]
    name = name_of(answering.user_names, row)
    return with_name(user_id, name), {"user_id": user_id} | ({"user_name": name} if name else {})


def _likeness(likeness: Likeness) -> list[str]:
    return [f"{likeness.inner_product:.3g}", f"{likeness.cosine:.3f}", likeness.strongest("+.1g", 3)]
