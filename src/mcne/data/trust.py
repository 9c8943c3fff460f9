"""Ciao and Epinions, the paper's two datasets, from their ``.mat`` files to the paper's Table 1.

The files are those of the trust study of Jiliang Tang, whose page asks to cite mTrust (WSDM 2012) and eTrust
(KDD 2012). They are never part of this project: bring your own copy.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mcne.data.assemble import Rules, UserFilter
from mcne.data.dataset import SocialDataset
from mcne.data.matfile import read_matrix
from mcne.data.raw import Raw, RawInteractions, RawLinks
from mcne.errors import DataError, MissingError, UnknownError, UsageError
from mcne.files import sha256_of_file
from mcne.text import counted

PAPER_FILTER = UserFilter(min_links=2, min_records=2, drop_isolated=True)
USER, ITEM, CATEGORY, RATING, TIME = 0, 1, 2, 3, 5
LARGEST = 2**53  # that a float holds exactly
MOST_STARS = 5


@dataclass(frozen=True)
class TrustStudy:
    """What is known of one of the two: its files, its categories, the paper's choice among them."""

    name: str
    categories: tuple[str, ...]  # category 1 first
    paper_behaviors: tuple[str, ...]
    sha256: Mapping[str, str]  # file -> hash of the known copy
    listed_twice: int | None = None  # a user of the ratings, again under the next id; the network counts on without it


CIAO = TrustStudy(
    name="ciao",
    categories=(
        "DVDs", "Books", "Beauty", "Music", "Travel", "Food & Drink", "Sports & Outdoors", "Entertainment",
        "Health", "Ciao Café", "Shopping", "Internet", "Software", "House & Garden", "Education & Careers", "Cars",
        "Household Appliances", "Telecommunications", "Electronics", "Musical Instruments & Equipment",
        "Computers", "Cameras", "Family", "Games", "Fashion", "Adult Products", "Office Equipment", "Finance",
    ),
    paper_behaviors=("Beauty", "Books", "Travel"),
    sha256={
        "rating.mat": "aa793568686285a93286ba9e56954fcce347370ad2e58c785760362ab12d2c2c",
        "rating_with_timestamp.mat": "488e9aa5f60e6a52a972795b6402f922fc0d9d273152f4d124a5c5bdefb86a71",
        "trustnetwork.mat": "0a8963ed22e6b534ce8d14e478f54ce0af6f5a3440a67ed5a35e62486580ce3a",
    },
)  # fmt: skip

EPINIONS = TrustStudy(
    name="epinions",
    categories=(
        "Online Stores & Services", "Games", "Movies", "Books", "Music", "Personal Finance", "Electronics",
        "Home and Garden", "Computer Hardware", "Hotels & Travel", "Restaurants & Gourmet",
        "Magazines & Newspapers", "Software", "Media", "Cars & Motorsports", "Education", "Sports & Outdoors",
        "Wellness & Beauty", "Kids & Family", "Musical Instruments", "Business & Technology", "Pets",
        "Computers & Internet", "Web Sites & Internet Services", "Gifts", "Preview Categories", "Photo & Optics",
    ),
    paper_behaviors=("Games", "Electronics", "Hotels & Travel"),
    sha256={
        "rating.mat": "4fe1dd12896dbfc3d2b3e696c749947382d9725add4545cb6c44ee11c8e22159",
        "rating_with_timestamp.mat": "a92e055b71b2e6ca70875979af79b90ef23360f4573204cade9a381ac1958509",
        "trustnetwork.mat": "9cd648ab98c2e02799bfed0ae186dbc8736e97178d18bf471cc168770f39cf0a",
    },
    listed_twice=2808,  # 2809 has the same 17 rows; docs/data.md shows that later ids of the network are off by one
)  # fmt: skip


def prepare(
    study: TrustStudy,
    raw: Path,
    *,
    behaviors: Sequence[str] | None = None,
    extra_behaviors: Sequence[str] = (),
    timestamps: bool = False,
    user_filter: UserFilter = PAPER_FILTER,
    unverified: bool = False,
    aligned: bool = False,
    positive_from: float | None = None,
) -> SocialDataset:
    """The dataset of the chosen categories (by name or number), filtered as the paper filtered it.

    Ratings count as behavior whatever their value, unless ``positive_from`` says from which on they do, which keeps
    them as weights and the pairs rated below as known. A rated item of two categories is two items. Links to
    oneself, which only Epinions has, are kept and count as links, as the paper's numbers show. They also show that
    it took the ids of both files as they are, which on Epinions mean different users; ``aligned`` corrects those of
    the trust network.
    """
    if aligned and study.listed_twice is None:
        raise UsageError(
            f"users of {study.name} have the same ids in both files, so there is nothing to align",
            "aligned",
            "omit it",
            value=aligned,
        )
    main = [_category(study, name) for name in behaviors or study.paper_behaviors]
    extra = [_category(study, name) for name in extra_behaviors]
    if len({*main, *extra}) < len(main) + len(extra):
        raise UsageError(
            f"a behavior is named twice: {', '.join([*(behaviors or []), *extra_behaviors])}",
            "behaviors",
            "name each behavior once",
        )
    ratings_file = "rating_with_timestamp.mat" if timestamps else "rating.mat"
    needed = (ratings_file, "trustnetwork.mat")
    hashes = {file: _checked(study, raw / file, needed, unverified) for file in needed}
    rating = read_matrix(raw / ratings_file, "rating")
    trust = read_matrix(raw / "trustnetwork.mat", "trustnetwork")
    highest = {USER: LARGEST, ITEM: LARGEST, CATEGORY: len(study.categories)}
    highest |= {TIME: LARGEST} if timestamps else {}
    highest |= {} if positive_from is None else {RATING: MOST_STARS}
    _check_columns(raw / ratings_file, rating, highest)
    _check_columns(raw / "trustnetwork.mat", trust, {0: LARGEST, 1: LARGEST})
    user, item, category = (rating[:, column].astype(np.int64, copy=False) for column in (USER, ITEM, CATEGORY))
    times = rating[:, TIME].astype(np.int64) if timestamps else None
    stars = None if positive_from is None else rating[:, RATING].astype(np.float32)
    interactions = RawInteractions(user, item, category, dict(enumerate(study.categories, start=1)), times, stars)
    source, target = (trust[:, end].astype(np.int64, copy=False) for end in (0, 1))
    notes = []
    twice = _listed_twice(study, rating)
    if aligned and twice is None:
        raise DataError(
            f"user {study.listed_twice} is not listed twice, which would put later ids of trustnetwork.mat off by one",
            raw / ratings_file,
            "omit --aligned",
            value=study.listed_twice,
        )
    if twice is not None and aligned:
        source, target = (ids + (ids > twice) for ids in (source, target))
    elif twice is not None:
        notes.append(
            f"{ratings_file} lists user {twice} a second time, as {twice + 1}, and trustnetwork.mat does not: its "
            "later ids, used as they are as in the paper, mean other users; "
            "--aligned (in Python aligned=True) corrects them"
        )
    links = RawLinks(
        source, target, None, lambda row, column: f"{raw / 'trustnetwork.mat'}, row {row + 1}, column {column!r}"
    )
    provenance = {"sources": hashes} | ({"listed_twice": twice} if aligned else {})
    raw_data = Raw(interactions, links, None, main, extra, provenance, notes, positive_from=positive_from)
    name = f"{study.name}-aligned" if aligned else study.name
    return SocialDataset.from_raw(raw_data, Rules(user_filter, self_links="keep"), name=name)


def _listed_twice(study: TrustStudy, rating: NDArray[Any]) -> int | None:
    """The user that these ratings list a second time, under the next id, if they do."""
    if study.listed_twice is None:
        return None
    both = (rating[rating[:, USER] == study.listed_twice + k, ITEM : CATEGORY + 1] for k in (0, 1))
    rows, again = (np.unique(each, axis=0) for each in both)
    return study.listed_twice if len(rows) and np.array_equal(rows, again) else None


def _category(study: TrustStudy, name: str) -> int:
    """The number of a category given by name or number."""
    folded = [category.casefold() for category in study.categories]
    if name.strip().casefold() in folded:
        return folded.index(name.strip().casefold()) + 1
    if name.strip().isdecimal() and 1 <= int(name) <= len(folded):
        return int(name)
    raise UnknownError.of(f"category of {study.name}", name, study.categories)


def _checked(study: TrustStudy, path: Path, needed: Sequence[str], unverified: bool) -> str:
    """The sha256 of a file, which must be the known one unless ``unverified``."""
    if not path.is_file():
        raise MissingError(
            "no such file",
            path,
            f"put {' and '.join(needed)} of {study.name} into one directory",
            value=str(path),
            allowed=needed,
        )
    actual = sha256_of_file(path)
    known = study.sha256[path.name]
    if actual != known and not unverified:
        raise DataError(
            f"its sha256 is {actual[:16]}…, and that of the known copy is {known[:16]}… (truncated or changed?)",
            path,
            "download it again, or read it anyway with --unverified",
            value=actual,
            allowed=[known],
        )
    return actual


def _check_columns(path: Path, table: NDArray[Any], highest: Mapping[int, int]) -> None:
    """Check that every column in use holds whole numbers from 1, of ratings 0, to its highest."""
    n_columns = max(highest) + 1
    if table.shape[1] < n_columns or not len(table):
        raise DataError(
            f"has {table.shape[0]} rows of {table.shape[1]} columns, and {n_columns} columns are needed",
            path,
            "download it again",
            value=table.shape,
        )
    for column, limit in highest.items():
        values = table[:, column]
        least = 0 if column == RATING else 1
        if values.dtype.kind != "f" and values.min() >= least and values.max() <= limit:
            continue
        bad = ~((values >= least) & (values <= limit) & (values == np.floor(values)))
        if bad.any():
            row = int(np.flatnonzero(bad)[0])
            raise DataError(
                f"{values[row]!s} is not a whole number from {least}{f' to {limit}' if limit < LARGEST else ''} "
                f"({counted(int(np.count_nonzero(bad)), 'row')})",
                f"{path}, row {row + 1}, column {column + 1}",
                "download the file again",
                value=values[row].item(),
            )
