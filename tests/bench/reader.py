"""Reads an address to its end and drops it, from a process of its own.

python -m tests.bench.reader URL
"""

import sys
from urllib.request import urlopen

if __name__ == "__main__":
    with urlopen(sys.argv[1], timeout=120) as answer:
        answer.read()
