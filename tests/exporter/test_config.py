from dataclasses import replace
from pathlib import Path

import pytest

from exporter.config import (
    Address,
    Align,
    Boundary,
    ClassRule,
    Instant,
    Join,
    Label,
    Labels,
    Limits,
    Receive,
    Requests,
    Scrape,
    Settings,
    Sources,
    Stop,
    Tpot,
    Web,
    Windows,
    read_settings,
)
from slo_rules.document import Problem, Problems

SECOND = 10**9
MINUTE = 60 * SECOND
EXAMPLE = """\
receive: {grpc: "127.0.0.1:4317", http: "127.0.0.1:4318", max_body: 20MiB}     # after inflating
web: {listen: ":9464", enable_lifecycle: false}                                # POST /-/reload only when enabled; SIGHUP always
profiles: [my/*.yaml]
publish: [client, end_to_end, service, model]
boundaries: {agent: {open: arrived@litellm, close: ended@litellm}}
labels: {model: {default: llama}, tenant: {from: [x-tenant]}}
classes: [{class: batch, when: {tenant: nightly}}]
windows: {durations: [1m, 5m, 30m, 1h], delay: 20s, lateness: 60s}
join: {grace: 10s, max_open: 200000, max_age: 10m}
align: {mode: report, same_clock: []}
accelerators: {llama: 8}
"""  # noqa: E501


def settings(text: str, path: str | None = None, **environment: str) -> Settings:
    problems: list[Problem] = []
    found = read_settings(path, text, environment, problems)
    if problems:
        raise Problems(problems)
    return found


def messages(text: str, path: str = "goodput.yaml") -> list[str]:
    with pytest.raises(Problems) as caught:
        settings(text, path)
    return str(caught.value).splitlines()


def test_the_defaults_are_the_documented_example_without_its_declarations() -> None:
    assert settings(EXAMPLE) == replace(
        Settings(),
        boundaries=(
            Boundary(
                name="agent",
                open=Instant(stamp="arrived", profile="litellm"),
                close=Instant(stamp="ended", profile="litellm"),
            ),
        ),
        labels=Labels(model_default="llama", declared=(Label(name="tenant", attributes=("x-tenant",)),)),
        classes=(ClassRule(name="batch", when=(("tenant", ("nightly",)),)),),
        accelerators=(("llama", 8),),
    )


@pytest.mark.parametrize("text", ["", "# nothing yet\n", "---\n", "receive:\nweb: {}\n"])
def test_an_empty_file_says_what_no_file_says(text: str) -> None:
    assert settings(text) == Settings()


def test_the_defaults_are_those_of_the_contract() -> None:
    assert Settings() == Settings(
        receive=Receive(grpc=Address("127.0.0.1", 4317), http=Address("127.0.0.1", 4318), max_body=20 * 1024**2),
        web=Web(listen=Address("", 9464), enable_lifecycle=False),
        stop=Stop(grace_ns=25 * SECOND),
        profiles=(),
        publish=("client", "end_to_end", "service", "model"),
        boundaries=(),
        labels=Labels(model_default="unknown", declared=()),
        classes=(),
        windows=Windows(
            durations_ns=(MINUTE, 5 * MINUTE, 30 * MINUTE, 60 * MINUTE), delay_ns=20 * SECOND, lateness_ns=MINUTE
        ),
        join=Join(grace_ns=10 * SECOND, max_open=200_000, max_age_ns=10 * MINUTE),
        align=Align(mode="report", same_clock=()),
        accelerators=(),
        sampling="honour",
        tpot=Tpot(formula="tokens_minus_one"),
        limits=Limits(label_values=100, series_idle_ns=60 * MINUTE, series=20_000),
        requests=Requests(expect_engine="auto", embeddings=False, path="/v1/"),
        sources=Sources(scrape=()),
    )


def test_every_key_changes_its_setting() -> None:
    text = """\
receive: {grpc: "[::1]:1", http: ":0", max_body: 1MiB}
web: {listen: "localhost:80", enable_lifecycle: true}
stop: {grace: 50s}
publish: [model]
windows: {durations: [10m, 30s], delay: 0s, lateness: 5m}
join: {grace: 0s, max_open: 5, max_age: 1h}
align: {mode: adjust, same_clock: [[a, b], [c, d, e]]}
accelerators: {llama: 8, qwen: 1}
sampling: ignore
tpot: {formula: completion_over_tokens}
limits: {label_values: 7, series_idle: 2h, series: 9}
requests: {expect_engine: no, embeddings: true, path: /api/}
sources: {scrape: [{url: "https://gpu-1.example.org/metrics", every: 1m}]}
"""
    assert settings(text) == Settings(
        receive=Receive(grpc=Address("::1", 1), http=Address("", 0), max_body=2**20),
        web=Web(listen=Address("localhost", 80), enable_lifecycle=True),
        stop=Stop(grace_ns=50 * SECOND),
        publish=("model",),
        windows=Windows(durations_ns=(30 * SECOND, 10 * MINUTE), delay_ns=0, lateness_ns=5 * MINUTE),
        join=Join(grace_ns=0, max_open=5, max_age_ns=60 * MINUTE),
        align=Align(mode="adjust", same_clock=(("a", "b"), ("c", "d", "e"))),
        accelerators=(("llama", 8), ("qwen", 1)),
        sampling="ignore",
        tpot=Tpot(formula="completion_over_tokens"),
        limits=Limits(label_values=7, series_idle_ns=120 * MINUTE, series=9),
        requests=Requests(expect_engine="no", embeddings=True, path="/api/"),
        sources=Sources(scrape=(Scrape(url="https://gpu-1.example.org/metrics", every_ns=MINUTE),)),
    )


def test_a_server_to_scrape_is_the_usual_one_on_this_machine_if_nothing_is_said() -> None:
    (scrape,) = settings("sources: {scrape: [{}]}").sources.scrape
    assert (scrape.url, scrape.every_ns) == ("http://127.0.0.1:8000/metrics", 5 * SECOND)


def test_servers_to_scrape_are_bounded() -> None:
    text = ", ".join(f'{{url: "http://10.0.0.{host}:8000/metrics"}}' for host in range(65))
    (found,) = messages(f"sources: {{scrape: [{text}]}}")
    assert found == "goodput.yaml:1:19 sources.scrape: must hold at most 64 servers, found 65"


def test_declared_boundaries_are_published_unless_a_list_says_otherwise() -> None:
    declared = "boundaries: {agent: {open: arrived@litellm, close: ended@litellm}}\n"
    assert settings(declared).publish == ("client", "end_to_end", "service", "model", "agent")
    assert settings(declared + "publish: [agent]").publish == ("agent",)


def test_variables_of_the_environment_are_replaced() -> None:
    text = 'join: {max_open: "${MAX_OPEN}"}\nweb:\n  listen: ${HOST}:9464\n'
    found = settings(text, MAX_OPEN="12", HOST="10.0.0.1")
    assert (found.join.max_open, found.web.listen) == (12, Address("10.0.0.1", 9464))


@pytest.mark.parametrize("text", ["127.0.0.1:4317", "[::1]:4317", ":9464", "gateway.example.org:0"])
def test_an_address_is_shown_as_it_is_written(text: str) -> None:
    assert str(settings(f'web: {{listen: "{text}"}}').web.listen) == text


# Profiles


def test_profiles_are_found_relative_to_the_configuration_file(tmp_path: Path) -> None:
    for name in ("my/b.yaml", "my/a.yaml", "my/a.txt", "one.yaml"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).touch()
    (tmp_path / "my/folder.yaml").mkdir()
    found = settings("profiles: [one.yaml, my/*.yaml, my/a.yaml]", str(tmp_path / "goodput.yaml"))
    assert found.profiles == tuple(str(tmp_path / name) for name in ("one.yaml", "my/a.yaml", "my/b.yaml"))


def test_a_folder_whose_name_looks_like_a_pattern_is_taken_literally(tmp_path: Path) -> None:
    folder = tmp_path / "[a]"
    folder.mkdir()
    (folder / "p.yaml").touch()
    assert settings("profiles: ['*.yaml']", str(folder / "goodput.yml")).profiles == (str(folder / "p.yaml"),)


def test_a_profile_that_is_named_must_exist_but_a_pattern_may_match_nothing(tmp_path: Path) -> None:
    path = str(tmp_path / "goodput.yaml")
    assert messages("profiles: [none.yaml, my/*.yaml]", path) == [
        f"{path}:1:12 profiles[0]: must name a file, or be a pattern such as profiles/*.yaml, "
        f'relative to {tmp_path}, found "none.yaml"'
    ]


# Mistakes


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("recieve: {}", "1:1 recieve: must be a known key: receive, web, "),
        ('web: {listen: "9464"}', "1:15 web.listen: must be host:port with a port up to 65535, such as 127.0.0.1:4317"),
        ("web: {listen: 'a:70000'}", "1:15 web.listen: must be host:port"),
        ("stop: {grace: 25}", "1:15 stop.grace: must be a duration with its unit"),
        ("receive: {max_body: 20}", "1:21 receive.max_body: must be a size with its unit"),
        ("receive: {max_body: 2GiB}", "1:21 receive.max_body: must be at least 1KiB and at most 1GiB"),
        ("publish: [modle]", "1:11 publish[0]: must be one of: client, end_to_end, service, model (did you mean"),
        ("publish: [model, model]", "1:18 publish[1]: must be given once"),
        ("boundaries: {model: {open: arrived@a, close: ended@a}}", "1:14 boundaries.model: must be another name than"),
        ("boundaries: {A: {open: arrived@a, close: ended@a}}", "1:14 boundaries.A: must be a name of lower-case"),
        ("boundaries: {a: {open: started@x, close: ended@x}}", "1:24 boundaries.a.open: must be stamp@profile, such"),
        ("boundaries: {a: {open: ended, close: ended@x}}", "1:24 boundaries.a.open: must be stamp@profile"),
        ("boundaries: {a: {open: ended@x}}", "1:17 boundaries.a.close: must be given, found nothing"),
        ("boundaries: {a: {open: ended@x, close: ended@x}}", "1:40 boundaries.a.close: must be another instant"),
        ("labels: {class: {from: [x]}}", "1:10 labels.class: must be set by classes, not by labels"),
        ("labels: {boundary: {from: [x]}}", "1:10 labels.boundary: must be another name: the exporter's own series"),
        ("labels: {le: {from: [x]}}", "1:10 labels.le: must be another name"),
        ("labels: {__x: {from: [x]}}", "1:10 labels.__x: must be a label name of letters, digits and _"),
        ("labels: {tenant: {default: x}}", "1:18 labels.tenant.from: must be given"),
        ("labels: {model: {from: [x]}}", "1:18 labels.model.from: must be a known key: default"),
        ("classes: [{class: batch}]", "1:11 classes[0].when: must be given"),
        ("classes: [{class: batch, when: {}}]", "1:32 classes[0].when: must hold at least one label"),
        ("classes: [{class: batch, when: {tenant: x}}]", "1:33 classes[0].when.tenant: must be one of: model"),
        ("windows: {durations: [5s]}", "1:23 windows.durations[0]: must be at least 10s and at most 7d"),
        ("windows: {durations: [1m, 60s]}", "1:27 windows.durations[1]: must be given once"),
        ("windows: {durations: []}", "1:22 windows.durations: must hold 1 to 16 durations"),
        ("windows: {delay: 20}", "1:18 windows.delay: must be a duration with its unit"),
        ("join: {grace: 1h, max_age: 10m}", "1:7 join: must have a grace of at most max_age, found 1h and 10m"),
        ("join: {max_open: 0}", "1:18 join.max_open: must be at least 1 and at most"),
        ("align: {mode: fix}", "1:15 align.mode: must be one of: report, adjust"),
        ("align: {same_clock: [a]}", "1:22 align.same_clock[0]: must be a group of two names or more"),
        ("align: {same_clock: [[a]]}", "1:22 align.same_clock[0]: must be a group of two names or more"),
        (
            "align: {same_clock: [[a, b], [b, c]]}",
            "1:21 align.same_clock: must have each name in one group only, found b",
        ),
        ("accelerators: {llama: 0.5}", "1:23 accelerators.llama: must be a whole number, found 0.5"),
        ("sampling: honor", "1:11 sampling: must be one of: honour, ignore (did you mean honour?)"),
        ("tpot: {formula: mean}", "1:17 tpot.formula: must be one of: tokens_minus_one, tokens, completion"),
        ("limits: {series_idle: 1}", "1:23 limits.series_idle: must be a duration with its unit"),
        ("requests: {path: v1}", '1:18 requests.path: must begin with /, found "v1"'),
        ("requests: {expect_engine: maybe}", "1:27 requests.expect_engine: must be one of: auto, yes, no"),
        ("sources: {scrap: []}", "1:11 sources.scrap: must be a known key: scrape"),
        ("sources: {scrape: {url: x}}", "1:19 sources.scrape: must be a list"),
        ("sources: {scrape: [{every: 500ms}]}", "1:28 sources.scrape[0].every: must be at least 1s and at most 1m"),
        ("sources: {scrape: [{}, {}]}", "1:24 sources.scrape[1]: must be given once, found http://127.0.0.1:8000/"),
        (
            "sources: {scrape: [{url: 'http://h:80/m'}, {url: 'HTTP://H/m'}]}",
            "1:50 sources.scrape[1].url: must be given once, found http://h/m",
        ),
        *(
            (
                f"sources: {{scrape: [{{url: '{url}'}}]}}",
                "1:26 sources.scrape[0].url: must be a URL without user and fr",
            )
            for url in (
                "127.0.0.1:8000/metrics",
                "localhost:8000/metrics",
                "ftp://h/m",
                "http:///metrics",
                "http://u:p@h/m",
                "http://@h/m#f",
                "http://h:70000/m",
                "http://[::1/m",
            )
        ),
        ("[]", "1:1: must be a mapping"),
        ("a: [", "1:5: must be YAML"),
    ],
)
def test_a_mistake_is_refused_with_its_place_and_the_rule(text: str, message: str) -> None:
    (found,) = messages(text)
    assert found.startswith(f"goodput.yaml:{message}")


def test_too_many_windows_are_refused() -> None:
    durations = ", ".join(f"{minutes}m" for minutes in range(1, 18))
    assert messages(f"windows: {{durations: [{durations}]}}") == [
        "goodput.yaml:1:22 windows.durations: must hold 1 to 16 durations, found 17"
    ]


def test_every_mistake_of_a_file_is_reported_in_one_run() -> None:
    text = "web: {listen: x}\njoin: {grace: 10}\nlabels: {tenant: {}}\nunknown: 1\n---\nweb: {}\n"
    assert [line.split(": ")[0] for line in messages(text)] == [
        "goodput.yaml:1:15 web.listen",
        "goodput.yaml:2:15 join.grace",
        "goodput.yaml:3:18 labels.tenant.from",
        "goodput.yaml:4:1 unknown",
        "goodput.yaml:6:1",
    ]
