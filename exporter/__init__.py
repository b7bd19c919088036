"""goodput-exporter: from the spans of gateways, queues and model servers to verdicts about what users waited for."""


def compiled() -> bool:
    """Whether decoding and joining run compiled; without, the results are the same, slower."""
    from exporter import join, recognise, tree
    from exporter.decode import protobuf

    modules = (protobuf, recognise, tree, join)
    return all(not str(module.__file__).endswith(".py") for module in modules)
