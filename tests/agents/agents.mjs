// Published agents against `chimere serve` with the shipped model, each through another API. Told to correct a typo, an
// agent edits the file by a call of its tool, sends the result back, and ends:
//   agents.mjs CHIMERE MODEL [AGENT..]
// The small model cannot do this by itself. An n-gram table (docs/engram.md) has learned two answers from ends of prompts:
// a call of the tool after the task, and a last message after a result. With --engram-gate always and --top-k 1 the model
// follows it; template, reasoning, constraint, parser and API are those of any other generation.
import assert from 'node:assert/strict';
import {execFileSync, spawn} from 'node:child_process';
import {once} from 'node:events';
import {mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync} from 'node:fs';
import {tmpdir} from 'node:os';
import {join} from 'node:path';
import {startServer} from '../clients/server.mjs';

const [program, modelFile, ...names] = process.argv.slice(2);
const modules = join(import.meta.dirname, 'node_modules');
const TASK = 'Correct the typo in notes.txt.';
const COMMAND = 'sed -i s/teh/the/ notes.txt';
const LAST = 'The typo in notes.txt is corrected.';
const MINUTES = 8;

// `task`: the end of the first prompt; `file`, `text`: a file of settings; `args`, `variables`: of the program.
const agents = {
  codex: {
    program: join(modules, 'codex-linux-x64/vendor/x86_64-unknown-linux-musl/bin/codex'),
    route: '/v1/responses',
    tool: {name: 'exec_command', arguments: {cmd: COMMAND}},
    task: TASK,
    file: 'home/.codex/config.toml',
    text: (url, model) => `model = "${model}"\nmodel_provider = "chimere"\n` +
      `model_providers.chimere = {name = "Chimère", base_url = "${url}/v1", wire_api = "responses"}\n`,
    args: () => ['exec', '--skip-git-repo-check', '--dangerously-bypass-approvals-and-sandbox', TASK],
  },
  claude: {
    program: join(modules, '@anthropic-ai/claude-code-linux-x64/claude'),
    route: '/v1/messages',
    tool: {name: 'Bash', arguments: {command: COMMAND, description: 'Correct the typo'}},
    task: `Today's date is ${new Date().toLocaleDateString('sv-SE')}.`,
    args: () => ['-p', '--allowedTools', 'Bash', '--', TASK],
    variables: (url, model) => ({ANTHROPIC_BASE_URL: url, ANTHROPIC_AUTH_TOKEN: 'any', ANTHROPIC_MODEL: model,
      ANTHROPIC_DEFAULT_HAIKU_MODEL: model, CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC: '1'}),
  },
  opencode: {
    program: join(modules, 'opencode-linux-x64/bin/opencode'),
    route: '/v1/chat/completions',
    tool: {name: 'bash', arguments: {command: COMMAND, description: 'Correct the typo'}},
    task: `"${TASK}"`,
    file: 'work/opencode.json',
    text: (url, model) => JSON.stringify({provider: {chimere: {npm: '@ai-sdk/openai-compatible',
      options: {baseURL: `${url}/v1`}, models: {[model]: {}}}}}),
    args: (model) => ['run', '-m', `chimere/${model}`, TASK],
    variables: () => ({OPENCODE_DISABLE_AUTOUPDATE: '1', OPENCODE_DISABLE_MODELS_FETCH: '1'}),
  },
};

// Ends of prompts as the template writes them, with the answers that follow. The table's contexts have eight tokens: they tell the
// first words of the answers apart, and different first words what follows.
function script({task, tool}) {
  const answer = (prompt, reasoning, text) =>
    `${prompt}<|im_end|>\n<|im_start|>assistant\n<think>\n${reasoning}\n</think>\n\n${text}<|im_end|>\n`;
  const call = `{"name": "${tool.name}", "arguments": ${JSON.stringify(tool.arguments)}}`;
  return [answer(task, 'A typo is in the file, and sed can correct it.', `<tool_call>\n${call}\n</tool_call>`),
    answer('<tool_response>\nDone.\n</tool_response>', 'The command has succeeded.', LAST)].join('\0');
}

async function runAgent(agent, server, folder) {
  const work = join(folder, 'work');
  const notes = join(work, 'notes.txt');
  writeFileSync(notes, 'teh cat\n');
  if (agent.file) {
    mkdirSync(join(folder, agent.file, '..'), {recursive: true});
    writeFileSync(join(folder, agent.file), agent.text(server.url, server.model));
  }
  const home = join(folder, 'home');
  const child = spawn(agent.program, agent.args(server.model), {cwd: work, stdio: ['ignore', 'pipe', 'pipe'], timeout: MINUTES * 60_000,
    env: {PATH: process.env.PATH, HOME: home, TMPDIR: folder, LANG: 'C.UTF-8', NO_COLOR: '1', ...agent.variables?.(server.url, server.model)}});
  let said = '';
  let log = '';
  child.stdout.on('data', (bytes) => said += bytes);
  child.stderr.on('data', (bytes) => log += bytes);
  const [code] = await once(child, 'close');
  assert.equal(code, 0, `${said}\n${log}`);
  assert.equal(readFileSync(notes, 'utf8'), 'the cat\n', `${said}\n${log}`);
  assert.ok(`${said}${log}`.includes(LAST), `${said}\n${log}`);
}

// Requests that succeeded and failed, by route.
async function requests(url) {
  const text = await (await fetch(`${url}/metrics`)).text();
  return [...text.matchAll(/^chimere_http_requests_total\{(.*)\} (\d+)$/gm)].map(([, labels, count]) =>
    ({route: labels.match(/route="([^"]*)"/)[1], status: labels.match(/status="([^"]*)"/)[1], count: Number(count)}));
}

for (const name of names.length ? names : Object.keys(agents)) {
  const agent = agents[name];
  const folder = mkdtempSync(join(tmpdir(), 'agent-'));
  for (const part of ['home', 'work']) mkdirSync(join(folder, part));
  const texts = join(folder, 'script.txt');
  const table = join(folder, 'script.engr');
  writeFileSync(texts, script(agent));
  execFileSync(program, ['engram', 'build', '--special', '--order', '8', '--weight', '10000', '-m', modelFile, '-o', table, texts]);
  const begun = Date.now();
  const server = await startServer(program, modelFile, '--engram', table, '--engram-gate', 'always', '--engram-thinking',
    '--reasoning', 'high', '--top-k', '1', '--state-folder', join(folder, 'state'));
  try {
    await runAgent(agent, server, folder);
    const counts = await requests(server.url);
    assert.ok(counts.some((r) => r.route === agent.route && r.status === '200' && r.count >= 2), JSON.stringify(counts));
    assert.ok(counts.every((r) => Number(r.status) < 400 || r.route === 'other'), JSON.stringify(counts));
    console.log(`${name}: edited the file by a call and ended, ${((Date.now() - begun) / 1000).toFixed(1)} s`);
  } finally {
    server.child.kill();
    await once(server.child, 'exit');
    rmSync(folder, {recursive: true, force: true});
  }
}
