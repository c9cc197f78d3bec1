// What several views use: messages that pass, questions, colours.
import { ApiError, post } from './api.js';
import { refresh } from './live.svelte.js';

export const toasts = $state([]);
let last = 0;
export function toast(text, isBad = false) {
  const id = ++last;
  toasts.push({ id, text, isBad });
  setTimeout(() => dismiss(id), isBad ? 12_000 : 5_000);
}
export function dismiss(id) {
  const at = toasts.findIndex((one) => one.id === id);
  if (at >= 0) toasts.splice(at, 1);
}

/**
 * { title, text, fields: [{ key, label, value, type, hint }], button, isDanger, work } -> values, or null.
 *
 * `work(values)`: what is done with them; it returns what is wrong, and the question stays until that is nothing.
 */
export const question = $state({ asked: null });
let settle = () => {};
export function askPerson(asked) {
  question.asked = asked;
  return new Promise((resolve) => (settle = resolve));
}
export function answerQuestion(values) {
  question.asked = null;
  settle(values);
}

/** What takes a while: `done` of `all`; all 0: nothing does, or nobody knows how much it is. */
export const busy = $state({ text: '', done: 0, all: 0 });
const kAtOnce = 500;

/** Of many jobs so many at a time, so that it is seen how far it is. */
async function postInPieces(path, body) {
  const ids = body.select?.ids ?? [];
  if (ids.length <= kAtOnce) return post(path, body);
  const results = [];
  for (let at = 0; at < ids.length; at += kAtOnce) {
    busy.done = at;
    busy.all = ids.length;
    const answer = await post(path, { ...body, select: { ...body.select, ids: ids.slice(at, at + kAtOnce) } });
    results.push(...(answer.results ?? []));
  }
  return { results };
}

/** Says what came of an action: the answer of the API, with what was refused apart. */
function tell(answer) {
  const results = answer.results ?? [];
  const failed = results.filter((one) => !one.is_done);
  for (const one of failed.slice(0, 3)) toast(refusalOf(one), true);
  if (failed.length > 3) toast(`and ${failed.length - 3} more were refused`, true);
  const done = results.length - failed.length;
  if (answer.message) toast(answer.message);
  else if (done === 1) toast(`${results.find((one) => one.is_done).display_id}: ${results.find((one) => one.is_done).message}`);
  else if (done) toast(`Done for ${done} jobs.`);
  refresh();
  return failed.length === 0;
}
const refusalOf = (one) => `${one.display_id || one.id}: ${one.message}`;

/** For a question that stays while it is refused: does it; what is wrong, or '' and a message that it is done. */
export async function tryTo(path, body) {
  try {
    const answer = await post(path, body);
    const failed = (answer.results ?? []).filter((one) => !one.is_done);
    if (failed.length && failed.length === answer.results.length) return failed.slice(0, 3).map(refusalOf).join('; ');
    tell(answer);
    return '';
  } catch (error) {
    return error.message;
  }
}

/** An action of the API; says what came of it. True: all of it was done. */
export async function act(path, body) {
  const later = setTimeout(() => (busy.text = 'Working'), 300);
  try {
    return tell(await postInPieces(path, body));
  } catch (error) {
    toast(error instanceof ApiError ? error.message : String(error), true);
    return false;
  } finally {
    clearTimeout(later);
    Object.assign(busy, { text: '', done: 0, all: 0 });
  }
}

export const select = (ids) => ({ select: { ids: ids.map(String), user: 'all' } });

export async function cancelJobs(ids, text) {
  const sure = await askPerson({
    title: `Cancel ${text}?`,
    text: 'Running jobs get their stop signal, and are killed after their grace period.',
    button: 'Cancel it',
    back: 'Keep it',
    isDanger: true,
  });
  return sure ? act('/v1/jobs/cancel', select(ids)) : false;
}

export async function askPriority(ids, text, value = 0) {
  const said = await askPerson({
    title: `Priority of ${text}`,
    fields: [{ key: 'priority', label: 'Priority', type: 'number', value, hint: 'Higher runs first. Values above 0 need an administrator.' }],
    button: 'Set',
    work: ({ priority }) => (Number.isInteger(priority) ? '' : 'Enter a whole number, such as -5 (default: 0).'),
  });
  if (!said) return false;
  return act('/v1/jobs/update', { ...select(ids), priority: said.priority });
}

/** 0..4: how much of a GPU is used. */
export const useLevel = (ratio) => (ratio <= 0.02 ? 0 : ratio < 0.3 ? 1 : ratio < 0.6 ? 2 : ratio < 0.85 ? 3 : 4);
