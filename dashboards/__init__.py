"""Grafana dashboards, made from the names that the exporter and the rules use.

    query    PromQL over exported families and recorded series; a name or label that is not there is an error
    panels   what all panels share: data source, units, legends, descriptions, "no data"
    frame    what all dashboards share: variables, annotations, links, the grid
    on_call, anatomy, capacity, health     the dashboards, each read from top to bottom
    write    JSON files, a provisioning folder of Grafana, ConfigMaps

Only to generate needs grafana-foundation-sdk (extra `dashboards`); the exporter itself never imports this package.
`generated/` holds the result for any SLO file, and CI reproduces it byte for byte.
"""
