#!/usr/bin/env python3
"""Checks how the tests are registered: each has a label of those that the make targets choose by, and a limit for hangs that
scales with the factor that its own waits scale with.

  test_properties_test.py CTEST BUILD
"""
import json
import subprocess
import sys

LABELS = {"fast", "full", "nightly", "gpu"}


def faults(tests):
    """What is wrong with these entries of `ctest --show-only=json-v1`, as printable lines."""
    for test in tests:
        has = {entry["name"]: entry["value"] for entry in test.get("properties", [])}
        labels = set(has.get("LABELS", []))
        if not labels:
            yield f"{test['name']}: no label; give it one of {', '.join(sorted(LABELS))}"
        for label in sorted(labels - LABELS):
            yield f"{test['name']}: an unknown label, {label}"
        if not has.get("TIMEOUT"):
            yield f"{test['name']}: no limit for hangs"
        if not any(variable.startswith("TEST_TIMEOUT_FACTOR=") for variable in has.get("ENVIRONMENT", [])):
            yield f"{test['name']}: no TEST_TIMEOUT_FACTOR; register it with chimere_add_test()"


def self_test():
    def entry(**properties):
        return {"name": "t", "properties": [{"name": name, "value": value} for name, value in properties.items()]}

    good = {"LABELS": ["fast"], "TIMEOUT": 600.0, "ENVIRONMENT": ["TEST_TIMEOUT_FACTOR=5"]}
    assert not list(faults([entry(**good)]))
    for without in good:
        assert len(list(faults([entry(**{k: v for k, v in good.items() if k != without})]))) == 1, without
    assert "slow" in next(faults([entry(**{**good, "LABELS": ["fast", "slow"]})]))


def main():
    self_test()
    ctest, build = sys.argv[1:]
    told = subprocess.run([ctest, "--test-dir", build, "--show-only=json-v1"], capture_output=True, text=True, check=True)
    tests = json.loads(told.stdout)["tests"]
    found = list(faults(tests))
    print(*found, f"{len(tests)} tests, {len(found)} faults", sep="\n")
    return 1 if found or not tests else 0


if __name__ == "__main__":
    sys.exit(main())
