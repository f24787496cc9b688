// `chimere serve` as a child of the test, on a port that it chooses.
import {execFileSync, spawn} from 'node:child_process';
import {join} from 'node:path';
import {createInterface} from 'node:readline';

export class RealServer {
  /// `port`: 0: any. The state folder is in `folder`.
  static async start(program, model, folder, {keys = false, port = 0, flags = []} = {}) {
    const self = new RealServer();
    const settings = Object.entries(process.env).filter(([name]) => !/^(CHIMERE|HF|XDG)_/.test(name));
    const options = {env: {...Object.fromEntries(settings), HOME: folder}};
    const all = [...flags, '--state-folder', join(folder, 'state')];
    if (keys) {
      const file = join(folder, 'keys.json');
      self.key = execFileSync(program, ['keys', 'add', 'studio', '--keys', file],
                              {...options, stdio: ['ignore', 'pipe', 'ignore']}).toString().trim();
      all.push('--keys', file);
    }
    self.child = spawn(program, ['serve', '--json', '--port', String(port), '-m', model, ...all],
                       {...options, stdio: ['ignore', 'pipe', 'ignore']});
    self.ended = new Promise((resolve) => self.child.on('exit', resolve));
    for await (const line of createInterface({input: self.child.stdout})) {
      return Object.assign(self, {url: `${JSON.parse(line).url}/`});
    }
    throw new Error('the server did not start');
  }

  get port() { return Number(new URL(this.url).port); }

  kill() {
    this.child.kill('SIGKILL');
    return this.ended;
  }
}
