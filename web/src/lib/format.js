// Numbers and times for people, as the command line writes them.

/** 93784 -> "1-02:03:04": as divvy queue shows times. */
export function clock(seconds) {
  if (seconds === undefined || seconds === null || !Number.isFinite(seconds)) return '';
  const all = Math.max(0, Math.floor(seconds));
  const two = (n) => String(n).padStart(2, '0');
  const days = Math.floor(all / 86400);
  const hours = Math.floor(all / 3600) % 24;
  const rest = `${two(Math.floor(all / 60) % 60)}:${two(all % 60)}`;
  if (days) return `${days}-${two(hours)}:${rest}`;
  return hours ? `${hours}:${rest}` : rest;
}

/** 5400 -> "1 h 30 min". */
export function lasting(seconds) {
  if (seconds === undefined || seconds === null || !Number.isFinite(seconds)) return '';
  // As divvy report has short waits.
  if (seconds > 0 && seconds < 0.001) return 'under 1 ms';
  if (seconds > 0 && seconds < 0.1) return `${Math.floor(seconds * 1000)} ms`;
  if (seconds > 0 && seconds < 9.95 && !Number.isInteger(seconds)) return `${seconds.toFixed(1).replace(/\.0$/, '')} s`;
  const all = Math.max(0, Math.round(seconds));
  if (all < 60) return `${all} s`;
  if (all < 3600) return `${Math.floor(all / 60)} min${all % 60 && all < 600 ? ` ${all % 60} s` : ''}`;
  if (all < 86400) return `${Math.floor(all / 3600)} h${Math.floor(all / 60) % 60 ? ` ${Math.floor(all / 60) % 60} min` : ''}`;
  return `${Math.floor(all / 86400)} d${Math.floor(all / 3600) % 24 ? ` ${Math.floor(all / 3600) % 24} h` : ''}`;
}

/** The state of a tenant whose GPU memory is on the host: it has no GPU. */
export const isOnHost = (state) => state === 'parked' || state === 'waking';

/** What divvy queue notes of a running job that can be parked: "on trial, has lost 3 min while parked". */
export const sharingNote = ({ time_sharing: one }) => (one ? [one.stage === 'trial' ? 'on trial' : '', one.lost_s >= 1 ? `has lost ${lasting(one.lost_s)} while parked` : ''].filter(Boolean).join(', ') : '');
const kStages = { trial: 'on trial', long: 'its trial is over', settled: 'settled' };
/** The same in full, as divvy show has it. */
export const sharingText = (job) => {
  const one = job.time_sharing;
  const until = one.returns_by ? ` until ${when(one.returns_by)} at the latest` : '';
  return [kStages[one.stage] ?? one.stage, one.is_parked ? `${one.parked_for ? `parked for job ${one.parked_for}` : 'parked by its sweep'}${until}` : '', one.lost_s >= 1 ? `has lost ${lasting(one.lost_s)} while parked` : '', one.why_kept ? `cannot be parked: ${one.why_kept}` : ''].filter(Boolean).join(', ');
};

const kTime = new Intl.DateTimeFormat('en-GB', { hour: '2-digit', minute: '2-digit', second: '2-digit' });
const kDay = new Intl.DateTimeFormat('en-GB', { day: '2-digit', month: 'short', hour: '2-digit', minute: '2-digit' });
const kHour = new Intl.DateTimeFormat('en-GB', { hour: '2-digit', minute: '2-digit' });
const kFull = new Intl.DateTimeFormat('en-GB', { dateStyle: 'medium', timeStyle: 'medium' });
const dayOf = (date) => date.toDateString();

/** "14:03:07" today, else "21 Nov, 14:03". */
export function when(seconds) {
  if (!seconds) return '';
  const date = new Date(seconds * 1000);
  return dayOf(date) === dayOf(new Date()) ? kTime.format(date) : kDay.format(date);
}
/** For files: ISO 8601 in UTC; '' without. */
export const isoTime = (seconds) => (seconds ? new Date(seconds * 1000).toISOString() : '');
export const fullTime = (seconds) => (seconds ? kFull.format(new Date(seconds * 1000)) : '');

/** "in 5 min", "now". */
export function inSome(seconds) {
  if (seconds === undefined || seconds === null) return '';
  return seconds < 1 ? 'now' : `in ${lasting(Math.round(seconds))}`;
}

const kUnits = ['B', 'KiB', 'MiB', 'GiB', 'TiB', 'PiB'];
export function bytes(count) {
  if (count === undefined || count === null || count < 0) return '';
  let value = count;
  let unit = 0;
  while (value >= 1024 && unit < kUnits.length - 1) {
    value /= 1024;
    ++unit;
  }
  return `${value >= 100 || unit === 0 ? Math.round(value) : value.toFixed(1).replace(/\.0$/, '')} ${kUnits[unit]}`;
}
/** What is not known. */
export const kUnknown = '–';
/** Nothing is told of what it does: its machine is away; as divvy gpus has it. */
export const isSeen = (gpu) => gpu.utilisation_percent >= 0 || gpu.temperature_celsius >= 0 || gpu.memory_used_bytes > 0;
/** "3 GiB / 80 GiB" of a GPU. */
export const memoryText = (gpu) => (isSeen(gpu) || gpu.memory_total_bytes ? `${isSeen(gpu) ? bytes(gpu.memory_used_bytes) : kUnknown} / ${bytes(gpu.memory_total_bytes)}` : kUnknown);
export const percent = (ratio) => (ratio === undefined || ratio === null || ratio < 0 ? '' : `${Math.round(ratio * 100)} %`);
export const number = (value, digits = 1) =>
  value === undefined || value === null ? '' : Number(value.toFixed(digits)).toLocaleString('en-GB');
/** Of a report, as divvy report has it: below 10 % with a digit behind the point, so that little is not nothing. */
export function share(ratio) {
  if (ratio === undefined || ratio === null || ratio < 0) return '';
  if (ratio > 0 && ratio < 0.0005) return '<0.1 %';
  return `${(ratio * 100).toFixed(ratio > 0 && ratio < 0.0995 ? 1 : 0)} %`;
}
/** GPU-hours, as divvy report has them: "0", "0.019", "1,234.5". */
export function hours(value) {
  if (value === undefined || value === null) return '';
  if (value === 0) return '0';
  const digits = value > 0 && value < 0.995 ? 3 : 1;
  return value.toLocaleString('en-GB', { minimumFractionDigits: digits, maximumFractionDigits: digits });
}
/** A number for files: short, and without its unit; '' without. */
export const plain = (value, digits = 6) => (value === undefined || value === null || !Number.isFinite(value) ? '' : String(Number(value.toFixed(digits))));
/** Two digits behind the point, as money has them: 1234.5 -> "1,234.50". */
export const money = (value) =>
  value === undefined || value === null ? '' : value.toLocaleString('en-GB', { minimumFractionDigits: 2, maximumFractionDigits: 2 });
/** An hour of a report, "2026-03-01T16" in UTC, in the reader's time: "today, 17:00", "01 Mar, 17:00". */
export function hourText(group) {
  const date = new Date(`${group}:00:00Z`);
  if (Number.isNaN(date.getTime())) return group;
  return dayOf(date) === dayOf(new Date()) ? `today, ${kHour.format(date)}` : kDay.format(date);
}

/** As a whole: its elements have machines and GPUs of their own. */
export const isWholeArray = (job) => (job.array_index ?? null) === null && (job.count !== 1 || !!job.array_indices);
/** The GPUs that a job is on: one with parts may be on others than it was planned on. */
export const gpusOn = (job) => (job.share?.gpus.length ? job.share.gpus : job.gpus);

/** [0, 1, 2, 5] -> "0-2,5" */
export function ranges(numbers) {
  const sorted = [...numbers].sort((a, b) => a - b);
  const pieces = [];
  for (let i = 0; i < sorted.length; ) {
    let k = i;
    while (k + 1 < sorted.length && sorted[k + 1] === sorted[k] + 1) ++k;
    pieces.push(k === i ? `${sorted[i]}` : `${sorted[i]}-${sorted[k]}`);
    i = k + 1;
  }
  return pieces.join(',');
}

export const stateText = (state) => state.replaceAll('_', ' ');
/** "17_3" of an element, else the number. */
export const publicId = (job) => job.display_id || String(job.id);
/** What actions and addresses take: an element by its own id, an array by its number. */
export const idOf = (job) => String(job.id);

/** "2", "2..8", "0.5", "2x0.5", "2x4", "20 GiB", "1g.18gb", as divvy queue has it. */
export function gpusAsked(request) {
  const portion = request.fraction ?? {};
  const part = portion.request || portion.compute ? String(portion.request || portion.compute) : portion.memory ? bytes(portion.memory) : '';
  if (request.slice) return request.slice;
  if (part) return request.gpus > 1 ? `${request.gpus}x${part}` : part;
  const one = (component) => {
    if (component.max_gpus > component.gpus) return `${component.gpus}..${component.max_gpus}`;
    const on = (nodes, gpus) => (nodes > 1 ? `${nodes}x${gpus}` : `${gpus}`);
    const short = component.short_nodes || 0;
    const full = on(component.nodes - short, component.gpus);
    return short ? `${full}+${on(short, component.gpus - 1)}` : full;
  };
  return [one(request), ...(request.others ?? []).map(one)].join(' + ');
}
/** "2 GPUs", "0.5 GPU", "20 GiB of a GPU". */
export function gpusInWords(request) {
  const text = gpusAsked(request);
  if (request.slice) return text;
  if (text === '0') return 'no GPU';
  if (request.fraction?.memory && !request.fraction.request) return `${text} of ${request.gpus > 1 ? 'each GPU' : 'a GPU'}`;
  return `${text} GPU${text === '1' || (request.fraction?.request && request.gpus === 1) ? '' : 's'}`;
}

/** Its deadline ends this run, earlier than what it asked for would: the limit is what was left until then. */
export const endsByDeadline = ({ request, start_time }) =>
  Boolean(start_time && request.end_by && request.time_limit_s) && Math.abs(start_time + request.time_limit_s - request.end_by) <= 2;

/** How many GPUs in all, for sorting and sums. */
export const gpuCount = (request) =>
  [request, ...(request.others ?? [])].reduce((sum, part) => sum + part.gpus * (part.nodes || 1) - (part.short_nodes || 0), 0);
