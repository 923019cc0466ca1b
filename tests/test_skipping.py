"""What a run of the tests says of those that this machine cannot run."""

import os
import subprocess
import sys


def test_a_run_without_a_browser_says_which_tests_it_skipped_and_why(root, tmp_path):
    outside = {key: value for key, value in os.environ.items() if key != "REQUIRE_BROWSER"}
    found = subprocess.run(
        [sys.executable, "-m", "pytest", "-n", "1", "-p", "no:cacheprovider",
         "tests/workbench/browser/test_data.py"],
        cwd=root, env={**outside, "PATH": str(tmp_path)}, capture_output=True, text=True,
        timeout=300, check=False,
    )  # fmt: skip
    assert found.returncode == 0, found.stdout + found.stderr
    assert "SKIPPED" in found.stdout and ": no browser tests: no" in found.stdout
