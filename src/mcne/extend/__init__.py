"""New behaviors and new users for a trained network; what needs torch is loaded on first use."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from mcne.extend.new_users import embed_users as embed_users


def __getattr__(name: str) -> Any:
    if name != "embed_users":
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from mcne.extend.new_users import embed_users

    return embed_users
