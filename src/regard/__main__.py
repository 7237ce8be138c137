"""python -m regard, for those who launch modules."""

from regard.cli import main

main()
