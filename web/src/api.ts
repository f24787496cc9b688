// Requests to the server that the page came from.
import {signal} from '@preact/signals';
import {t} from './i18n';

/// The API key; sent with every request. Kept for the tab, or for good if the user says so.
export const key = signal(sessionStorage.getItem('key') ?? localStorage.getItem('key') ?? '');
/// Why a key is asked for; empty: none is.
export const keyWanted = signal('');
/// Whether the server does not answer.
export const gone = signal(false);
export const serverReturned = signal(0);  ///< counts how often it answered again

/// There was no response, or it broke off.
export class ServerGone extends Error {}

/// An error response.
export class Refused extends Error {
  constructor(readonly status: number, readonly code: string, message: string) { super(message); }
}

export function setKey(value: string, remember: boolean) {
  key.value = value;
  sessionStorage.setItem('key', value);
  if (remember) localStorage.setItem('key', value);
  else localStorage.removeItem('key');
  keyWanted.value = '';
}

async function refusal(response: Response): Promise<Refused> {
  if (response.status === 401) {
    keyWanted.value = key.value ? t('The server does not know this key.') : t('The server needs a key.');
  }
  // A proxy's response may not be JSON.
  const body = await response.json().catch(() => null);
  const message = body?.error?.message ??
      t("The server's response has status {status} and no explanation.", {status: response.status});
  return new Refused(response.status, body?.error?.code ?? '', message);
}

/// Throws ServerGone, Refused, or the AbortError of the signal.
export async function request(path: string, options: RequestInit & {json?: unknown} = {}): Promise<Response> {
  const {json, ...init} = options;
  const headers: Record<string, string> = {};
  if (json !== undefined) {
    headers['Content-Type'] = 'application/json';
    init.body = JSON.stringify(json);
    init.method ??= 'POST';
  }
  if (key.value) headers.Authorization = `Bearer ${key.value}`;
  let response: Response;
  try {
    response = await fetch(path, {...init, headers});
  } catch (error) {
    if ((error as Error).name === 'AbortError') throw error;
    watchServer();
    throw new ServerGone(t('The server does not answer.'));
  }
  if (!response.ok) throw await refusal(response);
  return response;
}

export async function get<T>(path: string): Promise<T> {
  return (await request(path)).json() as Promise<T>;
}

export async function post<T>(path: string, json: unknown): Promise<T> {
  return (await request(path, {json})).json() as Promise<T>;
}

/// The parsed events of a stream; `seen` receives their numbers, of a stream that has some. Throws ServerGone if it ends
/// before its last event.
export async function* events(body: ReadableStream<Uint8Array>, seen?: (number: number) => void): AsyncGenerator<any> {
  const decoder = new TextDecoder();
  const reader = body.getReader();
  let held = '';
  for (;;) {
    const {value, done} = await reader.read().catch((error) => {
      if (error.name === 'AbortError') throw error;
      return {value: undefined, done: true as const};
    });
    if (done) {
      watchServer();
      throw new ServerGone(t('The connection to the server ended before the answer was complete.'));
    }
    held += decoder.decode(value, {stream: true});
    let from = 0;
    for (let end; (end = held.indexOf('\n\n', from)) >= 0; from = end + 2) {
      let event = held.slice(from, end);
      if (event.startsWith('id: ')) {
        const line = event.indexOf('\n');
        seen?.(Number(event.slice(4, line)));
        event = event.slice(line + 1);
      }
      if (event === 'data: [DONE]') return;
      if (event.startsWith('data: ')) yield JSON.parse(event.slice(6));
    }
    held = held.slice(from);
  }
}

let watching = false;

/// Asks once a second until the server answers.
export async function watchServer() {
  if (watching) return;
  watching = true;
  const answers = () => fetch('health').then((response) => response.ok, () => false);
  while (!await answers()) {
    gone.value = true;
    await new Promise((resolve) => setTimeout(resolve, 1000));
  }
  watching = false;
  if (gone.value) {
    gone.value = false;
    ++serverReturned.value;
  }
}
