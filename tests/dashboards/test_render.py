"""The renderer asks what Grafana would ask, and draws what comes back."""

import json
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlparse

import pytest

from dashboards.render import Source, copies, fill, picture, render, variables
from tests.dashboards.boards import boards


@pytest.fixture
def source() -> Iterator[Source]:
    """A Prometheus that answers every query with two boundaries, and 0.25 throughout."""

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            asked = {key: values[0] for key, values in parse_qs(urlparse(self.path).query).items()}
            ends = [float(asked[key]) for key in ("start", "end", "time") if key in asked]
            points = [[at, "0.25"] for at in ends]
            kinds = {"values": points} if "start" in asked else {"value": points[-1]}
            found = [{"metric": {"boundary": name, "slo": "chat"}, **kinds} for name in ("model", "end_to_end")]
            self.send_response(200)
            self.end_headers()
            self.wfile.write(json.dumps({"data": {"result": found}}).encode())

        def log_message(self, format: str, *args: object) -> None:
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        thread = threading.Thread(target=server.serve_forever, daemon=True)
        thread.start()
        yield Source(url=f"http://127.0.0.1:{server.server_address[1]}", end_s=1_000_000.0, range_s=600.0)
        server.shutdown()
        thread.join()


def test_variables_of_the_dashboard_are_filled_in_and_others_stay() -> None:
    expr = 'label_replace(rate(x{slo=~"$slo"}[$__rate_interval]), "a", "$1", "b", "${slo}")'
    filled = 'label_replace(rate(x{slo=~"chat"}[1m]), "a", "$1", "b", "chat")'
    assert fill(expr, {"slo": "chat", "__rate_interval": "1m"}) == filled


def test_a_panel_repeats_side_by_side_for_each_value() -> None:
    panel: dict[str, Any] = {"gridPos": {"x": 0, "y": 3, "w": 24, "h": 8}, "repeat": "boundary", "maxPerRow": 4}
    found = list(copies(panel, {"slo": "chat"}, {"boundary": ["model", "service"]}))
    assert [(place["x"], place["w"], values["boundary"]) for place, values in found] == [
        (0, 12, "model"), (12, 12, "service"),
    ]  # fmt: skip


def test_a_variable_without_all_takes_its_current_or_first_value(source: Source) -> None:
    values = variables(boards()["anatomy"], source, {"class": "chat"})
    assert (values["boundary"], values["window"], values["class"]) == ("end_to_end", "5m", "chat")
    assert variables(boards()["on-call"], source, {})["boundary"] == ".+"


@pytest.mark.parametrize("name", boards())
def test_every_panel_is_drawn(name: str, source: Source, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("dashboards.render.picture", lambda *_: False)
    (tmp_path / f"{name}.json").write_text(json.dumps(boards()[name]))
    (page,) = render([tmp_path / f"{name}.json"], source, {}, tmp_path / "out")
    text = page.read_text()
    repeated = sum("repeat" in panel for panel in boards()[name]["panels"])
    assert text.count('class="panel"') == repeated + sum(p["type"] != "row" for p in boards()[name]["panels"])
    assert "no data" not in text.replace("</span> no data", "")  # a state of the legend


@pytest.mark.needs("chromium")
def test_a_page_becomes_a_picture(tmp_path: Path) -> None:
    assert picture("<p>here</p>", tmp_path / "page.png", 100)
    assert (tmp_path / "page.png").read_bytes()[1:4] == b"PNG"
