// A server for the page's files whose answers the test controls, so that a generation can be slow, break or
// be refused at a chosen moment.
import {readFile} from 'node:fs/promises';
import {createServer} from 'node:http';
import {join} from 'node:path';

const FILES = {
  '/': ['index.html', 'text/html'],
  '/chat.js': ['chat.js', 'text/javascript'],
  '/chat.css': ['chat.css', 'text/css'],
  '/favicon.ico': ['favicon.svg', 'image/svg+xml'],
};

// One request for a chat completion, answered step by step.
class Generation {
  constructor(body, response) {
    this.messages = body.messages;
    this.response = response;
    this.closed = new Promise((resolve) => response.on('close', resolve));
  }

  event(value) {
    this.response.write(`data: ${JSON.stringify(value)}\n\n`);
  }

  say(content) {
    this.event({choices: [{index: 0, delta: {content}, finish_reason: null}]});
  }

  reason(text) {
    this.event({choices: [{index: 0, delta: {reasoning_content: text}, finish_reason: null}]});
  }

  finish(reason = 'stop') {
    this.event({choices: [{index: 0, delta: {}, finish_reason: reason}]});
    this.response.end('data: [DONE]\n\n');
  }

  answer(content) {
    this.say(content);
    this.finish();
  }

  refuse(status, body) {
    this.response.writeHead(status, {'Content-Type': 'application/json'});
    this.response.end(typeof body === 'string' ? body : JSON.stringify({error: {message: body.message}}));
  }

  fail(message) {
    this.event({error: {message}});
    this.response.end();
  }

  // Ends the stream like a proxy that loses the server: without an error and without the last event.
  end() {
    this.response.end();
  }

  cut() {
    this.response.destroy();
  }
}

export class FakeServer {
  model = 'fake-model';
  key = '';  // when set, requests without it get 401
  gone = false;  // whether connections are closed without a response

  constructor(pageFolder) {
    this.pageFolder = pageFolder;
    this.waiting = [];  // resolvers of next()
    this.generations = [];  // not yet taken by next()
    this.server = createServer((request, response) => this.handle(request, response));
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

  async handle(request, response) {
    if (this.gone) return request.socket.destroy();
    const path = new URL(request.url, this.url).pathname;
    if (FILES[path]) {
      const [name, type] = FILES[path];
      const content = await readFile(join(this.pageFolder, name)).catch(() => null);
      return response.writeHead(content ? 200 : 404, {'Content-Type': `${type}; charset=utf-8`}).end(content);
    }
    if (path === '/health') return response.end('{"status":"ok"}');
    if (this.key && request.headers.authorization !== `Bearer ${this.key}`) {
      const error = {message: "Send a key of this server as 'Authorization: Bearer KEY'."};
      return response.writeHead(401, {'Content-Type': 'application/json'}).end(JSON.stringify({error}));
    }
    if (path === '/v1/models') return response.end(JSON.stringify({data: [{id: this.model}]}));
    let text = '';
    for await (const piece of request) text += piece;
    const generation = new Generation(JSON.parse(text), response);
    const resolve = this.waiting.shift();
    if (resolve) resolve(generation);
    else this.generations.push(generation);
  }
}
