from collections.abc import Mapping
from fractions import Fraction

import pytest

from slo_rules.document import MAX_CHARACTERS, Node, Problem, Problems, optional, read


def read_one(text: str, environment: Mapping[str, str] | None = None) -> tuple[Node, list[Problem]]:
    problems: list[Problem] = []
    nodes = read(text, "slo.yaml", problems, environment or {})
    assert len(nodes) == 1, Problems(problems)
    return nodes[0], problems


def only(problems: list[Problem]) -> str:
    assert len(problems) == 1, Problems(problems)
    return str(problems[0])


def test_a_problem_reads_as_file_line_column_path_rule_and_value() -> None:
    node, problems = read_one("spec:\n  objectives:\n    - {threshold: 500}\n")
    spec = node.fields("spec")["spec"].fields("objectives")
    assert spec["objectives"].items()[0].fields("threshold")["threshold"].duration() is None
    assert only(problems) == (
        "slo.yaml:3:19 spec.objectives[0].threshold: "
        "must be a duration with its unit, such as 500ms, 1.5s, 5m, 1h or 30d, found 500"
    )


def test_one_run_reports_every_mistake_once_and_in_the_order_of_the_file() -> None:
    node, problems = read_one("a: x\nb: 0\nc: [1]\nd: {}\n")
    fields = node.fields("a", "b", "c", "d")
    fields["d"].text()
    fields["c"].text()
    fields["b"].integer(low=1)
    fields["a"].integer()
    fields["a"].integer()
    assert str(Problems(problems)) == (
        'slo.yaml:1:4 a: must be a whole number, found "x"\n'
        "slo.yaml:2:4 b: must be at least 1, found 0\n"
        "slo.yaml:3:4 c: must be text, found a list\n"
        "slo.yaml:4:4 d: must be text, found a mapping"
    )


# Mappings and lists


def test_an_unknown_key_is_refused_with_the_key_that_was_meant() -> None:
    node, problems = read_one("treshold: 1s")
    assert node.fields("threshold", "window") == {}
    assert only(problems) == (
        'slo.yaml:1:1 treshold: must be a known key: threshold, window (did you mean threshold?), found "treshold"'
    )


def test_a_required_key_that_is_missing_or_empty_is_named() -> None:
    for text in ("other: 1", "window:\nother: 1"):
        node, problems = read_one(text)
        assert list(node.fields("other", required=["window"])) == ["other"]
        assert only(problems) == "slo.yaml:1:1 window: must be given, found nothing"


def test_an_optional_key_without_a_value_counts_as_not_given() -> None:
    node, problems = read_one("window:")
    assert node.fields("window") == {}
    assert problems == []


def test_a_key_given_twice_is_refused_at_its_second_place() -> None:
    node, problems = read_one("a: 1\nb: 2\na: 3\n")
    assert node.fields("a", "b")["a"].integer() == 1
    assert only(problems) == "slo.yaml:3:1 a: must be given once, found it again"


def test_keys_of_the_users_own_keep_their_text_and_their_place() -> None:
    node, problems = read_one("app.kubernetes.io/name: x\n8: y\non: z\n")
    assert [name for name, _, _ in node.entries()] == ["app.kubernetes.io/name", "8", "on"]
    node.entries()[0][2].integer()
    node.entries()[1][1].problem("must be another")
    assert list(map(str, problems)) == [
        'slo.yaml:1:25 ["app.kubernetes.io/name"]: must be a whole number, found "x"',
        "slo.yaml:2:1 8: must be another, found 8",
    ]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("? [a]\n: 1", "1:3: must have keys of text, found a list"),
        ("'': 1", '1:1: must have keys of text, found ""'),
        ("<<: {a: 1}", "1:1: must have its keys written out, without <<, found <<"),
    ],
)
def test_a_key_that_is_not_text_is_refused(text: str, message: str) -> None:
    node, problems = read_one(text)
    assert node.entries() == []
    assert only(problems) == f"slo.yaml:{message}"


@pytest.mark.parametrize("text", ["x", "[x]", "5"])
def test_what_is_no_mapping_has_no_fields(text: str) -> None:
    node, problems = read_one(text)
    assert node.fields("a", required=["b"]) == {}
    assert "must be a mapping, written as key: value, found" in only(problems)


def test_a_list_may_be_required_or_may_be_one_value() -> None:
    node, problems = read_one("a: x\nb: [y, z]\n")
    fields = node.fields("a", "b")
    assert [item.text() for item in fields["a"].items_or_one()] == ["x"]
    assert [item.text() for item in fields["b"].items_or_one()] == ["y", "z"]
    assert problems == []
    assert fields["a"].items() == []
    assert only(problems) == 'slo.yaml:1:4 a: must be a list, written as [a, b], found "x"'


def test_an_optional_field_falls_back_where_it_is_missing_or_wrong() -> None:
    node, problems = read_one("a: x\nb: 2\n")
    fields = node.fields("a", "b", "c")
    assert [optional(fields, key, Node.integer, 7) for key in "abc"] == [7, 2, 7]
    assert only(problems) == 'slo.yaml:1:4 a: must be a whole number, found "x"'


# Values


@pytest.mark.parametrize(("text", "advice"), [("5", '"5"'), ("true", '"true"'), ("1.5", '"1.5"'), ("no", '"no"')])
def test_a_number_or_a_boolean_passes_for_text_only_where_that_is_said(text: str, advice: str) -> None:
    node, problems = read_one(f"- {text}")
    (item,) = node.items()
    assert item.text(loose=True) == text
    assert item.text() is None
    assert only(problems) == f"slo.yaml:1:3 [0]: must be text: write {advice}, found {text}"


def test_a_choice_is_read_by_its_spelling_even_if_yaml_sees_a_boolean() -> None:
    node, problems = read_one("no")
    assert node.choice("auto", "yes", "no") == "no"
    assert node.choice("not_applicable", "fail") is None
    assert only(problems) == "slo.yaml:1:1: must be one of: not_applicable, fail, found no"


def test_text_matches_its_whole_pattern_and_the_message_is_the_rule() -> None:
    node, problems = read_one("Chat!")
    assert node.text(pattern="[A-Z].*") == "Chat!"
    assert node.text(pattern="[A-Z][a-z]+", rule="must be a word") is None
    assert node.text(pattern="[a-z]+") is None
    assert list(map(str, problems)) == [
        'slo.yaml:1:1: must be a word, found "Chat!"',
        'slo.yaml:1:1: must match [a-z]+, found "Chat!"',
    ]


def test_text_is_never_empty() -> None:
    node, problems = read_one("''")
    assert node.text() is None
    assert only(problems) == 'slo.yaml:1:1: must not be empty, found ""'


@pytest.mark.parametrize("text", ["true", "1.0", "0x10", "010", "1_000", "1e3", "9" * 5000, "''", "[1]"])
def test_an_integer_is_plain_decimal_digits(text: str) -> None:
    node, problems = read_one(f"- {text}")
    assert node.items()[0].integer() is None
    assert "[0]: must be a whole number, found" in only(problems)


@pytest.mark.parametrize(
    ("low", "high", "message"),
    [
        (6, None, "must be at least 6"),
        (None, 4, "must be at most 4"),
        (1, 4, "must be at least 1 and at most 4"),
    ],
)
def test_bounds_are_part_of_the_rule(low: int | None, high: int | None, message: str) -> None:
    node, problems = read_one("5")
    assert node.integer(5, 5) == 5
    assert node.integer(low, high) is None
    assert only(problems) == f"slo.yaml:1:1: {message}, found 5"


def test_a_number_is_exact() -> None:
    node, problems = read_one("0.1")
    assert node.number(0, 1) == Fraction(1, 10)
    assert node.number(Fraction(1, 2)) is None
    assert only(problems) == "slo.yaml:1:1: must be at least 0.5, found 0.1"


@pytest.mark.parametrize("text", ["1e400", ".inf", "nan", "1" * 30, "true"])
def test_a_number_has_no_exponent_and_is_finite(text: str) -> None:
    node, problems = read_one(text)
    assert node.number() is None
    assert "must be a number, written without an exponent" in only(problems)


def test_booleans_are_the_words_of_yaml() -> None:
    node, problems = read_one("[true, yes, On, false, no, 'off', 1]")
    assert [item.boolean() for item in node.items()] == [True, True, True, False, False, False, None]
    assert only(problems) == "slo.yaml:1:35 [6]: must be true or false, found 1"


def test_quantities_are_read_with_their_units() -> None:
    node, problems = read_one("[1.5s, 20MiB, p99.9, 99%, 0.99]")
    duration, size, percentile, percent, ratio = node.items()
    assert duration.duration() == 1_500_000_000
    assert size.size() == 20 * 2**20
    assert percentile.percentile() == Fraction(999, 10)
    assert percent.ratio() == ratio.ratio() == Fraction(99, 100)
    assert problems == []


def test_bounds_of_quantities_are_shown_with_their_units() -> None:
    node, problems = read_one("[5s, 1KiB]")
    duration, size = node.items()
    assert duration.duration(low_ns=10 * 10**9, high_ns=7 * 86400 * 10**9) is None
    assert size.size(low=2**20) is None
    assert [problem.rule for problem in problems] == ["must be at least 10s and at most 7d", "must be at least 1MiB"]


def test_a_long_value_is_cut_in_the_message() -> None:
    node, problems = read_one("x" * 1000)
    node.integer()
    assert problems[0].found == f'"{"x" * 57}..."'


# Variables


def test_a_variable_is_replaced_and_may_stand_for_text_or_a_number_quoted_or_not() -> None:
    node, problems = read_one(
        'a: ${N}\nb: ["${N}", "x-${HOST}-${N}", "${FLAG}"]', {"N": "5", "HOST": "h", "FLAG": "true"}
    )
    fields = node.fields("a", "b")
    quoted, mixed, flag = fields["b"].items()
    assert fields["a"].integer() == quoted.integer() == 5
    assert fields["a"].text() == "5"
    assert mixed.text() == "x-h-5"
    assert flag.boolean() is True
    assert problems == []


def test_a_variable_never_adds_structure() -> None:
    node, problems = read_one("a: ${X}", {"X": "[1, 2]\nb: 3"})
    assert node.fields("a")["a"].items() == []
    assert only(problems) == 'slo.yaml:1:4 a: must be a list, written as [a, b], found "[1, 2]\\nb: 3"'


def test_an_unset_variable_is_the_only_problem_of_its_value() -> None:
    node, problems = read_one("a: ${NO}")
    assert node.fields("a")["a"].duration() is None
    assert only(problems) == (
        "slo.yaml:1:4 a: must name a variable of the environment, or be written $${NO}, found ${NO}"
    )


def test_every_unset_variable_of_a_value_is_named() -> None:
    _, problems = read_one("${A}-${B}")
    assert [problem.found for problem in problems] == ["${A}", "${B}"]


def test_a_variable_in_a_key_is_replaced_too() -> None:
    node, problems = read_one("${MODEL}: 8\n${NO}: 1\n", {"MODEL": "llama"})
    assert [(name, key.path, value.path) for name, key, value in node.entries()] == [("llama", "llama", "llama")]
    assert only(problems).startswith("slo.yaml:2:1: must name a variable of the environment")


def test_two_dollars_keep_the_braces() -> None:
    node, problems = read_one("$${NAME}")
    assert node.text() == "${NAME}"
    assert problems == []


# Files that are no YAML, or too much of it


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("a: [1", "1:6: must be YAML (while parsing a flow sequence, "),
        ("a: b\n c: d", "2:3: must be YAML (mapping values are not allowed here), found "),
        ("\ta: 1", "1:1: must be YAML (while scanning for the next token, "),
        ("- *x", "1:3: must be YAML (found undefined alias 'x')"),
        ("&a [*a]", "1:5: must be YAML (an alias that holds itself)"),
        ("!!python/name:os.system x", "1:1: must be YAML (tags have no meaning here)"),
        ('a: "\\uD800"', "1:4: must be YAML (NUL and halves of surrogate pairs are no characters)"),
        ('a: "\\0"', "1:4: must be YAML (NUL and halves of surrogate pairs are no characters)"),
        ('a: "\\UFFFFFFFF"', "1:7: must be YAML, found an escape or a number out of range"),
        ("%YAML " + "1" * 5000, "1:7: must be YAML, found an escape or a number out of range"),
        ("a: 1\nb: \x07", '2:4: must be text without control characters, found "\\u0007"'),
        ("[" * 100_000, "1:51: must be YAML (more than 50 levels), found "),
        ("#" * (MAX_CHARACTERS + 1), f"1:1: must have at most {MAX_CHARACTERS} characters, found 1048577"),
    ],
)
def test_a_file_that_cannot_be_read_is_one_problem_with_a_place(text: str, message: str) -> None:
    problems: list[Problem] = []
    assert read(text, "slo.yaml", problems, {}) == []
    assert only(problems).startswith(f"slo.yaml:{message}")


def test_a_variable_that_needs_quotes_is_told_so() -> None:
    problems: list[Problem] = []
    read("web: {listen: ${HOST}}", "x.yaml", problems, {"HOST": ":9464"})
    assert 'inside { } and [ ] write "${NAME}" in quotes), found "web: {listen: ${HOST}}"' in only(problems)


def test_aliases_that_multiply_are_stopped() -> None:
    lines = ["- &a0 [x, x, x, x, x, x, x, x, x, x]"]
    lines += [f"- &a{i + 1} [{', '.join([f'*a{i}'] * 10)}]" for i in range(9)]
    problems: list[Problem] = []
    assert read("\n".join(lines), "bomb.yaml", problems, {}) == []
    assert "bomb.yaml:5:3: must be YAML (more than 20000 values, aliases written out)" in only(problems)


def test_an_alias_stands_for_what_it_names() -> None:
    node, problems = read_one("a: &t 1s\nb: *t\n")
    assert node.fields("a", "b")["b"].duration() == 10**9
    assert problems == []


def test_every_document_of_a_file_is_read_and_empty_ones_are_left_out() -> None:
    problems: list[Problem] = []
    nodes = read("---\n---\na: 1\n---\n# nothing\n---\nb: 2\n", "x.yaml", problems, {})
    assert [name for node in nodes for name, _, _ in node.entries()] == ["a", "b"]
    assert read("# only a comment\n", "x.yaml", problems, {}) == []
    assert problems == []


def test_the_documents_before_a_syntax_error_are_still_read() -> None:
    problems: list[Problem] = []
    assert len(read("a: 1\n---\nb: [", "x.yaml", problems, {})) == 1
    assert len(problems) == 1
