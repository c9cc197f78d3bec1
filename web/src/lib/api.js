// What the page asks of the daemon: the same API that the command line uses (docs/api.md).
//
// A request brings the session's cookie, which no script can read, and the page's own secret in a header, which no other
// page can send.
const kStored = 'divvy-page';

export class ApiError extends Error {
  constructor(message, status, code) {
    super(message);
    this.status = status;
    this.code = code;
  }
}

let secret = sessionStorage.getItem(kStored) ?? '';
let onLoggedOut = () => {};

// A login changes the cookie before the page has the matching secret, so requests wait until the login has finished.
let loggingIn = Promise.resolve();
// The cookie is the same in all windows, so the secret must be too. It is kept for as long as its window lives and no
// longer, so a new window asks the others for it, and one that logs in tells them.
const kAnswerMs = 200;
const windows = new BroadcastChannel(kStored);
windows.onmessage = ({ data }) => {
  if (data.secret !== undefined) storeSecret(data.secret);
  else if (data.asks && secret) windows.postMessage({ secret });
};

function storeSecret(text) {
  secret = text;
  if (text) sessionStorage.setItem(kStored, text);
  else sessionStorage.removeItem(kStored);
}

/** Whether this window is logged in, as far as it knows; another window may have to answer, for 200 ms. */
export async function hasSecret() {
  if (secret) return true;
  windows.postMessage({ asks: true });
  for (let waited = 0; !secret && waited < kAnswerMs; waited += 10) await new Promise((done) => setTimeout(done, 10));
  return secret !== '';
}
export const whenLoggedOut = (callback) => (onLoggedOut = callback);
export function keepSecret(text) {
  storeSecret(text);
  windows.postMessage({ secret: text });
}

async function errorOf(response) {
  let message = `${response.status} ${response.statusText}`;
  let code = '';
  try {
    const said = await response.json();
    message = said.message ?? message;
    code = said.code ?? '';
  } catch {
    // The response is not from the daemon, or was cut off.
  }
  return new ApiError(message, response.status, code);
}

/** The response itself; throws ApiError. Without an answer at all: status 0. */
export async function ask(method, path, body, options = {}) {
  if (!options.isLogin) await loggingIn;
  let response;
  const headers = { 'Divvy-Page': secret || 'login' };
  if (body !== undefined) headers['Content-Type'] = 'application/json';
  try {
    response = await fetch(path, {
      method,
      headers,
      body: body === undefined ? undefined : JSON.stringify(body),
      cache: 'no-store',
      credentials: 'same-origin',
      redirect: 'error',
      signal: options.signal,
    });
  } catch (cause) {
    if (cause.name === 'AbortError') throw cause;
    throw new ApiError('the daemon does not answer', 0, 'unreachable');
  }
  if (response.ok) return response;
  const error = await errorOf(response);
  if (response.status === 401 && !options.isLogin) onLoggedOut(error.message);
  throw error;
}

/** A login: { link } or { token }; keeps the secret that this page sends from then on. Throws as ask does. */
export function logInBy(words) {
  const answered = ask('POST', '/ui/login', words, { isLogin: true })
    .then((response) => response.json())
    .then((answer) => keepSecret(answer.page));
  loggingIn = answered.catch(() => {});
  return answered;
}

export const get = async (path, options) => (await ask('GET', path, undefined, options)).json();
export const post = async (path, body, options) => (await ask('POST', path, body, options)).json();

/** Query text of what is not empty. */
export function query(values) {
  const text = Object.entries(values)
    .filter(([, value]) => value !== undefined && value !== '' && value !== null && value !== false)
    .map(([name, value]) => `${encodeURIComponent(name)}=${encodeURIComponent(value === true ? 1 : value)}`)
    .join('&');
  return text ? `?${text}` : '';
}

// While the daemon restarts, its port may be held open, so that a connection is neither refused nor answered.
const kPatienceMs = 3000;

/** Server-sent events: calls `onEvent(name, data)` until the stream ends; throws as ask does, and after 3 s without an answer. */
export async function stream(path, { signal, onOpen, onEvent }) {
  const late = new AbortController();
  const timer = setTimeout(() => late.abort(), kPatienceMs);
  const response = await ask('GET', path, undefined, { signal: AbortSignal.any([signal, late.signal]) });
  clearTimeout(timer);
  onOpen();
  const reader = response.body.pipeThrough(new TextDecoderStream()).getReader();
  let rest = '';
  for (;;) {
    const { done, value } = await reader.read();
    if (done) return;
    rest += value;
    const pieces = rest.split('\n\n');
    rest = pieces.pop();
    for (const piece of pieces) {
      let name = 'message';
      const data = [];
      for (const line of piece.split('\n')) {
        if (line.startsWith('event:')) name = line.slice(6).trim();
        else if (line.startsWith('data:')) data.push(line.slice(5).trimStart());
      }
      if (data.length) onEvent(name, JSON.parse(data.join('\n')));
    }
  }
}
