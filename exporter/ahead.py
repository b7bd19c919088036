"""Memory that is asked for before it is needed: a look-up that waits takes longer than all that is done with it."""


def prefetch(cell: int) -> None:
    """Ask for the memory of a cell, and go on: nobody waits for it. Only the compiled build does that."""
