// Who is logged in: by a link that lets in once (divvy ui), or by a token.
import { get, hasSecret, keepSecret, logInBy, post, whenLoggedOut } from './api.js';
import { live, startLive, stopLive } from './live.svelte.js';
import { isLogin, replaceAddress } from './router.svelte.js';

export const session = $state({
  phase: 'loading', // 'in', 'out', 'unreachable'
  me: null,
  error: '',
});

async function enter() {
  try {
    session.me = await get('/v1/ui/me');
    live.clockAhead = session.me.time - Date.now() / 1000;
    session.phase = 'in';
    session.error = '';
    startLive();
  } catch (error) {
    if (error.status === 401) return;
    session.phase = 'unreachable';
    session.error = error.message;
  }
}

export async function logIn(words) {
  session.error = '';
  try {
    await logInBy(words);
    await enter();
    return true;
  } catch (error) {
    session.phase = 'out';
    session.error = error.message;
    return false;
  }
}

export async function logOut() {
  try {
    await post('/ui/logout', {});
  } catch {
    // The daemon cannot be reached. The browser forgets the session all the same.
  }
  leave('');
}

function leave(message) {
  stopLive();
  keepSecret('');
  session.me = null;
  session.phase = 'out';
  session.error = message;
}

export async function begin() {
  whenLoggedOut((message) => leave(session.phase === 'loading' ? '' : message));
  // A link that is opened in a window that shows the page already.
  window.addEventListener('hashchange', () => isLogin() && void admit());
  await admit();
}

async function admit() {
  const link = isLogin() ? location.hash.slice('#login='.length) : '';
  // First remove the login secret from the address bar and the history.
  if (isLogin()) replaceAddress('#/');
  if (link && (await logIn({ link }))) return;
  const why = session.error;
  if (!(await hasSecret())) {
    session.phase = 'out';
    return;
  }
  session.phase = 'loading';
  await enter();
  if (session.phase === 'out' && why) session.error = why;
}

export const retry = () => {
  session.phase = 'loading';
  return enter();
};
