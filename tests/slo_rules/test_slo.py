from collections.abc import Collection
from datetime import datetime
from fractions import Fraction
from zoneinfo import ZoneInfo

import pytest

from slo_rules.burn import built_in
from slo_rules.document import Problem, Problems, read
from slo_rules.slo import SLO, Calendar, CalendarUnit, Objective, Policies, Schedule, minimum_samples, read_slos
from slo_rules.vocabulary import BOUNDARIES

SECOND = 10**9
EXAMPLE = """\
apiVersion: goodput/v1
kind: SLO
metadata:
  name: chat
  labels: {team: serving}
spec:
  description: Answers start within a second and flow faster than one reads.
  selector: {class: interactive, model: [llama-3-8b, llama-3-70b]}
  objectives:
    - {metric: ttft, boundary: end_to_end, percentile: 95, threshold: 1s, window: 5m}
    - {metric: tpot, boundary: end_to_end, percentile: 95, threshold: 50ms, window: 5m}
    - {metric: completion, boundary: end_to_end, percentile: 99, threshold: 30s, window: 30m, per_request: false}
  goodput: {target: 99%, period: 30d}      # share of eligible requests that meet every per-request limit; 0.99 is read too
  schedule: {days: [mon, tue, wed, thu, fri], from: "08:00", to: "22:00", timezone: Asia/Seoul}
  policies: {single_token: not_applicable, cancelled: excluded_unless_broken, minimum_samples: auto}
"""  # noqa: E501
PLAIN = """\
apiVersion: goodput/v1
kind: SLO
metadata: {name: chat}
spec:
  objectives:
"""
TTFT = "{metric: ttft, boundary: end_to_end, percentile: 95, threshold: 1s, window: 5m}"


def slos(text: str, labels: Collection[str] | None = ("class", "model")) -> list[SLO]:
    problems: list[Problem] = []
    found = read_slos(read(text, "slo.yaml", problems, {}), BOUNDARIES, labels)
    if problems:
        raise Problems(problems)
    return found


def objectives(*items: str) -> tuple[Objective, ...]:
    (slo,) = slos(PLAIN + "".join(f"    - {item}\n" for item in items))
    return slo.objectives


def changed(**fields: str) -> str:
    """The plain objective with some of its fields changed."""
    values = {"metric": "ttft", "boundary": "end_to_end", "percentile": "95", "threshold": "1s", "window": "5m"}
    return "{" + ", ".join(f"{key}: {value}" for key, value in (values | fields).items()) + "}"


def messages(text: str, labels: Collection[str] | None = ("class", "model")) -> list[str]:
    with pytest.raises(Problems) as caught:
        slos(text, labels)
    return [f"{problem.path}: {problem.rule}, found {problem.found}" for problem in caught.value.items]


def test_the_example_of_the_design_is_read_as_given() -> None:
    common = {"boundary": "end_to_end"}
    assert slos(EXAMPLE) == [
        SLO(
            name="chat",
            labels=(("team", "serving"),),
            description="Answers start within a second and flow faster than one reads.",
            selector=(("class", ("interactive",)), ("model", ("llama-3-8b", "llama-3-70b"))),
            objectives=(
                Objective(
                    name="ttft", metric="ttft", percentile=Fraction(95), threshold_ns=SECOND,
                    window_ns=300 * SECOND, per_request=True, **common,
                ),
                Objective(
                    name="tpot", metric="tpot", percentile=Fraction(95), threshold_ns=50_000_000,
                    window_ns=300 * SECOND, per_request=True, **common,
                ),
                Objective(
                    name="completion", metric="completion", percentile=Fraction(99), threshold_ns=30 * SECOND,
                    window_ns=1800 * SECOND, per_request=False, **common,
                ),
            ),
            target=Fraction(99, 100),
            period_ns=30 * 86400 * SECOND,
            schedule=Schedule(
                days=frozenset(range(5)), start_minute=8 * 60, end_minute=22 * 60, timezone="Asia/Seoul"
            ),
            policies=Policies(minimum_samples="auto"),
        )
    ]  # fmt: skip


def test_the_least_slo_selects_every_request_and_has_the_default_policies() -> None:
    (slo,) = slos(f"{PLAIN}    - {TTFT}\n")
    assert (slo.selector, slo.target, slo.period_ns, slo.schedule, slo.labels) == ((), None, None, None, ())
    assert slo.policies == Policies(
        single_token="not_applicable", cancelled="excluded_unless_broken", minimum_samples=1
    )


def test_a_target_without_a_period_is_for_30_days() -> None:
    (slo,) = slos(f"{PLAIN}    - {TTFT}\n  goodput: {{target: 0.99}}\n")
    assert (slo.target, slo.period_ns) == (Fraction(99, 100), 30 * 86400 * SECOND)


@pytest.mark.parametrize("threshold", ["500ms", "0.5s"])
@pytest.mark.parametrize("window", ["5m", "300s"])
def test_two_spellings_of_a_quantity_are_one_objective(threshold: str, window: str) -> None:
    (objective,) = objectives(changed(threshold=threshold, window=window))
    assert (objective.threshold_ns, objective.window_ns) == (500_000_000, 300 * SECOND)


# Mistakes, each with its rule


@pytest.mark.parametrize(
    ("objective", "message"),
    [
        (changed(percentile="0.95"), "percentile: must be a percentile in percent: write 95, found 0.95"),
        (
            changed(percentile="950"),
            "percentile: must be a percentile from 1 to 100, such as 95, p95 or 99.9, found 950",
        ),
        (
            changed(threshold="500"),
            "threshold: must be a duration with its unit, such as 500ms, 1.5s, 5m, 1h or 30d, found 500",
        ),
        (changed(threshold="0s"), 'threshold: must be at least 1us and at most 1d, found "0s"'),
        (changed(threshold="25h"), 'threshold: must be at least 1us and at most 1d, found "25h"'),
        (changed(window="9s"), 'window: must be at least 10s and at most 7d, found "9s"'),
        (changed(window="8d"), 'window: must be at least 10s and at most 7d, found "8d"'),
        (changed(metric="ttfb"), 'metric: must be one of: ttft, tpot, completion (did you mean ttft?), found "ttfb"'),
        (
            changed(boundary="gateway"),
            'boundary: must be one of: client, end_to_end, service, model, found "gateway"',
        ),
        (changed(name="TTFT"), 'name: must be at most 63 lower-case letters, digits and _, found "TTFT"'),
        (changed(per_request="maybe"), 'per_request: must be true or false, found "maybe"'),
        ("{metric: ttft, boundary: model, percentile: 95, window: 5m}", "threshold: must be given, found nothing"),
    ],
)
def test_a_wrong_objective_is_refused_with_the_rule_and_the_value(objective: str, message: str) -> None:
    assert messages(f"{PLAIN}    - {objective}\n") == [f"spec.objectives[0].{message}"]


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("goodput: {target: 99}", "goodput.target: must be a percentage or a ratio: write 99% or 0.99, found 99"),
        ("goodput: {period: 30d}", "goodput.target: must be given, found nothing"),
        ("goodput: {target: 99%, period: 1m}", 'goodput.period: must be at least 1h and at most 366d, found "1m"'),
        ("selector: {tenant: a}", 'selector.tenant: must be one of: class, model, found "tenant"'),
        ("selector: {model: []}", "selector.model: must hold at least one value, found a list"),
        ("selector: {model: {a: b}}", "selector.model: must be a list, written as [a, b], found a mapping"),
        (
            'schedule: {from: "8:00", to: "22:00"}',
            'schedule.from: must be a time from 00:00 to 24:00, such as 08:30, found "8:00"',
        ),
        (
            'schedule: {from: "08:00", to: "08:00"}',
            'schedule.to: must differ from the start; a whole day is 00:00 to 24:00, found "08:00"',
        ),
        ('schedule: {from: "24:00"}', "schedule.to: must be given, found nothing"),
        (
            'schedule: {from: "08:00", to: "09:00", timezone: Asia}',
            'schedule.timezone: must be the name of a time zone, such as UTC or Asia/Seoul, found "Asia"',
        ),
        (
            'schedule: {from: "08:00", to: "09:00", timezone: ../../etc/passwd}',
            'schedule.timezone: must be the name of a time zone, such as UTC or Asia/Seoul, found "../../etc/passwd"',
        ),
        (
            'schedule: {from: "08:00", to: "09:00", days: [monday]}',
            'schedule.days[0]: must be one of: mon, tue, wed, thu, fri, sat, sun (did you mean mon?), found "monday"',
        ),
        (
            'schedule: {from: "08:00", to: "09:00", days: []}',
            "schedule.days: must hold at least one day; leave it out for every day, found a list",
        ),
        (
            "policies: {single_token: skip}",
            'policies.single_token: must be one of: not_applicable, fail, found "skip"',
        ),
        (
            "policies: {minimum_samples: many}",
            'policies.minimum_samples: must be auto or a whole number, found "many"',
        ),
        (
            "goodputs: {target: 99%}",
            "goodputs: must be a known key: description, selector, goodput, schedule, policies, workload, boundary, "
            "deadline, expected, objectives, template, parameters "
            '(did you mean goodput?), found "goodputs"',
        ),
    ],
)
def test_a_wrong_field_is_refused_with_the_rule_and_the_value(line: str, message: str) -> None:
    assert messages(f"{PLAIN}    - {TTFT}\n  {line}\n") == [f"spec.{message}"]


def test_every_mistake_of_a_file_is_reported_in_one_run() -> None:
    text = """\
apiVersion: v1
kind: SLO
metadata: {name: Chat}
spec:
  objectives:
    - {metric: ttft, boundary: end_to_end, percentile: 0.95, threshold: 500, window: 5m}
    - {metric: tpot, boundary: model, percentile: 99, threshhold: 1s, window: 5m}
  goodput: {target: 950}
"""
    with pytest.raises(Problems) as caught:
        slos(text)
    assert str(caught.value).splitlines() == [
        'slo.yaml:1:13 apiVersion: must be one of: goodput/v1, found "v1"',
        "slo.yaml:3:18 metadata.name: must be at most 63 lower-case letters, digits and -, "
        'with a letter or digit at both ends, found "Chat"',
        "slo.yaml:6:56 spec.objectives[0].percentile: must be a percentile in percent: write 95, found 0.95",
        "slo.yaml:6:73 spec.objectives[0].threshold: must be a duration with its unit, "
        "such as 500ms, 1.5s, 5m, 1h or 30d, found 500",
        "slo.yaml:7:7 spec.objectives[1].threshold: must be given, found nothing",
        "slo.yaml:7:55 spec.objectives[1].threshhold: must be a known key: name, per_request, metric, boundary, "
        'percentile, threshold, window (did you mean threshold?), found "threshhold"',
        "slo.yaml:8:21 spec.goodput.target: must be a share above 0 and up to 1, such as 99% or 0.99, found 950",
    ]


def test_an_slo_without_objectives_is_refused() -> None:
    assert messages(PLAIN) == ["spec.objectives: must be given, found nothing"]
    assert messages(f"{PLAIN.strip()} []\n") == ["spec.objectives: must hold at least one objective, found a list"]


@pytest.mark.parametrize("name", ["a", "a-b", "0", "a" * 63])
def test_a_name_of_rfc_1123_is_accepted(name: str) -> None:
    (slo,) = slos(f"{PLAIN}    - {TTFT}\n".replace("name: chat", f"name: '{name}'"))
    assert slo.name == name


@pytest.mark.parametrize("name", ["Chat", "-a", "a-", "a.b", "a_b", "a" * 64])
def test_another_name_is_refused(name: str) -> None:
    assert messages(f"{PLAIN}    - {TTFT}\n".replace("name: chat", f"name: {name}"))[0].startswith("metadata.name")


def test_names_are_unique_over_all_files() -> None:
    problems: list[Problem] = []
    text = f"{PLAIN}    - {TTFT}\n"
    nodes = read(text, "a.yaml", problems, {}) + read(text, "b.yaml", problems, {})
    assert len(read_slos(nodes, BOUNDARIES, None)) == 1
    assert list(map(str, problems)) == [
        'b.yaml:3:18 metadata.name: must be the name of one SLO only, in all files, found "chat"'
    ]


def test_a_name_is_taken_by_an_slo_with_mistakes_too() -> None:
    text = f"{PLAIN}    - {TTFT}\n"
    wrong = text.replace("window: 5m", "window: 5")
    assert wrong != text
    assert sum("the name of one SLO only" in each for each in messages(f"{wrong}---\n{text}")) == 1


def test_any_label_may_be_selected_where_labels_are_not_known() -> None:
    (slo,) = slos(f"{PLAIN}    - {TTFT}\n  selector: {{tenant: 7}}\n", labels=None)
    assert slo.selector == (("tenant", ("7",)),)


# Names of objectives


@pytest.mark.parametrize(
    ("items", "names"),
    [
        ([changed(), changed(metric="tpot")], ["ttft", "tpot"]),
        ([changed(), changed(percentile="99.9")], ["ttft_p95", "ttft_p99_9"]),
        (
            [changed(), changed(boundary="model"), changed(percentile="99")],
            ["ttft_end_to_end_p95_5m", "ttft_model_p95_5m", "ttft_p99"],
        ),
        ([changed(), changed(window="90s")], ["ttft_end_to_end_p95_5m", "ttft_end_to_end_p95_1m30s"]),
        ([changed(name="start"), changed(percentile="99")], ["start", "ttft_p99"]),
        ([changed(metric="tpot", name="ttft"), changed()], ["ttft", "ttft_p95"]),
    ],
)
def test_an_objective_has_the_shortest_name_that_is_its_own(items: list[str], names: list[str]) -> None:
    assert [objective.name for objective in objectives(*items)] == names


def test_the_name_of_an_objective_does_not_depend_on_their_order() -> None:
    items = [changed(), changed(boundary="model"), changed(percentile="99")]
    names = {objective.name for objective in objectives(*items)}
    assert {objective.name for objective in objectives(*reversed(items))} == names


def test_the_same_objective_twice_is_refused() -> None:
    rule = "must differ from the other objectives, or have a name other than ttft_end_to_end_p95_5m"
    assert messages(f"{PLAIN}    - {TTFT}\n    - {TTFT}\n") == [f"spec.objectives[1]: {rule}, found a mapping"]


@pytest.mark.parametrize("name", ["several", "timeout", "cancelled"])
def test_a_name_that_tells_why_a_request_is_bad_is_reserved(name: str) -> None:
    (message,) = messages(f"{PLAIN}    - {changed(name=name)}\n")
    assert message.startswith("spec.objectives[0].name: must be another name than several, ok, error")


# The per-request limit

ONE, THREE = changed(), changed(percentile="99", threshold="3s")


@pytest.mark.parametrize(
    ("items", "limits"),
    [
        ([changed()], [True]),
        ([changed(per_request="false")], [False]),
        ([ONE, changed(percentile="99", threshold="3s", per_request="true")], [False, True]),
        ([ONE, changed(percentile="99", threshold="3s", per_request="false")], [True, False]),
        ([changed(percentile="90", threshold="1000ms"), ONE], [True, True]),
        ([ONE, changed(boundary="model", threshold="3s")], [True, True]),
    ],
)
def test_a_metric_at_a_boundary_has_one_limit_for_a_request(items: list[str], limits: list[bool]) -> None:
    assert [objective.per_request for objective in objectives(*items)] == limits


@pytest.mark.parametrize(
    ("first", "second"), [(None, None), ("true", "true"), ("false", "false")], ids=["unmarked", "both", "neither"]
)
def test_several_thresholds_need_one_that_is_marked_as_the_limit(first: str | None, second: str | None) -> None:
    one = changed(**({"per_request": first} if first else {}))
    three = changed(percentile="99", threshold="3s", **({"per_request": second} if second else {}))
    rule = (
        "must say which threshold of ttft at end_to_end limits a request: "
        "write per_request: true in exactly one objective, found 1s, 3s"
    )
    assert messages(f"{PLAIN}    - {one}\n    - {three}\n") == [
        f"spec.objectives[0]: {rule}",
        f"spec.objectives[1]: {rule}",
    ]


# Schedules


def at(text: str, timezone: str) -> int:
    return int(datetime.fromisoformat(text).replace(tzinfo=ZoneInfo(timezone)).timestamp()) * SECOND


@pytest.mark.parametrize(
    ("time", "covered"),
    [
        ("2026-11-27T07:59:59", False),  # a Friday
        ("2026-11-27T08:00", True),
        ("2026-11-27T21:59:59", True),
        ("2026-11-27T22:00", False),
        ("2026-11-28T12:00", False),
    ],
)
def test_a_schedule_holds_its_start_and_not_its_end_in_local_time(time: str, covered: bool) -> None:
    schedule = Schedule(days=frozenset(range(5)), start_minute=480, end_minute=1320, timezone="Asia/Seoul")
    assert schedule.covers(at(time, "Asia/Seoul")) is covered


@pytest.mark.parametrize(
    ("time", "covered"),
    [
        ("2026-11-27T22:00", True),
        ("2026-11-28T05:59", True),
        ("2026-11-28T06:00", False),
        ("2026-11-28T23:00", False),
        ("2026-11-27T05:00", False),
    ],
)
def test_a_night_belongs_to_the_day_on_which_it_starts(time: str, covered: bool) -> None:
    schedule = Schedule(days=frozenset({4}), start_minute=1320, end_minute=360, timezone="UTC")
    assert schedule.covers(at(time, "UTC")) is covered


def test_a_schedule_follows_the_local_clock_through_daylight_saving() -> None:
    schedule = Schedule(days=frozenset(range(7)), start_minute=480, end_minute=540, timezone="Europe/Berlin")
    assert schedule.covers(at("2026-10-24T06:30", "UTC"))
    assert schedule.covers(at("2026-10-25T07:30", "UTC"))
    assert not schedule.covers(at("2026-10-25T06:30", "UTC"))


def test_a_time_needs_no_quotes_and_a_schedule_without_days_is_for_all() -> None:
    (slo,) = slos(f"{PLAIN}    - {TTFT}\n  schedule: {{from: 08:00, to: 24:00}}\n")
    assert slo.schedule == Schedule(days=frozenset(range(7)), start_minute=480, end_minute=1440, timezone="UTC")


# Enough data


@pytest.mark.parametrize(
    ("percentile", "minimum"),
    [("1", 1), ("10", 2), ("50", 7), ("90", 44), ("95", 90), ("99", 459), ("99.9", 4603), ("100", 1)],
)
def test_auto_asks_for_as_many_samples_as_support_the_percentile(percentile: str, minimum: int) -> None:
    assert minimum_samples("auto", Fraction(percentile)) == minimum


@pytest.mark.parametrize("percentile", [50, 75, 90, 95, 98, 99])
def test_the_minimum_is_the_least_that_makes_a_run_without_a_miss_rare(percentile: int) -> None:
    n = minimum_samples("auto", Fraction(percentile))
    q = Fraction(percentile, 100)
    assert q**n <= Fraction(1, 100) < q ** (n - 1)


def test_a_number_is_taken_for_every_percentile() -> None:
    assert minimum_samples(20, Fraction(99)) == 20


# Periods of the calendar


@pytest.mark.parametrize(
    ("unit", "timezone", "time", "start", "end"),
    [
        ("month", "UTC", "2026-02-15T12:00", "2026-02-01", "2026-03-01"),
        ("month", "UTC", "2026-02-01T00:00", "2026-02-01", "2026-03-01"),
        ("month", "UTC", "2026-12-31T23:59:59", "2026-12-01", "2027-01-01"),
        ("week", "UTC", "2026-11-29T23:59:59", "2026-11-23", "2026-11-30"),
        ("week", "UTC", "2026-11-30T00:00", "2026-11-30", "2026-12-07"),
        ("quarter", "UTC", "2028-02-29T12:00", "2028-01-01", "2028-04-01"),
        ("quarter", "UTC", "2026-12-31T12:00", "2026-10-01", "2027-01-01"),
        ("month", "Asia/Seoul", "2026-03-01T00:00", "2026-03-01", "2026-04-01"),
        ("month", "Europe/Berlin", "2026-03-31T12:00", "2026-03-01", "2026-04-01"),  # 743 hours
        ("week", "Europe/Berlin", "2026-10-25T23:59", "2026-10-19", "2026-10-26"),  # 169 hours
    ],
)
def test_a_period_of_the_calendar_begins_at_local_midnight(
    unit: CalendarUnit, timezone: str, time: str, start: str, end: str
) -> None:
    calendar = Calendar(unit=unit, timezone=timezone)
    assert calendar.bounds(at(time, timezone)) == (at(start, timezone), at(end, timezone))
    assert calendar.bounds(at(end, timezone))[0] == at(end, timezone)


def test_a_month_belongs_to_the_time_zone() -> None:
    at_ns = at("2026-02-28T16:00", "UTC")  # 01:00 on 1 March in Seoul
    assert Calendar(unit="month", timezone="Asia/Seoul").bounds(at_ns)[0] == at("2026-03-01", "Asia/Seoul")
    assert Calendar(unit="month", timezone="UTC").bounds(at_ns)[0] == at("2026-02-01", "UTC")


def test_a_period_of_the_calendar_is_read_with_its_zone_and_a_nominal_length() -> None:
    (slo,) = slos(f"{PLAIN}    - {TTFT}\n  goodput: {{target: 99%, period: month, timezone: Asia/Seoul}}\n")
    assert (slo.calendar, slo.period_ns) == (Calendar(unit="month", timezone="Asia/Seoul"), 30 * 86400 * SECOND)
    (slo,) = slos(f"{PLAIN}    - {TTFT}\n  goodput: {{target: 99%, period: week}}\n")
    assert slo.calendar == Calendar(unit="week", timezone="UTC")


def test_a_rolling_period_has_no_time_zone() -> None:
    (message,) = messages(f"{PLAIN}    - {TTFT}\n  goodput: {{target: 99%, period: 30d, timezone: UTC}}\n")
    assert (
        message == 'spec.goodput.timezone: must come with a period of the calendar: week, month, quarter, found "UTC"'
    )


# Summer time


@pytest.mark.parametrize(
    ("time", "covered"),
    [
        ("2026-03-29T00:59:59", True),  # 01:59:59 by the clock, and the next second is 03:00
        ("2026-03-29T01:00", False),
        ("2026-10-25T00:30", True),  # 02:30 for the first time
        ("2026-10-25T01:30", True),  # and for the second
        ("2026-10-25T02:00", False),
    ],
)
def test_a_schedule_goes_by_the_clock_on_the_wall(time: str, covered: bool) -> None:
    schedule = Schedule(days=frozenset({6}), start_minute=60, end_minute=180, timezone="Europe/Berlin")
    assert schedule.covers(at(time, "UTC")) is covered


def test_what_counts_outside_a_schedule_is_said() -> None:
    (slo,) = slos(f'{PLAIN}    - {TTFT}\n  schedule: {{from: "08:00", to: "09:00", outside: outcome_only}}\n')
    assert slo.schedule is not None
    assert slo.schedule.outside == "outcome_only"
    (message,) = messages(f'{PLAIN}    - {TTFT}\n  schedule: {{from: "08:00", to: "09:00", outside: all}}\n')
    assert message == 'spec.schedule.outside: must be one of: not_counted, outcome_only, found "all"'


# Batch

BATCH = PLAIN.replace("  objectives:\n", "  workload: batch\n")


def test_a_batch_workload_has_no_objectives_and_is_counted_end_to_end() -> None:
    (slo,) = slos(BATCH)
    assert (slo.workload, slo.objectives, slo.boundary) == ("batch", (), "end_to_end")
    assert slo.boundaries == {"end_to_end"}


@pytest.mark.parametrize(("goodput", "percentile"), [("", 100), ("  goodput: {target: 99.5%}\n", Fraction("99.5"))])
def test_a_deadline_is_a_limit_on_completion(goodput: str, percentile: Fraction) -> None:
    (slo,) = slos(f"{BATCH}  boundary: service\n  deadline: 6h\n{goodput}")
    assert slo.objectives == (
        Objective(
            name="deadline", metric="completion", boundary="service", percentile=Fraction(percentile),
            threshold_ns=6 * 3600 * SECOND, window_ns=3600 * SECOND, per_request=True,
        ),
    )  # fmt: skip


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (f"{PLAIN}    - {TTFT}\n  deadline: 6h\n", 'deadline: must come with workload: batch, found "6h"'),
        (f"{PLAIN}    - {TTFT}\n  boundary: model\n", 'boundary: must come with workload: batch, found "model"'),
        (
            f"{PLAIN}    - {TTFT}\n  workload: batch\n",
            "objectives: must be left out of a batch workload, which may have a deadline instead, found a list",
        ),
        (
            f"{BATCH}  goodput: {{target: 99%}}\n",
            "goodput: must come with a deadline: without one, a batch workload is not judged, found a mapping",
        ),
        (
            f"{BATCH}  policies: {{cancelled: bad}}\n",
            "policies: must come with a deadline: without one, a batch workload is not judged, found a mapping",
        ),
        (f"{BATCH}  deadline: 2d\n", 'deadline: must be at least 1us and at most 1d, found "2d"'),
        (f"{BATCH}  deadline: 6\n", "deadline: must be a duration with its unit, such as 500ms, 1.5s, 5m, 1h or 30d, "
                                    "found 6"),
    ],
)  # fmt: skip
def test_a_key_without_the_workload_it_is_for_is_refused(text: str, message: str) -> None:
    assert messages(text) == [f"spec.{message}"]


# Warnings


def warnings(text: str) -> list[str]:
    found: list[Problem] = []
    problems: list[Problem] = []
    assert read_slos(read(text, "slo.yaml", problems, {}, found), BOUNDARIES, ("class", "model"))
    assert problems == []
    return [f"{each.path}: {each.rule}" for each in found]


def test_alerts_that_can_never_fire_are_those_of_the_windows_in_force() -> None:
    found: list[Problem] = []
    text = f"{PLAIN}    - {changed()}\n  goodput: {{target: 90%}}\n"
    read_slos(read(text, "slo.yaml", [], {}, found), BOUNDARIES, None, built_in().burn[1:])
    assert found == []


def test_the_example_of_the_design_has_nothing_to_warn_of() -> None:
    assert warnings(EXAMPLE) == []


@pytest.mark.parametrize(
    ("objective", "rest", "advice"),
    [
        (
            changed(percentile="99.99"), "expected: {requests_per_hour: 600}",
            ["spec.objectives[0]: chat: p99.99 over 5m needs 10000 requests to be anything but the slowest of them, "
             "and about 50 are expected"],
        ),
        (
            changed(percentile="99.99"), "",
            ["spec.objectives[0]: chat: p99.99 over 5m needs 10000 requests to be anything but the slowest of them; "
             "say under expected what traffic there is"],
        ),
        (changed(percentile="99.99"), "expected: {requests_per_hour: 120000}", []),
        (changed(percentile="99.99"), "expected: {requests_per_hour: 119999}",
         ["spec.objectives[0]: chat: p99.99 over 5m needs 10000 requests to be anything but the slowest of them, "
          "and about 9999 are expected"]),
        (
            changed(), "policies: {minimum_samples: auto}\n  expected: {requests_per_hour: 60}",
            ["spec.objectives[0]: chat: p95 over 5m needs 90 requests to have data, and about 5 are expected"],
        ),
        (
            changed(), "goodput: {target: 90%}",
            ["spec.goodput: chat: there is no page over 1h and 5m: a burn rate above 14.4 cannot be reached, as with a "
             "target of 90% it is 10 at most"],
        ),
        (changed(), "goodput: {target: 99%, period: 7d}",
         ["spec.goodput: chat: the ticket over 3d and 6h fires at a burn rate of 0.23 already, at which the "
          "budget lasts longer than its period of 7d: `alerts` should have windows for it"]),
        (changed(), "goodput: {target: 99%, period: 28d}", []),
        (changed(metric="tpot"), "policies: {single_token: fail}", []),
        (
            changed(), "policies: {single_token: fail}",
            ["spec.policies: chat: single_token matters only where tpot limits a request, and none does"],
        ),
        (changed(), "goodput: {target: 93.1%}", []),
        (changed(), "goodput: {target: 90%, period: 20d}", []),
        (
            changed(), "goodput: {target: 100%}",
            ["spec.goodput: chat: a target of 100% leaves no error budget: the first bad request exhausts it, and no "
             "burn rate is defined"],
        ),
        (
            changed(per_request="false"), "goodput: {target: 99%}",
            ["spec.goodput: chat: no objective limits a request, so the target counts only how requests end"],
        ),
        (
            changed(percentile="50", window="1d"),
            "goodput: {target: 99.99%}\n  expected: {requests_per_hour: 10}",
            ["spec.goodput: chat: about 0.72 bad requests are allowed in the period, so one overspends the budget"],
        ),
    ],
)  # fmt: skip
def test_what_can_never_hold_is_a_warning_with_the_reason(objective: str, rest: str, advice: list[str]) -> None:
    assert warnings(f"{PLAIN}    - {objective}\n  {rest}\n") == advice
