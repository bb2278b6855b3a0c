"""`python -m tiltlens`."""

from tiltlens.cli import main

main(prog_name="tiltlens")
