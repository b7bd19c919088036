"""Rules and their tests on disk: SLO files in, rule and test files out, and promtool to run these."""

import os
import shutil
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final, NamedTuple

from exporter.serve import Files, read_files, read_text
from slo_rules.burn import AlertWindows, built_in, read_windows
from slo_rules.document import Problem, Problems
from slo_rules.rules import RuleSet, RuleSettings, generate, write_prometheus
from slo_rules.ruletests import unit_tests

RULE_FILE: Final = "goodput.rules.yml"


class Made(NamedTuple):
    """Rules, and the files of tests for them by name."""

    rules: RuleSet
    tests: Mapping[str, str]

    def write(self, folder: str) -> list[str]:
        """Write all of it into a folder, which is made if it is not there; the names of the tests. Raises OSError."""
        os.makedirs(folder, exist_ok=True)
        for name, text in {RULE_FILE: write_prometheus(self.rules), **self.tests}.items():
            Path(folder, name).write_text(text, encoding="utf-8")
        return list(self.tests)


class Answer(NamedTuple):
    """What promtool says."""

    passed: bool
    output: str


def make(
    files: Files, windows_file: str | None, scrape_interval_ns: int, runbook_url: str, environment: Mapping[str, str]
) -> Made:
    """The rules and tests of the SLOs that files declare. Raises Problems, and RangeTooShort for a window."""
    slos = read_files(files, environment).slos
    settings = RuleSettings(
        windows=_windows(windows_file, environment), scrape_interval_ns=scrape_interval_ns, runbook_url=runbook_url
    )
    return Made(generate(slos, settings), unit_tests(slos, settings, RULE_FILE))


def _windows(path: str | None, environment: Mapping[str, str]) -> AlertWindows:
    if path is None:
        return built_in()
    problems: list[Problem] = []
    text = read_text(path, problems)
    if problems:
        raise Problems(problems)
    return read_windows(text, path, environment, built_in())


def run_promtool(program: str, folder: str, tests: Sequence[str]) -> Answer | None:
    """Check the rules and run the tests; None where there is no such program."""
    found = shutil.which(program)
    if found is None:
        return None
    commands = [["check", "rules", RULE_FILE], ["test", "rules", *tests]]
    output = []
    for command in commands:
        run = subprocess.run(
            [os.path.abspath(found), *command], cwd=folder, capture_output=True, text=True, check=False
        )
        output.append(run.stdout + run.stderr)
        if run.returncode:
            return Answer(False, "".join(output))
    return Answer(True, "".join(output))
