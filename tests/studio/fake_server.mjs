// A server for Studio's files whose answers the test controls, so that a generation can be slow, break or be refused at a
// chosen moment. It keeps conversations in memory, as chimere does in a file.
import {readFileSync} from 'node:fs';
import {createServer} from 'node:http';
import {join} from 'node:path';

const TYPES = {
  html: 'text/html; charset=utf-8', js: 'text/javascript; charset=utf-8', css: 'text/css; charset=utf-8',
  svg: 'image/svg+xml', woff2: 'font/woff2',
};
/// As chimere sends them (src/serving/endpoints/studio_endpoint.cc); real_test.mjs compares.
export const POLICY =
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data: blob:; font-src 'self'; " +
    "connect-src 'self'; frame-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'; " +
    "require-trusted-types-for 'script'; trusted-types dompurify";
export const DIAGRAM_POLICY =
    "default-src 'none'; script-src 'self'; style-src 'unsafe-inline'; base-uri 'none'; form-action 'none'; " +
    "frame-ancestors 'self'; sandbox allow-scripts";

// One request for a chat completion, answered step by step.
class Generation {
  constructor(body, response, model) {
    this.model = model;
    this.body = body;
    this.messages = body.messages;
    this.response = response;
    this.closed = new Promise((resolve) => response.on('close', resolve));
  }

  event(value) {
    this.response.write(`data: ${JSON.stringify(value)}\n\n`);
  }

  delta(delta, more = {}) {
    this.event({model: this.model, choices: [{index: 0, delta, finish_reason: null, ...more}]});
  }

  say(content) { this.delta({content}); }
  reason(text) { this.delta({reasoning_content: text}); }

  // A token with log-probabilities: [[text, logprob], ...], the chosen one first.
  token(alternatives, more = {}) {
    const [[token, logprob]] = alternatives;
    const top_logprobs = alternatives.map(([text, p]) => ({token: text, logprob: p}));
    this.delta({content: token}, {logprobs: {content: [{token, logprob, top_logprobs, ...more}]}});
  }

  call(name, argumentsText, id = 'call_1', index = 0) {
    this.delta({tool_calls: [{index, id, type: 'function', function: {name, arguments: argumentsText}}]});
  }

  finish(reason = 'stop', usage = null) {
    this.event({model: this.model, choices: [{index: 0, delta: {}, finish_reason: reason}]});
    if (usage) this.event({model: this.model, choices: [], usage});
    this.response.end('data: [DONE]\n\n');
  }

  answer(content) {
    this.say(content);
    this.finish();
  }

  refuse(status, body) {
    this.response.writeHead(status, {'Content-Type': 'application/json'});
    this.response.end(typeof body === 'string' ? body : JSON.stringify({error: body}));
  }

  fail(message) {
    this.event({error: {message}});
    this.response.end();
  }

  // Ends the stream like a proxy that loses the server: without an error and without the last event.
  end() { this.response.end(); }
  cut() { this.response.destroy(); }
}

export class FakeServer {
  model = 'fake-model';
  key = '';  // when set, requests without it get 401
  gone = false;  // whether connections are closed without a response
  keepsHistory = true;
  conversations = new Map();
  collections = new Map();  // by name: documents by name
  passage = {note: '', title: '', place: 'line 3'};  // of every document
  added = [];  // documents that were sent
  keys = new Map([['ann', {name: 'ann', scopes: ['inference', 'metrics'], parallel: 4, per_minute: 0, tokens_per_day: 100000, tokens_today: 1234}]]);
  requests = [];  // paths
  readings = 0;   // of the metrics
  generated = 0;

  constructor(built) {
    this.built = built;
    this.waiting = [];  // resolvers of next()
    this.generations = [];  // not yet taken by next()
    this.server = createServer((request, response) => this.handle(request, response).catch(() => response.destroy()));
  }

  async start() {
    await new Promise((resolve) => this.server.listen(0, '127.0.0.1', resolve));
    this.url = `http://127.0.0.1:${this.server.address().port}/`;
  }

  close() {
    this.server.close();
    this.server.closeAllConnections();
  }

  // The next request for a chat completion.
  next() {
    if (this.generations.length) return Promise.resolve(this.generations.shift());
    return new Promise((resolve) => this.waiting.push(resolve));
  }

  file(path, response) {
    const name = path === '/' ? 'index.html' : path === '/favicon.ico' ? 'favicon.svg' : path.slice('/studio/'.length);
    const headers = {
      'Content-Type': TYPES[name.split('.').pop()], 'Cache-Control': 'no-cache',
      'Content-Security-Policy': name === 'diagram.html' ? DIAGRAM_POLICY : POLICY,
    };
    try {
      if (name === 'index.html' || name.endsWith('.woff2')) {
        return response.writeHead(200, headers).end(readFileSync(join(this.built, name)));
      }
      const content = readFileSync(join(this.built, `${name}.gz`));
      return response.writeHead(200, {...headers, 'Content-Encoding': 'gzip'}).end(content);
    } catch {
      return response.writeHead(404).end();
    }
  }

  async handle(request, response) {
    if (this.gone) return request.socket.destroy();
    const url = new URL(request.url, this.url);
    const path = url.pathname;
    this.requests.push(path);
    if (path === '/' || path === '/favicon.ico' || path.startsWith('/studio/')) return this.file(path, response);
    if (path === '/health') return response.end('{"status":"ok"}');
    const json = (value, status = 200) =>
      response.writeHead(status, {'Content-Type': 'application/json'}).end(JSON.stringify(value));
    if (this.key && request.headers.authorization !== `Bearer ${this.key}`) {
      return json({error: {message: "Send a key of this server as 'Authorization: Bearer KEY'."}}, 401);
    }
    let text = '';
    for await (const piece of request) text += piece;
    const body = text ? JSON.parse(text) : {};
    if (path === '/v1/models') {
      return json({data: [this.model].flat().map((id, i) => ({id, state: i ? 'absent' : 'ready', context_length: 4096}))});
    }
    if (path === '/v1/options') {
      return json({data: [
        {field: 'temperature', flag: '--temp', type: 'number', help: 'Temperature', default: 0.7, min: 0, max: 100},
        {field: 'top_k', flag: '--top-k', type: 'integer', help: 'Keep the k most likely tokens', default: 20, min: 0, max: 1000},
        {field: 'seed', flag: '--seed', type: 'integer', help: 'Random seed', default: -1, min: -1, max: 1e15},
        {field: 'samplers', flag: '--samplers', type: 'list', help: 'Samplers in order', default: ['top_k'], choices: ['top_k', 'top_p']},
        {field: 'mirostat', flag: '--mirostat', type: 'integer', help: 'Mirostat', default: 0, min: 0, max: 2, choices: ['0', '2']},
      ]});
    }
    if (path.startsWith('/v1/conversations')) return this.history(request.method, path, url, body, json);
    if (path === '/v1/engram') {
      return json({data: [{name: 'notes', ngrams: 1200, contexts: 400, bytes: 20480, sources: ['studio']}]});
    }
    if (path.startsWith('/v1/collections')) return this.collectionRoutes(request.method, path, url, body, json);
    if (path === '/v1/requests') {
      return json({data: [{id: 'req-1', key: 'ann', route: '/v1/chat/completions', bytes: 2048, seconds: 3.5}]});
    }
    if (path === '/v1/keys' && request.method === 'POST') {
      this.keys.set(body.name, {per_minute: 0, tokens_today: 0, ...body});
      return json({name: body.name, key: `chimere-secret-of-${body.name}`});
    }
    if (path === '/v1/keys') return json({data: [...this.keys.values()], scopes: ['inference', 'metrics', 'engram', 'collections', 'admin']});
    if (path.startsWith('/v1/keys/')) return json({deleted: this.keys.delete(path.split('/').at(-1))});
    if (path === '/v1/status') {
      return json({
        version: 'fake', uptime_seconds: 4000, connections: 2, requests: {running: 1, waiting: 0},
        models: [{id: this.model, state: 'ready', bytes: 1e9, requests: 1}],
      });
    }
    if (path === '/metrics') return response.end(this.metrics());
    if (path === '/tokenize') {
      const pieces = body.content.match(/\s?\S+|\s/g) ?? [];
      return json({tokens: pieces.map((_, i) => i), count: pieces.length, pieces});
    }
    if (path !== '/v1/chat/completions') return json({error: {message: 'There is nothing here.'}}, 404);
    const generation = new Generation(body, response, body.model ?? [this.model].flat()[0]);
    const resolve = this.waiting.shift();
    if (resolve) resolve(generation);
    else this.generations.push(generation);
  }

  /// Counters that grow with each reading.
  metrics() {
    const n = ++this.readings;
    const wave = Math.round(40 * Math.sin(n / 2));
    this.generated += 900 + 4 * wave;
    return Object.entries({
      requests_running: 3 + (n % 3), requests_waiting: n % 2, generation_tokens_total: this.generated, prompt_tokens_computed_total: 1500 * n + 20 * wave,
      time_to_first_token_seconds_sum: 0.2 * n, time_to_first_token_seconds_count: n, inter_token_seconds_sum: 0.9 * n, inter_token_seconds_count: 60 * n,
      batch_rows_sum: 4 * n, batch_rows_count: n, 'memory_bytes{kind="kv"}': 4e8 + 3e6 * n, 'memory_bytes{kind="recurrent"}': 9e7,
      'memory_bytes{kind="prefix_memory"}': 2e8 + 1e6 * n, 'prefix_cache_tokens_total{tier="none"}': 300 * n,
      'prefix_cache_tokens_total{tier="device"}': 500 * n, 'prefix_cache_tokens_total{tier="memory"}': 150 * n + wave,
      'prefix_cache_tokens_total{tier="disk"}': 40 * n, 'tokens_total{kind="accepted_draft"}': 300 * n + wave, 'tokens_total{kind="rejected_draft"}': 120 * n,
    }).map(([name, value]) => `chimere_${name} ${value}\n`).join('');
  }

  /// As docs/collections-api.md says; a search finds the documents that contain the query.
  collectionRoutes(method, path, url, body, json) {
    const [, , , name, action] = path.split('/').map(decodeURIComponent);
    const info = (id) => ({name: id, documents: this.collections.get(id).size, chunks: 3 * this.collections.get(id).size, chunks_without_vector: 0, bytes: 212992});
    if (!name && method === 'POST') {
      this.collections.set(body.name, this.collections.get(body.name) ?? new Map());
      return json(info(body.name));
    }
    if (!name) return json({data: [...this.collections.keys()].map(info)});
    const documents = this.collections.get(name);
    if (!documents) return json({error: {message: 'There is no such collection.'}}, 404);
    if (method === 'GET') return json({...info(name), data: [...documents.keys()].map((id) => ({name: id, title: this.passage.title, chunks: 3}))});
    if (method === 'DELETE') {
      if (action) documents.delete(url.searchParams.get('name'));
      else this.collections.delete(name);
      return json({deleted: true});
    }
    if (action === 'documents') {
      this.added.push(...body.documents);
      const [read, skipped] = [body.documents.filter((d) => d.text), body.documents.filter((d) => !d.text)];
      for (const d of read) documents.set(d.name, d.text);
      return json({added: read.length, changed: 0, skipped: skipped.map((d) => `'${d.name ?? d.url}' is no document.`)});
    }
    const found = [...documents].filter(([, text]) => text.includes(body.query));
    const {note, ...passage} = this.passage;
    return json({note, data: found.map(([id, text], i) => ({id: i, document: id, ...passage, text, score: 0.5}))});
  }

  history(method, path, url, body, json) {
    if (!this.keepsHistory) return json({error: {message: 'There is nothing here.'}}, 404);
    const [, , , id, action, message] = path.split('/');
    if (!id) {
      if (method === 'DELETE') {
        this.conversations.clear();
        return json({deleted: true});
      }
      const words = (url.searchParams.get('search') ?? '').toLowerCase();
      const data = [...this.conversations.values()]
        .filter((c) => [c.title, ...c.messages.map((m) => m.content)].some((text) => text.toLowerCase().includes(words)))
        .map(({messages, writes, ...info}) => ({...info, message_count: messages.length, ...(words && {excerpt: info.excerpt ?? `…\x02${words}\x03…`})}));
      return json({data: data.sort((a, b) => b.pinned - a.pinned || b.updated - a.updated)});
    }
    let found = this.conversations.get(id);
    if (method === 'POST' && !action && !found) {
      found = {id, title: '', folder: '', pinned: false, leaf: '', created: Date.now(), updated: 0, messages: [], writes: []};
      this.conversations.set(id, found);
    }
    if (!found) return json({error: {message: 'There is no such conversation.'}}, 404);
    if (method === 'GET') return json(found);
    if (method === 'DELETE') {
      if (action) found.messages = found.messages.filter((m) => m.id !== message);
      else this.conversations.delete(id);
      return json({deleted: true});
    }
    found.updated = Date.now();
    if (!action) Object.assign(found, body);
    if (body.messages) found.writes?.push(body.messages.map((m) => m.role));
    for (const m of body.messages ?? []) {
      const at = found.messages.findIndex((other) => other.id === m.id);
      if (at < 0) found.messages.push(m);
      else found.messages[at] = m;
    }
    if (action === 'append') {
      const m = found.messages.find((other) => other.id === body.message);
      if (!m || Buffer.byteLength(m.content) !== body.content_at) return json({error: {message: 'a gap'}}, 409);
      m.content += body.content;
      m.reasoning += body.reasoning;
    }
    return json({id});
  }
}
