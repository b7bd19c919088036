"""The last stage: what is known, as Prometheus reads it. `text` writes families, `web` serves them."""
