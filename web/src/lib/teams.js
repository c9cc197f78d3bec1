// Changes that administrators make on the Teams page: teams, users' limits and reservations (divvy teams, divvy reserve).
import { askPerson, tryTo } from './ui.svelte.js';

const textOf = (value) => (value === null || value === undefined ? '' : String(value));
const wordsOf = (text) => [...new Set(String(text ?? '').split(/[\s,]+/).filter(Boolean))];

/** A field for a number that may be absent; `member` is its name in the API. */
const amount = (key, member, label, value, hint = '') => ({ key, member, label, type: 'number', value: textOf(value), placeholder: 'none', hint, isAmount: true });
/** What changed of such fields: { set: { quota: 4 }, clear: ['limit'] }, or a text that says what is wrong. */
function changedAmounts(fields, said) {
  const found = { set: {}, clear: [] };
  for (const field of fields.filter((one) => one.isAmount)) {
    const text = textOf(said[field.key]).trim();
    if (text === field.value) continue;
    if (text === '') {
      found.clear.push(field.member);
      continue;
    }
    if (!(Number(text) >= 0)) return `${field.label}: “${text}” is not a number of at least 0.`;
    found.set[field.member] = Number(text);
  }
  return found;
}
const limitsOf = (view) => [
  amount('running', 'running', 'Maximum running jobs', view?.running_limit),
  amount('queued', 'queued', 'Maximum queued jobs', view?.queued_limit),
  amount('hours', 'gpu_hours', 'Budget in GPU-hours', view?.budget_gpu_hours),
  { key: 'period', label: 'Budget period', options: ['day', 'week', 'month'], value: view?.period || 'month' },
];
const kCaps = ['running', 'queued', 'gpu_hours'];
/** The members of `set` as the API has them: limits of jobs and budgets are in `limits`. */
function bodyOf({ set, clear }, said, view) {
  const body = { clear };
  const limits = {};
  for (const [member, value] of Object.entries(set)) (kCaps.includes(member) ? limits : body)[member] = value;
  if (said.period !== (view?.period || 'month')) limits.period = said.period;
  if (Object.keys(limits).length) body.limits = limits;
  return body;
}

/** A new team, or changes of `team`. `names`: those of the other teams. */
export function askTeam(team, names) {
  const lists = [
    { key: 'users', label: 'Users', value: (team?.users ?? []).join(', '), placeholder: 'ada, grace; *: all users' },
    { key: 'groups', label: 'Unix groups', value: (team?.groups ?? []).join(', ') },
    { key: 'leads', label: 'Leaders', value: (team?.leads ?? []).join(', ') },
  ];
  const fields = [
    ...(team ? [] : [{ key: 'name', label: 'Name', value: '' }]),
    ...(names.length ? [{ key: 'parent', label: 'Parent team', options: ['', ...names], value: team?.parent ?? '' }] : []),
    amount('quota', 'quota', 'Quota in GPUs', team?.quota, 'Guaranteed to its jobs.'),
    amount('limit', 'limit', 'Limit in GPUs', team?.limit, 'Upper bound on the GPUs of its jobs.'),
    { ...amount('weight', 'weight', 'Weight', team?.weight ?? 1, 'Its share of the GPUs that other teams leave, relative to their weights.'), placeholder: '1' },
    ...lists,
    ...limitsOf(team),
  ];
  return askPerson({
    title: team ? `Team ${team.name}` : 'New team',
    fields,
    button: team ? 'Change' : 'Create',
    work: (said) => {
      const amounts = changedAmounts(fields, said);
      if (typeof amounts === 'string') return amounts;
      const body = { name: team?.name ?? String(said.name).trim(), is_new: !team, ...bodyOf(amounts, said, team) };
      if (!body.name) return 'Write a name.';
      if (body.clear.includes('weight')) return 'Weight: write a whole number, such as 1.';
      if ((said.parent ?? '') !== (team?.parent ?? '')) {
        if (said.parent) body.parent = said.parent;
        else body.clear.push('parent');
      }
      for (const { key } of lists) {
        const [before, after] = [team?.[key] ?? [], wordsOf(said[key])];
        const [added, removed] = [after.filter((one) => !before.includes(one)), before.filter((one) => !after.includes(one))];
        if (added.length) body[`add_${key}`] = added;
        if (removed.length) body[`remove_${key}`] = removed;
      }
      if (team && Object.keys(body).length === 3 && !body.clear.length) return 'Change one of the values.';
      return tryTo('/v1/teams', body);
    },
  });
}

export const removeTeam = (team) =>
  askPerson({
    title: `Remove team ${team.name}?`,
    text: 'Its users and limits go with it. A team with jobs or reservations stays.',
    button: 'Remove',
    back: 'Keep it',
    isDanger: true,
    work: () => tryTo('/v1/teams/remove', { name: team.name }),
  });

/** The default team and the limits of a user. */
export function askUser(user, names) {
  const fields = [
    { key: 'team', label: 'Default team', options: ['', ...names], value: user.team },
    amount('gpus', 'gpus', 'Maximum GPUs', user.gpu_limit),
    ...limitsOf(user),
  ];
  return askPerson({
    title: user.name === '*' ? 'Limits of every user' : `User ${user.name}`,
    fields,
    button: 'Change',
    work: (said) => {
      const amounts = changedAmounts(fields, said);
      if (typeof amounts === 'string') return amounts;
      const body = { user: user.name, ...bodyOf(amounts, said, user) };
      if (said.team !== user.team) {
        if (said.team) body.team = said.team;
        else body.clear.push('team');
      }
      if (Object.keys(body).length === 2 && !body.clear.length) return 'Change one of the values.';
      return tryTo('/v1/teams/users', body);
    },
  });
}

/** What a field of type datetime-local takes. */
function localTime(date) {
  const two = (number) => String(number).padStart(2, '0');
  return `${date.getFullYear()}-${two(date.getMonth() + 1)}-${two(date.getDate())}T${two(date.getHours())}:${two(date.getMinutes())}`;
}
const kEvery = { once: 'once', 'every day': 'day', 'every weekday': 'weekday', 'every week': 'week' };

/** GPUs that are kept for a user or a team. `names`: those of the teams. */
export function askReservation(names) {
  return askPerson({
    title: 'Reserve GPUs',
    fields: [
      { key: 'name', label: 'Name', value: '', placeholder: 'course' },
      { key: 'gpus', label: 'GPUs', type: 'number', value: '1' },
      ...(names.length ? [{ key: 'team', label: 'For team', options: ['', ...names], value: '' }] : []),
      { key: 'user', label: names.length ? 'Or for user' : 'For user', value: '' },
      { key: 'start', label: 'Start', type: 'datetime-local', value: localTime(new Date()) },
      { key: 'hours', label: 'Duration in hours', type: 'number', value: '2' },
      { key: 'every', label: 'Repeated', options: Object.keys(kEvery), value: 'once' },
    ],
    button: 'Reserve',
    work: (said) => {
      const start = new Date(said.start);
      const user = String(said.user).trim();
      if (!(Number.isInteger(Number(said.gpus)) && Number(said.gpus) > 0)) return 'GPUs: write a whole number, such as 2.';
      if (!said.team === !user) return names.length ? 'Choose a team, or write a user.' : 'Write a user.';
      if (Number.isNaN(start.getTime())) return 'Start: write a date and a time.';
      if (!(Number(said.hours) > 0)) return 'Duration: write hours, such as 1.5.';
      // The start that was offered has passed by now: it means at once.
      const seconds = start.getTime() / 1000;
      return tryTo('/v1/reservations', {
        name: String(said.name).trim(),
        gpus: Number(said.gpus),
        ...(said.team ? { team: said.team } : { user }),
        start: seconds * 1000 <= Date.now() ? 0 : seconds,
        duration_s: Math.round(Number(said.hours) * 3600),
        every: kEvery[said.every],
        utc_offset_s: -start.getTimezoneOffset() * 60,
      });
    },
  });
}

export const cancelReservation = (one) =>
  askPerson({
    title: `Cancel reservation ${one.name || one.number}?`,
    text: 'Its GPUs become available to all jobs again.',
    button: 'Cancel it',
    back: 'Keep it',
    isDanger: true,
    work: () => tryTo('/v1/reservations/cancel', { which: String(one.number) }),
  });
