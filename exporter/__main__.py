"""`python -m exporter` is `goodput-exporter`."""

from exporter.cli import main

main()
