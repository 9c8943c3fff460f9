"""``python -m mcne``."""

from mcne.cli.main import main

main()
