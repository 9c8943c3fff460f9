"""How the libraries below are told to behave, which they read when PyTorch is first imported."""

from __future__ import annotations

import os

VARIABLES = {
    # PyTorch's threads would spin when they are done, and starve those that prepare steps
    "OMP_WAIT_POLICY": "PASSIVE",
    # in small pages a large table would cost a miss of the address cache for every row that is looked up
    "THP_MEM_ALLOC_ENABLE": "1",
    # matrix products that are the same bytes on any number of threads
    "MKL_CBWR": "AUTO,STRICT",
}


def set_environment() -> None:
    """Set what the caller has not set."""
    for name, value in VARIABLES.items():
        os.environ.setdefault(name, value)
