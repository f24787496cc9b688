// The chat page: one conversation, kept in memory, streamed from /v1/chat/completions.
'use strict';

const find = (id) => document.getElementById(id);
const conversation = [];
let running = null;  // AbortController of the reply that is being written

function headers() {
  const key = find('key').value.trim();
  return {'Content-Type': 'application/json', ...(key && {Authorization: `Bearer ${key}`})};
}

function addMessage(role) {
  const box = document.createElement('div');
  box.className = `message ${role}`;
  const thoughts = document.createElement('div');
  thoughts.className = 'thoughts';
  const text = document.createElement('div');
  box.append(thoughts, text);
  find('messages').append(box);
  return {box, thoughts, text};
}

function keepInView() {
  const list = find('messages');
  list.scrollTop = list.scrollHeight;
}

// Yields the parsed events of a stream.
async function* events(body) {
  const decoder = new TextDecoder();
  let held = '';
  for (const reader = body.getReader();;) {
    const {value, done} = await reader.read();
    if (done) return;
    held += decoder.decode(value, {stream: true});
    for (let end; (end = held.indexOf('\n\n')) >= 0; held = held.slice(end + 2)) {
      const event = held.slice(0, end);
      if (event.startsWith('data: ') && event !== 'data: [DONE]') yield JSON.parse(event.slice(6));
    }
  }
}

async function reply(shown) {
  const response = await fetch('v1/chat/completions', {
    method: 'POST',
    headers: headers(),
    body: JSON.stringify({messages: conversation, stream: true}),
    signal: running.signal,
  });
  if (!response.ok) throw new Error((await response.json()).error.message);
  for await (const event of events(response.body)) {
    if (event.error) throw new Error(event.error.message);
    for (const {delta} of event.choices) {
      shown.thoughts.textContent += delta.reasoning_content ?? '';
      shown.text.textContent += delta.content ?? '';
    }
    keepInView();
  }
}

async function send(text) {
  conversation.push({role: 'user', content: text});
  addMessage('user').text.textContent = text;
  const shown = addMessage('assistant');
  running = new AbortController();
  find('send').textContent = 'Stop';
  try {
    await reply(shown);
  } catch (error) {
    if (error.name !== 'AbortError') {
      const fault = document.createElement('div');
      fault.className = 'fault';
      fault.textContent = error.message;
      shown.box.append(fault);
    }
  }
  // What was said stays, even when it was cut short; an empty reply would confuse the next one.
  if (shown.text.textContent) {
    conversation.push({role: 'assistant', content: shown.text.textContent});
  } else {
    conversation.pop();
  }
  running = null;
  find('send').textContent = 'Send';
  keepInView();
}

async function showModel() {
  const response = await fetch('v1/models', {headers: headers()});
  find('key').hidden = response.status !== 401 && !find('key').value;
  if (response.ok) find('model').textContent = (await response.json()).data[0].id;
}

find('form').addEventListener('submit', (event) => {
  event.preventDefault();
  if (running) return running.abort();
  const text = find('text').value.trim();
  if (!text) return;
  find('text').value = '';
  send(text);
});
find('text').addEventListener('keydown', (event) => {
  if (event.key !== 'Enter' || event.shiftKey) return;
  event.preventDefault();
  find('form').requestSubmit();
});
find('reset').addEventListener('click', () => {
  running?.abort();
  conversation.length = 0;
  find('messages').replaceChildren();
});
find('key').addEventListener('change', showModel);
showModel();
