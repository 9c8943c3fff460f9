"""Mistakes that a person makes at the command line and in Python, and where they are made."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pyarrow as pa
from tests.small_training import saved, sixty_users, train_small

import mcne

FILES: Mapping[str, str] = {
    "good.csv": "user_id,item_id,behavior\nann,dune,Books\nbob,dune,Books\nann,lisbon,Travel\n",
    "links.csv": "source_id,target_id\nann,bob\n",
    "semicolons.csv": "user_id;item_id;behavior\nann;dune;Books\nbob;dune;Books\n",
    "no-behavior.csv": "user_id,item_id\nann,dune\nbob,dune\n",
    "other-names.csv": "user,movie,behavior\nann,dune,Films\nbob,dune,Films\n",
    "header-only.csv": "user_id,item_id,behavior\n",
    "empty.csv": "",
    "no-user.csv": "user_id,item_id,behavior\nann,dune,Books\n,dune,Books\n",
    "short-row.csv": "user_id,item_id,behavior\nann,dune,Books\nbob,dune\n",
    "latin1.csv": "user_id,item_id,behavior\nann,caf\udce9,Books\n",
    "mixed-times.csv": "user_id,item_id,behavior,timestamp\nann,dune,Books,1620259200\nbob,dune,Books,2021-05-06\n",
    "no-header.dat": "1::1193::5::978300760\n1::661::3::978302109\n",
    "ratings.csv": "user_id,item_id,behavior,rating\nann,dune,Books,5\nbob,dune,Books,0\n",
    "items-twice.csv": "item_id,name\ndune,Dune\ndune,Dune again\n",
    "no-date.csv": "user_id,item_id,behavior,timestamp\nann,dune,Books,2021-05-06\nbob,dune,Books,yesterday\n",
    "weights.csv": "source_id,target_id,weight\nann,bob,strong\n",
    "negative.csv": "source_id,target_id,weight\nann,bob,-1\n",
    "users-twice.csv": "user_id,age\nann,30\nann,31\n",
    "notes.pdf": "%PDF",
    "text-ids.csv": "source_id,target_id\nnew,3\n",
    "history.csv": "user_id,item_id,behavior\n1000,999,read\n",
    "history-behavior.csv": "user_id,item_id,behavior\n1000,3,raed\n",
    "strange-links.csv": "source_id,target_id\n1000,999\n",
    "known-links.csv": "source_id,target_id\n3,4\n",
    "known-users.csv": "source_id,target_id\n3,4\n5,4\n1000,4\n",
    "spaces.csv": "user_id item_id behavior,year\nann dune Books,1965\n",
    "empty-rating.csv": "user_id,item_id,behavior,rating\nann,dune,Books,5\nbob,dune,Books,\n",
    "bad.toml": "epochs = \n",
    "misspelled.toml": "lerning_rate = 0.1\n",
    "setting.toml": "reference = 'bpr'\n[methods.bpr]\n[methods.bpr.search]\nlr = [0.1, 0.2]\n",
    "reference.toml": "[methods.bpr]\n",
    "key.toml": "repetition = 2\nreference = 'bpr'\n[methods.bpr]\n",
    "no-methods.toml": "reference = 'bpr'\n",
}

COMMANDS: Mapping[str, str] = {
    "a misspelled command": "mcne trian mcne --data mydata --out run",
    "an unknown option": "mcne train bpr --data mydata --out run --epoch 5",
    "an option without its value": "mcne train bpr --data mydata --out",
    "a missing option": "mcne train bpr --data mydata",
    "a misspelled method": "mcne train mcen --data mydata --out run",
    "a misspelled method in a list": "mcne compare --methods popularity,bprr --data mydata --out comparison",
    "a method twice in a list": "mcne compare --methods bpr,bpr --data mydata --out comparison",
    "a misspelled setting": "mcne train bpr --data mydata --out run --set lerning_rate=0.1",
    "a short name of a setting": "mcne train bpr --data mydata --out run --set lr=0.1",
    "a setting of another type": "mcne train bpr --data mydata --out run --set epochs=many",
    "a setting out of range": "mcne train bpr --data mydata --out run --set epochs=0",
    "an option that is a setting of the method": "mcne train bpr --data mydata --out run --lr 0.1",
    "a setting without a value": "mcne train bpr --data mydata --out run --set epochs",
    "widths that do not fit the samples": "mcne train mcne --data mydata --out run --set widths=[8,8]",
    "a settings file that does not exist": "mcne train bpr --data mydata --out run --config nowhere.toml",
    "a settings file that is not TOML": "mcne train bpr --data mydata --out run --config bad.toml",
    "a misspelled setting in a file": "mcne train bpr --data mydata --out run --config misspelled.toml",
    "a dataset that does not exist": "mcne train bpr --data nowhere --out run",
    "a CSV file in place of a dataset": "mcne train bpr --data good.csv --out run",
    "a run in place of a dataset": "mcne data describe runs/bpr",
    "embeddings in place of a dataset": "mcne data describe runs/bpr/embeddings",
    "a directory of something else in place of a dataset": "mcne data describe runs",
    "a split that does not exist": "mcne train bpr --data mydata --out run --split rnadom-0",
    "a run that exists": "mcne train bpr --data mydata --out runs/bpr",
    "a method that needs attributes": "mcne train mcne-attributes --data mydata --out run",
    "a GPU where there is none": "mcne train bpr --data mydata --out run --device cuda",
    "a negative seed": "mcne train bpr --data mydata --out run --seed -1",
    "a seed that is no number": "mcne train bpr --data mydata --out run --seed one",
    "one argument too many": "mcne train bpr mcne --data mydata --out run",
    "a missing argument": "mcne train",
    "a value for an option without one": "mcne recommend runs/bpr --user 3 --behavior read --json=5",
    "a run that does not exist": "mcne recommend nowhere --user 3 --behavior read",
    "a dataset in place of a run": "mcne recommend mydata --user 3 --behavior read",
    "a dataset in place of a finished run": "mcne evaluate mydata",
    "a file in place of a run": "mcne similar good.csv --user 3",
    "an unknown user": "mcne recommend runs/bpr --user 33x --behavior read",
    "an unknown user with a similar id": "mcne similar runs/bpr --user 599",
    "an unknown behavior": "mcne recommend runs/bpr --user 3 --behavior raed",
    "no recommendations at all": "mcne recommend runs/bpr --user 3 --behavior read -k 0",
    "similar users of a method without vectors": "mcne similar runs/ease --user 3",
    "the vectors of a method without any": "mcne export runs/ease --format npz --out vectors",
    "an explanation of one user": "mcne explain runs/bpr --user 3 --other 3",
    "an unknown protocol": "mcne evaluate runs/bpr --protocol fulll",
    "an unknown export format": "mcne export runs/bpr --format csv --out vectors",
    "a report that exists": "mcne report runs/bpr --out good.csv",
    "a transfer to a method without masks": "mcne transfer runs/bpr --data mydata --behavior read --out run",
    "a transfer of a known behavior": "mcne transfer runs/mcne --data mydata --behavior read --out run",
    "new users for a method that takes none": "mcne embed-users runs/bpr --links strange-links.csv --out run",
    "an unknown item in a history": "mcne embed-users runs/mcne --history history.csv --out run",
    "an unknown behavior in a history": "mcne embed-users runs/mcne --history history-behavior.csv --out run",
    "an unknown friend of a new user": "mcne embed-users runs/mcne --links strange-links.csv --out run",
    "a new user who is known": "mcne embed-users runs/mcne --links known-links.csv --out run",
    "text ids where the network has integers": "mcne embed-users runs/mcne --links text-ids.csv --out run",
    "no tables for new users": "mcne embed-users runs/mcne --out run",
    "several new users who are known": "mcne embed-users runs/mcne --links known-users.csv --out run",
    "an unknown setting of a transfer": "mcne transfer runs/mcne --data mydata --behavior read --out run --set lr=3",
    "trials of a method that takes no new users": "mcne compare-new-users --data mydata --method ease --out study",
    "a plan that does not exist": "mcne compare nowhere.toml --data mydata --out comparison",
    "a plan with an unknown setting": "mcne compare setting.toml --data mydata --out comparison",
    "a plan with an unknown reference": "mcne compare reference.toml --data mydata --out comparison",
    "a plan with an unknown key": "mcne compare key.toml --data mydata --out comparison",
    "a plan without methods": "mcne compare no-methods.toml --data mydata --out comparison",
    "neither a plan nor methods": "mcne compare --data mydata --out comparison",
    "a directory of something else for a comparison": "mcne compare --methods bpr --data mydata --out runs",
    "an unknown setting to sweep": "mcne sweep --data mydata --set final_dims=8,16 --out sweep",
    "a sweep without settings": "mcne sweep bpr --data mydata --out sweep",
    "nothing to sweep": "mcne sweep --data mydata --set final_width=8 --out sweep",
    "links of a method without vectors": "mcne structure --data mydata --methods ease --out structure",
    "an unknown benchmark": "mcne bench nothing",
    "an unknown user of a figure": "mcne plot attention runs/mcne --user nobody --out user.png",
    "a sweep to draw that does not exist": "mcne plot sweep nowhere --out sweep.png",
    "masks of a method without any": "mcne plot masks runs/bpr --out masks.png",
    "a figure of an unknown format": "mcne plot masks runs/mcne --out masks.gif",
    "a report of a directory of something else": "mcne report runs --out page.html",
    "a file that does not exist": "mcne data prepare files --interactions nowhere.csv --out new",
    "a directory in place of a file": "mcne data prepare files --interactions runs --out new",
    "a file of an unknown type": "mcne data prepare files --interactions notes.pdf --out new",
    "semicolons with a comma as separator": "mcne data prepare files --interactions semicolons.csv --sep , --out new",
    "a separator that is not recognized": "mcne data prepare files --interactions spaces.csv --out new",
    "no behavior column": "mcne data prepare files --interactions no-behavior.csv --out new",
    "columns of other names": "mcne data prepare files --interactions other-names.csv --out new",
    "a mapping to a column that does not exist": (
        "mcne data prepare files --interactions other-names.csv --column user_id=usr --out new"
    ),
    "a mapping that no table has": ("mcne data prepare files --interactions good.csv --column behavior=kind --out new"),
    "an unknown standard column": (
        "mcne data prepare files --interactions other-names.csv --column users=user --out new"
    ),
    "a header and no rows": "mcne data prepare files --interactions header-only.csv --out new",
    "an empty file": "mcne data prepare files --interactions empty.csv --out new",
    "a missing user": "mcne data prepare files --interactions no-user.csv --out new",
    "a row that is too short": "mcne data prepare files --interactions short-row.csv --out new",
    "a file that is not UTF-8": "mcne data prepare files --interactions latin1.csv --out new",
    "a date that is none": "mcne data prepare files --interactions no-date.csv --out new",
    "dates among numbers": "mcne data prepare files --interactions mixed-times.csv --out new",
    "no header": "mcne data prepare files --interactions no-header.dat --out new",
    "a rating of 0": "mcne data prepare files --interactions ratings.csv --out new",
    "an empty rating": "mcne data prepare files --interactions empty-rating.csv --out new",
    "a threshold that is no number": (
        "mcne data prepare files --interactions ratings.csv --positive-from four --out new"
    ),
    "a threshold without ratings": "mcne data prepare files --interactions good.csv --positive-from 4 --out new",
    "a threshold that nobody reaches": "mcne data prepare files --interactions ratings.csv --positive-from 9 --out new",
    "an item listed twice": "mcne data prepare files --interactions good.csv --items items-twice.csv --out new",
    "a weight that is no number": "mcne data prepare files --interactions good.csv --links weights.csv --out new",
    "negative weight": "mcne data prepare files --interactions good.csv --links negative.csv --out new",
    "a user listed twice": "mcne data prepare files --interactions good.csv --users users-twice.csv --out new",
    "an unknown behavior to keep": "mcne data prepare files --interactions good.csv --behaviors Book --out new",
    "nobody left": "mcne data prepare files --interactions good.csv --min-records 9 --out new",
    "a place that is taken": "mcne data prepare files --interactions good.csv --out runs",
    "Ciao without its files": "mcne data prepare ciao --raw runs --out ciao",
    "an unknown category of Ciao": "mcne data prepare ciao --raw runs --behaviors Bookz --out ciao",
    "invalid ratios": "mcne data split mydata --name other --ratios 70,30",
    "a temporal split without times": "mcne data split mydata --name temporal --temporal",
    "a split by the last record with ratios": "mcne data split mydata --last --ratios 70,10,20",
    "too few users for a synthetic network": "mcne data synthetic --users 10 --out new",
}

PYTHON: Mapping[str, tuple[str, Callable[[dict[str, Any]], object]]] = {
    "a misspelled argument": ("mcne.BPR(lerning_rate=0.1)", lambda _: mcne.BPR(lerning_rate=0.1)),  # type: ignore[call-arg] # wrong on purpose
    "a value of another type": (
        'mcne.BPR(epochs="many").fit(data)',
        lambda known: mcne.BPR(epochs="many").fit(known["data"]),  # type: ignore[arg-type] # wrong on purpose
    ),
    "an unknown name of a method": ('mcne.fit("bprr", data)', lambda known: mcne.fit("bprr", known["data"])),
    "an unknown name in a list of methods": (
        'mcne.compare(data, ["popularity", "bprr"])',
        lambda known: mcne.compare(known["data"], ["popularity", "bprr"]),
    ),
    "a question before training": ('mcne.BPR().recommend(3, "read")', lambda _: mcne.BPR().recommend(3, "read")),
    "a frame in place of a dataset": (
        "mcne.BPR().fit(frame)",
        lambda known: mcne.BPR().fit(known["frame"]),
    ),
    "the split of other data": (
        "mcne.BPR().fit(data, other_split)",
        lambda known: mcne.BPR().fit(known["data"], known["other_split"]),
    ),
    "an unknown user in Python": (
        'model.recommend("ann", "read")',
        lambda known: known["model"].recommend("ann", "read"),
    ),
    "a misspelled user": (
        'named_model.recommend("user-o7", "Books")',
        lambda known: known["named_model"].recommend("user-o7", "Books"),
    ),
    "no behavior where there are several": ("model.recommend(3)", lambda known: known["model"].recommend(3)),
    "an unknown item to leave out": (
        'model.recommend(3, "read", exclude=[99])',
        lambda known: known["model"].recommend(3, "read", exclude=[99]),
    ),
    "a path without a run": ('mcne.load("nowhere")', lambda _: mcne.load("nowhere")),
    "a directory without a run": ('mcne.load("runs")', lambda _: mcne.load("runs")),
    "a frame without a column": (
        "mcne.datasets.from_frames(frame)",
        lambda known: mcne.datasets.from_frames(known["frame"]),
    ),
    "a comparison of nothing": ("mcne.compare(data, [])", lambda known: mcne.compare(known["data"], [])),
}


def prepare(place: Path) -> dict[str, Any]:
    """Put the files, a dataset and three runs into a directory; what Python's mistakes are made with."""
    for name, text in FILES.items():
        (place / name).write_bytes(text.encode("utf-8", "surrogateescape"))
    data = sixty_users()
    split = saved(data, place / "mydata")
    for method in ("bpr", "ease", "mcne"):
        train_small(method, data, place / "runs" / method, split=split, dataset_path="../../mydata")
    other = mcne.split(mcne.datasets.synthetic(users=500))
    frame = pa.table({"user_id": [1, 2], "item_id": [1, 1]})
    named_users = pa.table({"user_id": [f"user-{number:02}" for number in range(20)], "item_id": ["dune"] * 20})
    named = mcne.datasets.from_frames(named_users, single_behavior="Books")
    named_model = mcne.Popularity().fit(named, progress=False)
    model = mcne.load(place / "runs" / "bpr")
    return {"data": data, "frame": frame, "other_split": other, "model": model, "named_model": named_model}
