// Changes to a job that holds a fraction of each of its GPUs: its size, and the GPUs that it is on.
import { gpusOn, ranges } from './format.js';
import { askPerson, select, tryTo } from './ui.svelte.js';

const kGiB = 2 ** 30;
const textOf = (value) => (value ? String(+value.toFixed(4)) : '');

/** Asks for the new size. Fields that stay as they are leave the job's own value alone, as for divvy resize. */
export function askResize(job) {
  const portion = job.request.fraction;
  const isByMemory = portion.memory > 0 && !portion.request;
  const [request, limit] = isByMemory ? ['memory', 'memory_limit'] : ['request', 'limit'];
  const shown = (value) => textOf(isByMemory ? value / kGiB : value);
  const before = { request: shown(portion[request]), limit: shown(portion[limit]) };
  return askPerson({
    title: `Size of job ${job.display_id || job.id}`,
    fields: isByMemory
      ? [
          { key: 'request', label: 'Memory of each GPU, GiB', type: 'number', value: before.request },
          { key: 'limit', label: 'May borrow up to, GiB', type: 'number', value: before.limit, placeholder: 'no more' },
        ]
      : [
          { key: 'request', label: 'Fraction of each GPU', type: 'number', value: before.request, hint: 'Guaranteed; from 0.01 to 1.' },
          { key: 'limit', label: 'May borrow up to', type: 'number', value: before.limit, placeholder: 'no more', hint: 'What others leave idle; up to 1.' },
        ],
    button: 'Resize',
    work: (said) => {
      const changed = {};
      for (const [key, member] of [['request', request], ['limit', limit]]) {
        if (String(said[key] ?? '') === before[key]) continue;
        const value = Number(said[key]);
        if (!(value > 0) || (!isByMemory && value > 1)) return isByMemory ? 'Write a size in GiB, such as 20.' : 'Write a fraction, such as 0.5; 1 is the whole GPU.';
        changed[member] = isByMemory ? Math.round(value * kGiB) : value;
      }
      if (!Object.keys(changed).length) return 'Change one of the values.';
      return tryTo('/v1/jobs/resize', { ...select([job.id]), fraction: changed });
    },
  });
}

/** Asks for the GPUs of its node to move to, as many as it has fractions of. */
export function askMove(job, gpus) {
  const own = gpusOn(job);
  const others = gpus.filter((gpu) => gpu.node === job.node).map((gpu) => gpu.index);
  return askPerson({
    title: `Move job ${job.display_id || job.id}`,
    text: `It is on GPU${own.length > 1 ? 's' : ''} ${ranges(own)}. Its memory moves along, and the process continues.`,
    fields: [{ key: 'to', label: own.length > 1 ? `To GPUs (${own.length})` : 'To GPU', value: '', placeholder: ranges(others), hint: `GPUs of its node: ${ranges(others)}` }],
    button: 'Move',
    work: ({ to }) => {
      const wanted = String(to).split(/[\s,]+/).filter(Boolean);
      if (wanted.length !== own.length || !wanted.every((one) => /^\d+$/.test(one))) return own.length > 1 ? `Write ${own.length} GPUs, such as ${own.join(',')}.` : 'Write the number of a GPU, such as 3.';
      return tryTo('/v1/jobs/move', { ...select([job.id]), to: wanted.map(Number) });
    },
  });
}
