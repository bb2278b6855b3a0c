"""`python -m tiltlens`."""

from tiltlens._cli import main

main(prog_name="tiltlens")
