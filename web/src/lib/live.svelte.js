// What the daemon says now: jobs, GPUs, machines and the daemon itself, kept fresh by its stream of events.
//
// An event names a job; those named are read again, all together at most once a second. What no event tells (positions,
// use of GPUs) is read anew every few seconds, the more seldom the longer that takes. A page that nobody looks at asks
// nothing.
import { get, query, stream } from './api.js';
import { follow as followShared } from './shared.js';
import { gpusOf, jobsOf, nodesOf, statusOf, wasteOf } from './shape.js';
import { slowdownText } from './throttle.js';

const kMostNamed = 150;
const kMostEvents = 5000;
const kTick = 1000;
const kPatienceMs = 2000;

class Live {
  /** 'loading', 'ready', 'away': the stream is cut and tried again. */
  phase = $state('loading');
  error = $state('');
  awaySince = $state(0);
  nextTry = $state(0);
  /** The address of the controller that leads, if that is another one. */
  leader = $state('');
  /** The addresses of the other controllers. They are kept while this one does not answer. */
  others = $state.raw([]);
  /** How often a stream of events was opened: what happened before the last time came by none. */
  opened = $state(0);
  status = $state.raw(null);
  jobs = $state.raw([]);
  gpus = $state.raw([]);
  nodes = $state.raw([]);
  /** Newest samples by GPU ("n1:0"), node and job, where the daemon takes them; see fresh(). */
  samples = $state.raw(null);
  /** Who wastes GPUs (GET /v1/waste); the daemon looks each ten seconds. */
  waste = $state.raw({ is_on: false, wasted_gpus: 0, jobs: [] });
  events = $state.raw([]);
  now = $state(Date.now() / 1000);
  /** The daemon's clock less this one's. */
  clockAhead = 0;
  /** Called with each change of a job. */
  listeners = new Set();
}
export const live = new Live();

let wanted = false;
let abort = null;
let ticker = null;
let named = new Set();
let gpusDue = 0;
let listDue = 0;
let statusDue = 0;
let nodesDue = 0;
let wasteDue = 0;
let isReading = false;
let byId = new Map();

export const now = () => Date.now() / 1000 + live.clockAhead;

function say(event) {
  if (event.kind === 'job' && event.id !== undefined) named.add(event.id);
  if (event.kind === 'gpus') gpusDue = 0;
  const events = live.events.length >= kMostEvents ? live.events.slice(-kMostEvents / 2) : live.events;
  live.events = [...events, event];
  for (const listener of live.listeners) listener(event);
}

/** What samples say of GPUs is newer than what the list of them does. */
function withSamples(gpus) {
  if (!live.samples?.gpus?.length) return gpus;
  const seen = new Map(live.samples.gpus.map((one) => [`${one.node}:${one.gpu}`, one.values]));
  return gpus.map((gpu) => {
    const values = seen.get(`${gpu.node}:${gpu.index}`);
    if (!values) return gpu;
    const fresh = { ...gpu };
    if ('gpu_utilization' in values) fresh.utilisation_percent = Math.round(values.gpu_utilization * 100);
    if ('gpu_memory_used_bytes' in values) fresh.memory_used_bytes = values.gpu_memory_used_bytes;
    if ('gpu_throttle' in values) fresh.slowdown = slowdownText(values.gpu_throttle);
    if ('gpu_power_watts' in values) fresh.power_watts = Math.round(values.gpu_power_watts);
    if ('gpu_temperature_celsius' in values) fresh.temperature_celsius = Math.round(values.gpu_temperature_celsius);
    return fresh;
  });
}
function takeSamples(samples) {
  live.samples = samples;
  if (live.gpus.length) live.gpus = withSamples(live.gpus);
}

async function timed(read) {
  const begun = performance.now();
  await read();
  return performance.now() - begun;
}

const compare = (a, b) => rank(a) - rank(b) || (a.position || 1e9) - (b.position || 1e9) || a.id - b.id;
const kRanks = { __proto__: null, running: 0, paused: 0, stopping: 0, starting: 0, queued: 1, held: 2 };
const rank = (job) => kRanks[job.state] ?? 3;

async function readAll() {
  named.clear();
  const jobs = jobsOf(await get('/v1/jobs' + query({ user: 'all' })));
  byId = new Map(jobs.map((job) => [job.id, job]));
  live.jobs = jobs.sort(compare);
}

async function readNamed() {
  const ids = [...named];
  named.clear();
  const found = jobsOf(await get('/v1/jobs' + query({ user: 'all', all: true, ids: ids.join(',') })));
  for (const id of ids) byId.delete(id);
  for (const job of found) if (!isFinal(job.state)) byId.set(job.id, job);
  live.jobs = [...byId.values()].sort(compare);
}

/** Beside other machines the controller's own has a name too; '' where it is the only one. */
export const nodeOf = (node) => node || (live.nodes.length > 1 ? (live.nodes.find((one) => one.is_controller)?.name ?? '') : '');

/** Seconds that a job, an element or a step has run; of what began just now the page's clock may be a moment behind. Undefined: it has not begun. */
export const ranFor = (one) => (one.start_time ? Math.max(0, (one.end_time ?? live.now) - one.start_time) : undefined);
/** Where a job of several machines is: its allocations, each with the name of its machine. */
export const allocationsOf = (job) => (job.allocations ?? []).map((allocation) => ({ ...allocation, node: nodeOf(allocation.node) }));

/** Nothing is heard of it now: what was seen of it last is no news. */
export const isUnheard = (name) => live.nodes.some((one) => one.name === name && ['away', 'lost'].includes(one.state));

export const isFinal = (state) => ['succeeded', 'failed', 'cancelled', 'timed_out', 'lost'].includes(state);
export const waits = (state) => state === 'queued' || state === 'held';

async function readDue() {
  const at = performance.now();
  if (at >= listDue || named.size > kMostNamed) {
    const cost = await timed(readAll);
    listDue = performance.now() + Math.max(10_000, 40 * cost);
  } else if (named.size) {
    try {
      await readNamed();
    } catch (error) {
      // One of the requested jobs no longer exists.
      if (error.status !== 404) throw error;
      listDue = 0;
    }
  }
  if (at >= gpusDue) {
    const cost = await timed(async () => (live.gpus = withSamples(gpusOf(await get('/v1/gpus')))));
    gpusDue = performance.now() + Math.max(live.samples ? 5_000 : 2_000, 20 * cost);
  }
  if (at >= statusDue) {
    live.status = statusOf(await get('/v1/status'));
    statusDue = performance.now() + 2_000;
  }
  if (at >= nodesDue) {
    const cost = await timed(async () => (live.nodes = nodesOf(await get('/v1/nodes'))));
    nodesDue = performance.now() + Math.max(4_000, 20 * cost);
  }
  if (at >= wasteDue) {
    const cost = await timed(async () => (live.waste = wasteOf(await get('/v1/waste'))));
    wasteDue = performance.now() + Math.max(5_000, 20 * cost);
  }
}

async function tick() {
  live.now = now();
  if (isReading || live.phase === 'away' || document.hidden) return;
  isReading = true;
  try {
    await readDue();
    if (live.phase === 'loading' && abort) live.phase = 'ready';
    live.error = '';
  } catch (error) {
    if (error.status === 0 && wanted) goAway(error.message);
    else if (error.status !== 401) live.error = error.message;
  } finally {
    isReading = false;
  }
}

function goAway(message) {
  if (live.phase !== 'away') live.awaySince = now();
  live.phase = 'away';
  live.error = message;
  abort?.abort();
}

export function refresh() {
  listDue = gpusDue = statusDue = nodesDue = 0;
  void tick();
}

/** Asks this page's controller who leads. A standby answers too, with status 503. */
async function readLeader() {
  const isAnothers = (address) => /^[\w.:[\]-]+$/.test(address ?? '') && address !== location.host;
  try {
    const signal = AbortSignal.timeout(kPatienceMs);
    const response = await fetch('/leader', { cache: 'no-store', credentials: 'omit', redirect: 'error', signal });
    const answer = await response.json();
    live.leader = !answer.leads && isAnothers(answer.address) ? answer.address : '';
    live.others = (answer.controllers ?? []).filter(isAnothers);
  } catch {
    live.leader = '';
  }
}

let wake = () => {};

async function follow() {
  let pause = 500;
  while (wanted) {
    if (document.hidden) await new Promise((resolve) => (wake = resolve));
    if (!wanted) return;
    abort = new AbortController();
    const own = abort;
    try {
      await followShared(own.signal, (heard) => stream('/v1/events' + query({ samples: true }), { signal: own.signal, ...heard }), {
        onOpen: () => {
          pause = 500;
          if (live.phase === 'away') live.phase = 'loading';
          live.error = '';
          ++live.opened;
          refresh();
          void readLeader();
        },
        onEvent: (name, data) => (name === 'samples' ? takeSamples(data) : say(data)),
      });
      throw new Error('the daemon ended');
    } catch (error) {
      if (!wanted || error.status === 401) return;
      if (own.signal.aborted && document.hidden) continue;
      goAway(error.status ? error.message : 'the daemon does not answer');
      void readLeader();
      live.nextTry = now() + pause / 1000;
      await new Promise((resolve) => {
        wake = resolve;
        setTimeout(resolve, pause);
      });
      pause = Math.min(pause * 1.6, 8000);
    }
  }
}

export const tryNow = () => wake();

function onVisibility() {
  // Hidden tabs keep no connection.
  if (document.hidden) abort?.abort();
  else {
    wake();
    refresh();
  }
}

export function startLive() {
  if (wanted) return;
  wanted = true;
  live.phase = 'loading';
  ticker = setInterval(tick, kTick);
  document.addEventListener('visibilitychange', onVisibility);
  void follow();
}

export function stopLive() {
  wanted = false;
  clearInterval(ticker);
  document.removeEventListener('visibilitychange', onVisibility);
  abort?.abort();
  wake();
}
