// Waiting, for tests.

const WAIT_MS = 60000 * Number(process.env.TEST_TIMEOUT_FACTOR ?? 1);  // for hangs only

/// Polls until `condition` holds.
export async function wait(condition) {
  const began = Date.now();
  while (!await condition()) {
    if (Date.now() - began > WAIT_MS) throw new Error(`waited in vain for ${condition}`);
    await new Promise((resolve) => setTimeout(resolve, 20));
  }
}
