// The chat page: one conversation, kept in memory, streamed from v1/chat/completions.
'use strict';

const find = (id) => document.getElementById(id);
let turns = [];  // the turns on the page, in order; those with `kept` are the context of the next one
let running = null;  // the turn whose answer is being generated
let listHeight = find('messages').clientHeight;  // the list's height after its last resize
let watching = false;  // whether the page waits for the server to answer again

class ServerGone extends Error {}

// Throws ServerGone if there is no response.
async function request(path, options) {
  const key = find('key').value.trim();
  if (/[^\x21-\x7e]/.test(key)) throw new Error('The key has characters that no key of a server has.');
  const headers = {'Content-Type': 'application/json', ...(key && {Authorization: `Bearer ${key}`})};
  try {
    return await fetch(path, {...options, headers});
  } catch (error) {
    if (error.name === 'AbortError') throw error;
    throw new ServerGone('The server does not answer. Check that it runs and that this device can reach it.');
  }
}

// The message of an error response. A proxy's response may not be JSON.
async function refusal(response) {
  if (response.status === 401) {
    return find('key').value ? 'The server does not know this key.' : 'The server needs a key: enter it at the top.';
  }
  const body = await response.json().catch(() => null);
  return body?.error?.message ?? `The server's response has status ${response.status} and no explanation.`;
}

// Yields the parsed events of a stream. Throws ServerGone if the stream ends before its last event.
async function* events(body) {
  const broken = new ServerGone('The connection to the server ended before the answer was complete.');
  const decoder = new TextDecoder();
  let held = '';
  for (const reader = body.getReader();;) {
    const {value, done} = await reader.read().catch((error) => {
      throw error.name === 'AbortError' ? error : broken;
    });
    if (done) throw broken;
    held += decoder.decode(value, {stream: true});
    for (let end; (end = held.indexOf('\n\n')) >= 0; held = held.slice(end + 2)) {
      const event = held.slice(0, end);
      if (event === 'data: [DONE]') return;
      if (event.startsWith('data: ')) yield JSON.parse(event.slice(6));
    }
  }
}

function addElement(parent, name, className) {
  const element = document.createElement(name);
  element.className = className;
  parent.append(element);
  return element;
}

function addTurn(question) {
  const section = addElement(find('messages'), 'section', 'turn');
  addElement(section, 'div', 'message user').textContent = question;
  const box = addElement(section, 'div', 'message assistant');
  const turn = {
    question, section, box, kept: false, aborter: new AbortController(),
    reasoning: addElement(box, 'div', 'reasoning'),
    answer: addElement(box, 'div', 'answer'),
    note: addElement(section, 'p', 'note'),
  };
  box.setAttribute('aria-busy', 'true');
  turns.push(turn);
  return turn;
}

// Runs `change`. Keeps the list scrolled to its end if it was there before; otherwise keeps its position.
function keepEndInView(change) {
  const list = find('messages');
  const atEnd = list.scrollHeight - list.scrollTop - listHeight < 40;
  change();
  if (atEnd) list.scrollTop = list.scrollHeight;
}

// Appends to the existing text node, because replacing it would clear the user's selection.
function appendText(element, text) {
  const node = element.firstChild ?? element.appendChild(new Text());
  node.appendData(text);
}

function setRunning(turn) {
  running = turn;
  find('send').disabled = turn !== null;
  find('stop').hidden = turn === null;
  for (const button of document.querySelectorAll('.retry')) button.disabled = turn !== null;
}

// Streams the answer into the turn; returns the finish reason.
async function generate(turn) {
  const messages = turns.filter((t) => t.kept).flatMap((t) => [
    {role: 'user', content: t.question}, {role: 'assistant', content: t.answer.textContent},
  ]);
  messages.push({role: 'user', content: turn.question});
  const response = await request('v1/chat/completions', {
    method: 'POST', body: JSON.stringify({messages, stream: true}), signal: turn.aborter.signal,
  });
  if (response.status === 401) showModel();
  if (!response.ok) throw new Error(await refusal(response));
  let reason = null;
  for await (const event of events(response.body)) {
    if (event.error) throw new Error(event.error.message);
    keepEndInView(() => {
      for (const {delta, finish_reason} of event.choices) {
        appendText(turn.reasoning, delta.reasoning_content ?? '');
        appendText(turn.answer, delta.content ?? '');
        reason = finish_reason ?? reason;
      }
    });
  }
  return reason;
}

// A turn joins the context if it has an answer and did not fail. Other turns stay on the page with a note and buttons
// that repeat the question or copy it to the input field.
async function ask(question) {
  const turn = addTurn(question);
  find('messages').scrollTop = find('messages').scrollHeight;
  setRunning(turn);
  let note = '';
  let failed = false;
  try {
    const reason = await generate(turn);
    if (reason === 'length') note = "The answer was cut off at the length limit (the server's or the context's).";
    else if (!turn.answer.textContent) note = 'The model gave no answer.';
  } catch (error) {
    failed = error.name !== 'AbortError';
    note = failed ? error.message : 'Stopped.';
    if (error instanceof ServerGone) watchServer();
  }
  turn.kept = !failed && turn.answer.textContent !== '';
  keepEndInView(() => {
    turn.box.removeAttribute('aria-busy');
    turn.note.textContent = note;
    if (!turn.kept) leaveOut(turn);
  });
  if (running === turn) setRunning(null);
}

function leaveOut(turn) {
  turn.section.classList.add('left-out');
  turn.note.append(' This turn is not part of the conversation. ');
  addButton(turn, 'Retry', () => ask(turn.question));
  addButton(turn, 'Edit', () => {
    find('text').value = [turn.question, find('text').value].filter(Boolean).join('\n');
    find('text').focus();
  });
}

// Adds a button below a turn; a click removes the turn and runs `act`.
function addButton(turn, text, act) {
  const button = addElement(turn.note, 'button', text.toLowerCase());
  button.type = 'button';
  button.textContent = text;
  button.addEventListener('click', () => {
    turns = turns.filter((t) => t !== turn);
    turn.section.remove();
    act();
  });
}

function showStatus(text) {
  find('status').textContent = text;
  find('status').hidden = text === '';
}

async function showModel() {
  let response;
  try {
    response = await request('v1/models');
  } catch (error) {
    if (error instanceof ServerGone) return watchServer();
    return showStatus(error.message);
  }
  if (response.status === 401) find('key').hidden = false;
  if (response.ok && !find('key').hidden) {
    find('key').hidden = true;
    find('text').focus();
  }
  find('model').textContent = response.ok ? (await response.json()).data[0].id : '';
  showStatus(response.ok ? '' : await refusal(response));
}

// Polls once a second until the server answers, then reads the model again: it and the keys may have changed.
async function watchServer() {
  if (watching) return;
  watching = true;
  const answers = () => fetch('health').then((response) => response.ok, () => false);
  while (!await answers()) {
    showStatus('The server does not answer. This page tries again every second.');
    await new Promise((resolve) => setTimeout(resolve, 1000));
  }
  watching = false;
  showModel();
}

find('form').addEventListener('submit', (event) => {
  event.preventDefault();
  const text = find('text').value.trim();
  if (running || !text) return;
  find('text').value = '';
  ask(text);
});
find('text').addEventListener('keydown', (event) => {
  if (event.key !== 'Enter' || event.shiftKey) return;
  if (event.isComposing || event.keyCode === 229) return;  // 229: Safari, where this key ends the composition
  event.preventDefault();
  find('form').requestSubmit();
});
find('stop').addEventListener('click', () => {
  running?.aborter.abort();
  find('text').focus();
});
find('reset').addEventListener('click', () => {
  running?.aborter.abort();
  setRunning(null);
  turns = [];
  find('messages').replaceChildren();
  find('text').focus();
});
find('key').addEventListener('change', showModel);
// A phone's keyboard and the status line shrink the list.
new ResizeObserver(() => {
  keepEndInView(() => { listHeight = find('messages').clientHeight; });
}).observe(find('messages'));
showModel();
