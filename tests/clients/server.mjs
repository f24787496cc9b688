// Runs `chimere serve` for a test.
import {spawn} from 'node:child_process';
import {createInterface} from 'node:readline';

export async function startServer(program, modelFile, ...flags) {
  const child = spawn(program, ['serve', '--json', '--port', '0', '-m', modelFile, ...flags], {
    stdio: ['ignore', 'pipe', 'ignore'],
  });
  for await (const line of createInterface({input: child.stdout})) {
    return {child, ...JSON.parse(line)};
  }
  throw new Error('the server did not start');
}
