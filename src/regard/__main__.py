"""`python -m regard` runs the command line."""

from regard.cli import main

main()
