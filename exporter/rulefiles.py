"""Rules and their tests on disk: SLO files in, rule and test files out, and promtool to run these."""

import os
import shutil
import subprocess
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Final, NamedTuple

from exporter.serve import Files, read_files
from slo_rules.rules import RuleSet, RuleSettings, generate, write_prometheus
from slo_rules.ruletests import unit_tests
from slo_rules.slo import SLO

RULE_FILE: Final = "goodput.rules.yml"


class Made(NamedTuple):
    """Rules, and what they are made of."""

    rules: RuleSet
    slos: Sequence[SLO]
    settings: RuleSettings

    def write(self, folder: str) -> list[str]:
        """Write rules and tests into a folder, which is made if it is not there; the names of the tests.

        Raises OSError.
        """
        files = {RULE_FILE: write_prometheus(self.rules), **unit_tests(self.slos, self.settings)}
        os.makedirs(folder, exist_ok=True)
        for name, text in files.items():
            Path(folder, name).write_text(text, encoding="utf-8")
        return [name for name in files if ".tests-" in name]


class Answer(NamedTuple):
    """What promtool says."""

    passed: bool
    output: str


def make(files: Files, scrape_interval_ns: int, runbook_url: str, environment: Mapping[str, str]) -> Made:
    """The rules of the SLOs that files declare. Raises Problems, and RangeTooShort for a window."""
    declared = read_files(files, environment)
    settings = RuleSettings(
        windows=declared.settings.alerts, scrape_interval_ns=scrape_interval_ns, runbook_url=runbook_url
    )
    return Made(generate(declared.slos, settings), declared.slos, settings)


def run_promtool(program: str, folder: str, tests: Sequence[str]) -> Answer | None:
    """Check the rules and run the tests; None where there is no such program."""
    found = shutil.which(program)
    if found is None:
        return None
    commands = [["check", "rules", RULE_FILE], *(["test", "rules", name] for name in tests)]

    def run(command: list[str]) -> "subprocess.CompletedProcess[str]":
        return subprocess.run(
            [os.path.abspath(found), *command], cwd=folder, capture_output=True, text=True, check=False
        )

    with ThreadPoolExecutor(os.cpu_count()) as pool:  # one promtool keeps one processor busy
        runs = list(pool.map(run, commands))
    return Answer(not any(each.returncode for each in runs), "".join(each.stdout + each.stderr for each in runs))
