// Which view: what stands behind '#' in the address, so that links, bookmarks and the back button work.
export const route = $state({ name: 'overview', argument: '', values: {} });

/** A link that lets in once ('#login=SECRET', session.svelte.js) is no view, and is shown nowhere. */
export const isLogin = () => location.hash.startsWith('#login=');

function read() {
  if (isLogin()) return;
  const text = location.hash.replace(/^#\/?/, '');
  const [path, rest = ''] = text.split('?');
  const [name, ...more] = path.split('/');
  let argument = more.join('/');
  try {
    argument = decodeURIComponent(argument);
  } catch {
    // Shown as it is.
  }
  route.name = name || 'overview';
  route.argument = argument;
  route.values = Object.fromEntries(new URLSearchParams(rest));
}
window.addEventListener('hashchange', read);
read();

export const linkTo = (name, argument) => `#/${name}${argument === undefined ? '' : '/' + encodeURIComponent(argument)}`;
/** Another address in place of this one, and its view: nothing of the old one is left. */
export function replaceAddress(hash) {
  history.replaceState(null, '', location.pathname + hash);
  read();
}
export const go = (name, argument) => (location.hash = linkTo(name, argument).slice(1));
