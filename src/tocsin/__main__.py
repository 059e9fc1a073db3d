"""`python -m tocsin` is the command line."""

from tocsin.cli import main

main()
