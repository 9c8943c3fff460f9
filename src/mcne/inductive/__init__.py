"""New users for a trained network."""

from mcne.inductive.embedding import embed_users as embed_users
