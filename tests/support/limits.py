"""How long a test waits for something before it is called a hang. No verdict may depend on how fast a machine is."""
import os
import time

# Seconds. ctest's limits scale with the same factor (cmake/ChimereTests.cmake).
HANG = 60 * int(os.environ.get("TEST_TIMEOUT_FACTOR", 5))


def wait_for(condition, what):
    """The first true value of condition(), asked again and again; an AssertionError that names `what` after HANG seconds."""
    end = time.monotonic() + HANG
    while not (value := condition()):
        assert time.monotonic() < end, f"waited {HANG} s for {what}"
        time.sleep(0.005)
    return value
