"""Their side, run in their environment: ``python in_pecanpy.py DIRECTORY WHAT SETTINGS``.

Reads ``network.npz`` (``indptr``, ``indices``, ``data``) in the directory and writes arrays there. ``WHAT`` is one of
the functions below that :data:`ANSWERS` names, ``SETTINGS`` its arguments as JSON.
"""

# mypy: ignore-errors
from __future__ import annotations

import json
import sys
from pathlib import Path

import networkx as nx
import numpy as np
from gensim.models import Word2Vec
from node2vec import Node2Vec
from pecanpy import pecanpy

DIRECTORY = Path(sys.argv[1])


def network(kind, **settings):
    made = getattr(pecanpy, kind)(workers=1, **settings)
    made.read_npz(str(DIRECTORY / "network.npz"), weighted=True, implicit_ids=True)
    return made


def save(**arrays):
    for name, array in arrays.items():
        np.save(DIRECTORY / f"{name}.npy", array)


def walks(*, kind, cases, times, length, seed):
    """Walks of ``length`` nodes, which pecanpy counts as ``length - 1``, for every p and q, [cases, walks, length]."""
    made = [network(kind, p=p, q=q, random_state=seed).simulate_walks(times, length - 1) for p, q in cases]
    save(walks=np.array(made, dtype=np.int32))


def probabilities(*, cases):
    """Of a step from t over v to x by node2vec and by pecanpy, for every p and q, [2, cases, t, v, x]."""
    indptr, indices, data = (np.load(DIRECTORY / "network.npz")[name] for name in ("indptr", "indices", "data"))
    n = len(indptr) - 1
    sources = np.repeat(np.arange(n), np.diff(indptr))
    graph = nx.Graph()
    graph.add_weighted_edges_from(zip(sources.tolist(), indices.tolist(), data.tolist(), strict=True))
    table = np.zeros((2, len(cases), n, n, n))
    for case, (p, q) in enumerate(cases):
        first = Node2Vec(graph, walk_length=1, num_walks=1, p=p, q=q, quiet=True).d_graph
        second = network("SparseOTF", p=p, q=q)
        arrays = (second.data, second.indices, second.indptr)
        for t, v in zip(sources.tolist(), indices.tolist(), strict=True):
            table[0, case, t, v, first[v]["neighbors"]] = first[v]["probabilities"][t]
            near = indices[indptr[v] : indptr[v + 1]]
            table[1, case, t, v, near] = second.get_normalized_probs(*arrays, p, q, np.uint32(v), np.uint32(t), None)
    save(probabilities=table)


def skip_gram(sentences, *, width, window, epochs, learning_rate, negatives, seed):
    """gensim's vectors and contexts of all nodes; 0 of those that are in no sentence.

    All pairs of the window count, and frequent nodes as often as they occur: gensim's own defaults shrink windows at
    random and leave out some of the occurrences of frequent words.
    """
    model = Word2Vec(
        sentences,
        vector_size=width,
        window=window,
        sg=1,
        negative=negatives,
        ns_exponent=0.75,
        epochs=epochs,
        alpha=learning_rate,
        min_count=0,
        sample=0,
        shrink_windows=False,
        workers=1,
        seed=seed,
    )
    n = len(np.load(DIRECTORY / "network.npz")["indptr"]) - 1
    vectors, contexts = np.zeros((2, n, width), dtype=np.float32)
    rows = np.array(model.wv.index_to_key, dtype=np.int64)
    vectors[rows], contexts[rows] = model.wv.vectors, model.syn1neg
    save(vectors=vectors, contexts=contexts)


def node2vec(*, p, q, times, length, seed, **settings):
    """Vectors by ``times`` walks from every node, and as many walks as there are nodes that they were not taught by."""
    made = network("SparseOTF", p=p, q=q, random_state=seed)
    sentences = made.simulate_walks(times + 1, length - 1)
    skip_gram([walk for walk in sentences[made.num_nodes :] if len(walk) > 1], seed=seed, **settings)
    save(walks=np.array([walk for walk in sentences[: made.num_nodes] if len(walk) > 1], dtype=np.int32))


def line(*, seed, **settings):
    """Walks of two nodes, every link once and in random order, of which skip-gram learns both directions."""
    saved = np.load(DIRECTORY / "network.npz")
    sources = np.repeat(np.arange(len(saved["indptr"]) - 1), np.diff(saved["indptr"]))
    links = np.stack([sources, saved["indices"]], axis=1)[sources < saved["indices"]]
    np.random.default_rng(seed).shuffle(links)
    skip_gram(links.astype(str).tolist(), window=1, seed=seed, **settings)


ANSWERS = {each.__name__: each for each in (walks, probabilities, node2vec, line)}
ANSWERS[sys.argv[2]](**json.loads(sys.argv[3]))
