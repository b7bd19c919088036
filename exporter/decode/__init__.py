"""From OTLP bodies to columns."""
