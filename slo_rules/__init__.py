"""The language of service level objectives for inference: vocabulary, SLO files, verdict arithmetic. No I/O."""
