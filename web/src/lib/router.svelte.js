// Which view: what stands behind '#' in the address, so that links, bookmarks and the back button work.
export const route = $state({ name: 'overview', argument: '', values: {} });

/** A link that lets in once ('#login=SECRET', session.svelte.js) is no view, and is shown nowhere. */
export const isLogin = () => location.hash.startsWith('#login=');

// As people write it, who read the name of the view.
const kAlso = { __proto__: null, 'what-if': 'whatif' };

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
  route.name = (kAlso[name] ?? name) || 'overview';
  route.argument = argument;
  route.values = Object.fromEntries(new URLSearchParams(rest));
}
window.addEventListener('hashchange', read);
read();

/** What the view says of itself behind '?', so that a link has it and the way back finds it; what is empty is left out. */
export function setValues(changes) {
  const values = Object.fromEntries(Object.entries({ ...route.values, ...changes }).filter(([, value]) => value !== undefined && value !== null && value !== ''));
  const text = new URLSearchParams(values).toString();
  replaceAddress((location.hash.split('?')[0] || '#/') + (text ? `?${text}` : ''));
}
/** How a table is ordered, as a word of an address: 'gpus', '-gpus' downwards. */
export const orderOf = (word) => (word ? { key: word.replace(/^-/, ''), down: word.startsWith('-') } : null);
export const wordOf = (order) => (order ? (order.down ? '-' : '') + order.key : '');

export const linkTo = (name, argument) => `#/${name}${argument === undefined ? '' : '/' + encodeURIComponent(argument)}`;
/** Another address in place of this one, and its view: nothing of the old one is left. */
export function replaceAddress(hash) {
  history.replaceState(null, '', location.pathname + hash);
  read();
}
export const go = (name, argument) => (location.hash = linkTo(name, argument).slice(1));
