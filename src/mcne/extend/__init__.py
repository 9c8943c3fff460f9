"""New users for a trained network."""

from mcne.extend.new_users import embed_users as embed_users
