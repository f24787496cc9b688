"""The time after which a wait in a test counts as a hang. No test result may depend on the machine's speed."""
import os
import time

# Seconds. ctest's limits scale with the same factor (cmake/ChimereTests.cmake).
HANG = 60 * int(os.environ.get("TEST_TIMEOUT_FACTOR", 5))


def wait_for(condition, what):
    """Polls condition() and returns its first true value; raises an AssertionError that names `what` after HANG seconds."""
    end = time.monotonic() + HANG
    while not (value := condition()):
        assert time.monotonic() < end, f"waited {HANG} s for {what}"
        time.sleep(0.005)
    return value
