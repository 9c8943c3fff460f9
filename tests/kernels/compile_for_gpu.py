"""Compile every kernel for a GPU of compute capability 9.0 at the paper's settings, and print its name.

Triton compiles a kernel anew where a number is 1, as of a single triple, which it takes for a constant: so it is done
here, one number after the other. The interpreter knows nothing of that.
"""

from __future__ import annotations

from types import ModuleType
from typing import Any

import triton
from triton.backends.compiler import GPUTarget
from triton.compiler import ASTSource

from mcne.kernels.triton import draws, edges, groups, layers, rows, triples

SIZES: dict[str, Any] = {
    **{"n_s": 20, "n_b": 4, "n_t": 64, "n_d": 256, "n_n": 5, "width": 100, "depth": 10},
    **{
        "block_b": 4,
        "block_t": 64,
        "block_e": 16,
        "block_i": 16,
        "block_r": 16,
        "block_c": 128,
        "row_near": 512,
        "row_here": 512,
        "row_messages": 512,
        "row_gradient": 512,
        "row_values": 512,
    },
    **{"block": 64, "n_bounded": 1},
    **{"keep": 0.9, "keep_second": 0.999, "log_keep": -0.105, "log_keep_second": -0.001},
    **{"epsilon": 1e-8},
}
NUMBERS = {"n_edges", "n_triples", "n_behaviors", "per_behavior", "n_users", "n_scores", "n_more", "stream", "n"}
NUMBERS |= {"length", "other_length", "most", "other_most", "none", "other_none", "base"}
EACH = {"tables", "firsts", "seconds", "gradients", "steps", "sizes"}  # tuples, of two
WHOLE = {"sender", "receiver", "order", "user", "item", "key", "pair_user", "pair_item", "seen", "catalog"}
WHOLE |= {"distinct_keys", "present", "turned"}
OPTIONAL = {"masks", "bias", "weight", "of_bias", "cumulative", "sender", "receiver", "present"}
SHORT = {"start", "stop", "gaps", "indptr", "indices", "keys", "ordered", "begins", "counted", "places"}


def kernels(module: ModuleType) -> list[Any]:
    """Those that are launched, which the helpers of others are not."""
    helpers = {"_attention", "_below"}
    return [
        each
        for each in vars(module).values()
        if isinstance(each, triton.JITFunction) and each.fn.__name__ not in helpers
    ]


def type_of(kernel: str, name: str) -> Any:
    if kernel == "_adam_all" and name in EACH:
        return ("i32",) * 2 if name == "sizes" else ("*fp32",) * 2
    if name in NUMBERS or (kernel, name) == ("_bound", "first"):
        return "i32"
    if name == "learning_rate":
        return "fp32"
    if name == "has_neighbors":
        return "*i1"
    if name == "cumulative":
        return "*fp64"
    if name in SHORT:
        return "*i32"
    is_whole = name in WHOLE or (kernel, name) in {
        ("_gather", "rows"),
        ("_adam", "rows"),
        ("_adam", "steps"),
        ("_triples", "rows"),
        ("_assign", "rows"),
        ("_assign_few", "rows"),
        ("_neighbors", "users"),
        ("_aggregate_all", "first"),
    }
    return "*i64" if is_whole else "*fp32"


def compile_for_gpu(kernel: Any, sizes: dict[str, Any]) -> None:
    name, arguments = kernel.fn.__name__, kernel.arg_names
    signature = {each: "constexpr" if each in sizes else type_of(name, each) for each in arguments}
    constant: dict[tuple[int, ...], Any] = {(at,): sizes[each] for at, each in enumerate(arguments) if each in sizes}
    if "sizes" in signature:  # of the tables that move as a whole, the first of which has a single number
        signature["sizes"] = ("constexpr", "i32")
        constant[(arguments.index("sizes"), 0)] = 1
    triton.compile(ASTSource(kernel, signature, constexprs=constant), target=GPUTarget("cuda", 90, 32))


for module in (*(edges, layers, groups, rows, triples, draws),):
    for kernel in kernels(module):
        if kernel.fn.__module__ != module.__name__:
            continue
        compile_for_gpu(kernel, SIZES)
        if module in (triples, draws):
            compile_for_gpu(kernel, SIZES | dict.fromkeys(OPTIONAL))
        for number in kernel.params:
            if type_of(kernel.fn.__name__, number.name) == "i32" and not number.do_not_specialize:
                compile_for_gpu(kernel, SIZES | {number.name: 1})
        print(kernel.fn.__name__)
