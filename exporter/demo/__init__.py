"""`goodput-exporter demo`: three simulated services go through a surge while the exporter watches them.

The clients (in the parent) call the gateway, the gateway calls the queue's front, and a worker of the queue calls the
model server. Each service is an operating system process of its own that sends spans with the OpenTelemetry SDK over
OTLP, as the real one would; the exporter runs in the parent and knows of the services only what their spans say.

    clients --> gateway --> queue --> model        JSON lines over loopback, W3C trace context carried along
                   |          |         |
                   +----------+---------+--> exporter (OTLP) --> /metrics, and the terminal

`exporter.demo.run.run` plays it. Nothing is imported here, as each service's process would have to load it.
"""
