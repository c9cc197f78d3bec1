// What comes is made to have the shape that it should: the fields that the page uses, each of its kind. A daemon of another
// release may leave some out or add some; the page shows what there is.
const isObject = (value) => typeof value === 'object' && value !== null && !Array.isArray(value);

/** `value` with each field of `shape` that is missing, or of another kind, at its default there; null stays. */
export function shaped(value, shape) {
  if (!isObject(value)) return structuredClone(shape);
  let made = value;
  for (const name in shape) {
    const wanted = shape[name];
    const given = value[name];
    const fits = given === null ? wanted === null : wanted === null ? typeof given === 'number' : Array.isArray(wanted) ? Array.isArray(given) : isObject(wanted) ? isObject(given) : typeof given === typeof wanted;
    if (fits) continue;
    if (made === value) made = { ...value };
    made[name] = wanted;
  }
  return made;
}
export const listOf = (value, shape) => (Array.isArray(value) ? value.filter(isObject).map((one) => shaped(one, shape)) : []);

const kPortion = { request: 0, limit: 0, memory: 0, memory_limit: 0, compute: 0 };
const kRequest = { gpus: 0, nodes: 1, max_gpus: 0, others: [], fraction: kPortion, slice: '', gpu_type: '', gpu_memory_bytes: 0, cpus: 0, memory_bytes: 0, time_limit_s: 0, end_by: null, topology: '', constraint: '' };
const kJob = { id: 0, display_id: '', name: '', user: '', state: '', gpus: [], allocations: [], submit_time: 0, reason: '', start_reason: '', team: '', pool: '', node: '', count: 1, position: 0, dependencies: [], request: kRequest };
const kMaybe = { start_time: null, end_time: null, eligible_time: null, exit_code: null };
const kGpu = { index: 0, uuid: '', model: '', state: '', reason: '', jobs: [], job_display_ids: [], memory_used_bytes: 0, memory_total_bytes: 0, utilisation_percent: -1, temperature_celsius: -1, power_watts: -1, numa_node: -1, pci_address: '', node: '', links: [], slices: [], processes: [], tenants: [], free: 0 };
const kTenant = { job: 0, display_id: '', name: '', user: '', share: '', state: '', request: 0, compute: 0, compute_request: 0, used_bytes: 0, limit_bytes: 0, mechanism: '', note: '' };
const kProcess = { pid: 0, user: '', command: '', memory_bytes: 0 };
const kNode = { name: '', state: '', reason: '', gpus: 0, gpus_free: 0, jobs: 0, gpu_model: '', gpu_source: '', cpus: 0, memory_bytes: 0, address: '', labels: {}, pools: [], gpus_restricted: [], last_contact: null, deadline: null };
const kStatus = { version: '', gpus: 0, gpus_free: 0, gpus_borrowed: 0, gpus_reserved: 0, jobs_queued: 0, jobs_held: 0, jobs_running: 0, jobs_total: 0, trouble: '', warnings: [] };
const kTeam = { name: '', parent: '', weight: 1, priority: 0, users: [], groups: [], leads: [], is_from_file: false, depth: 0, gpus: 0, running: 0, queued: 0, used_gpu_hours: 0, used_cost: 0, blocker: '', team: '', period: '', quota: null, limit: null, share: null, budget_gpu_hours: null, gpu_limit: null, running_limit: null, queued_limit: null, max_per_hour: null, max_per_month: null, nodes_per_hour: 0, nodes_this_month: 0 };
const kReservation = { number: 0, name: '', gpus: 0, user: '', team: '', duration_s: 0, every: '', occurrences: [] };
const kHolder = { id: 0, display_id: '', name: '', user: '', node: '', gpus: [], until: null };
const kWhy = { summary: '', position: 0, ahead_gpus: 0, predicted_start: null, prediction_basis: '', would_start_now: '', command: '', blockers: [] };
const kDetail = { command: '', script: '', directory: '', output: '', error: '', timeline: [], all_indices: '', notes: [], labels: {}, parameters: {}, elements: {}, steps: [], gpu_uuids: [], pid: 0, speeds: '', isolation: '', comment: '', project: '', group: '', account: '', array_indices: '', array_at_once: 0, restarts: 0, priority: 0, cpu_time_s: 0, memory_peak_bytes: 0, dialect: '', deadline: null };
const kStep = { number: 0, name: '', state: '', tasks: 1, start_time: null, end_time: null, task_map: [] };
const kStepTask = { rank: 0, node: '', gpus: [], cores: '' };
const stepsOf = (list) => listOf(list, kStep).map((step) => ({ ...step, task_map: listOf(step.task_map, kStepTask).map((task) => ({ ...task, gpus: numbers(task.gpus) })) }));
const isText = (value) => typeof value === 'string';
const texts = (list) => list.filter(isText);
const numbers = (list) => list.filter((one) => typeof one === 'number');
const record = (value) => Object.fromEntries(Object.entries(value).filter(([, one]) => ['string', 'number'].includes(typeof one)));

function requestOf(value) {
  const request = shaped(value, kRequest);
  return isObject(request.fraction) ? { ...request, fraction: shaped(request.fraction, kPortion), others: listOf(request.others, kRequest) } : request;
}
export function jobOf(value) {
  const job = shaped(shaped(value, kJob), kMaybe);
  const request = requestOf(job.request);
  const allocations = job.allocations.length ? listOf(job.allocations, { node: '', gpus: [] }).map((allocation) => ({ ...allocation, gpus: numbers(allocation.gpus) })) : job.allocations;
  const progress = isObject(job.progress) ? shaped(job.progress, { fraction: 0, step: 0, steps: 0, expected_end: null }) : null;
  const share = isObject(job.share) ? shaped(job.share, { part: '', state: '', note: '', gpus: [] }) : null;
  if (share) share.gpus = unique(listOf(share.gpus, { gpu: -1 }), 'gpu').map((one) => one.gpu).filter((gpu) => gpu >= 0);
  const sharing = isObject(job.time_sharing) ? shaped(job.time_sharing, { stage: '', is_parked: false, parked_for: '', lost_s: 0, returns_by: null, why_kept: '' }) : null;
  return { ...job, request, allocations, progress, share, time_sharing: sharing, gpus: numbers(job.gpus), dependencies: texts(job.dependencies) };
}
export function detailOf(value) {
  const job = shaped(jobOf(value), kDetail);
  return {
    ...job,
    timeline: listOf(job.timeline, { time: 0, text: '' }),
    notes: texts(job.notes),
    gpu_uuids: texts(job.gpu_uuids),
    labels: record(job.labels),
    parameters: record(job.parameters),
    elements: record(job.elements),
    steps: stepsOf(job.steps),
  };
}
export const whyOf = (value) => {
  const why = shaped(value, kWhy);
  const blockers = listOf(why.blockers, { text: '', held_by: [] });
  return { ...why, blockers: blockers.map((one) => ({ ...one, held_by: unique(listOf(one.held_by, kHolder), 'id') })) };
};
/** Each key once: two lines of one key would be one line. */
export function unique(list, key) {
  const seen = new Set();
  return list.filter((one) => !seen.has(one[key]) && seen.add(one[key]));
}
export const jobsOf = (value) => (Array.isArray(value) ? unique(value.filter(isObject).map(jobOf), 'id') : []);
export const gpusOf = (value) => {
  const seen = new Set();
  return listOf(value, kGpu)
    .map((gpu) => ({ ...gpu, jobs: [...new Set(numbers(gpu.jobs))], job_display_ids: texts(gpu.job_display_ids), links: texts(gpu.links), slices: texts(gpu.slices), tenants: unique(listOf(gpu.tenants, kTenant), 'job'), processes: listOf(gpu.processes, kProcess) }))
    .filter((gpu) => !seen.has(`${gpu.node}:${gpu.index}`) && seen.add(`${gpu.node}:${gpu.index}`));
};
export const nodesOf = (value) =>
  unique(listOf(value, kNode), 'name').map((node) => ({ ...node, labels: record(node.labels), pools: texts(node.pools), gpus_restricted: numbers(node.gpus_restricted) }));
export const statusOf = (value) => {
  const status = shaped(value, kStatus);
  return { ...status, warnings: [...new Set(texts(status.warnings))] };
};
const kLatestGpu = { node: '', gpu: 0, processes: [] };
const kLatestProcess = { pid: 0, id: null, memory_bytes: 0, utilization: null, cpu_cores: null, host_memory_bytes: null, read_bytes_per_second: null, written_bytes_per_second: null };
/** The processes of a job on GPUs, from what was sampled last; whose they are and what they are called, from the GPUs. */
export function processesOf(id, samples, gpus) {
  const found = listOf(samples?.gpus, kLatestGpu).flatMap((seen) => {
    const known = gpus.find((gpu) => gpu.node === seen.node && gpu.index === seen.gpu)?.processes ?? [];
    return listOf(seen.processes, kLatestProcess)
      .filter((one) => one.id === id)
      .map((one) => ({ ...one, key: `${seen.node}:${seen.gpu}:${one.pid}`, node: seen.node, gpu: seen.gpu, command: known.find((other) => other.pid === one.pid)?.command ?? '' }));
  });
  return unique(found, 'key').sort((a, b) => a.node.localeCompare(b.node) || a.gpu - b.gpu || a.pid - b.pid);
}
export const teamsOf = (value) => {
  const all = shaped(value, { are_quotas_on: false, teams: [], users: [] });
  const named = (team) => ({ ...team, users: texts(team.users), groups: texts(team.groups), leads: texts(team.leads) });
  return { ...all, teams: unique(listOf(all.teams, kTeam).map(named), 'name'), users: unique(listOf(all.users, kTeam), 'name') };
};
const kProvider = { name: '', kind: '', state: '', nodes: 0, gpus: 0, unrequested: 0, hourly: 0, this_month: 0, max_nodes: null, max_gpus: null, max_per_hour: null, max_per_month: null, last_error: '', last_error_at: 0, list: [] };
const kProviderNode = { node: '', shape: '', state: '', instance: '', requested: 0, joined: 0, hourly: 0, cost: 0, why: '' };
export const providersOf = (value) => unique(listOf(value, kProvider), 'name').map((one) => ({ ...one, list: unique(listOf(one.list, kProviderNode), 'node') }));
export const reservationsOf = (value) =>
  unique(listOf(value, kReservation), 'number').map((one) => ({ ...one, occurrences: listOf(one.occurrences, { start: 0, end: 0, reason: '' }) }));
const kReceiver = { name: '', user: '', events: '', channel: '', target: '', is_signed: false, may_be_removed: false, waiting: 0, sent: 0, lost: 0, last_success: 0, last_failure: 0, failure: '', next_try: 0 };
export const receiversOf = (value) => {
  const answer = shaped(value, { is_on: true, receivers: [] });
  return { ...answer, receivers: unique(listOf(answer.receivers, kReceiver).map((one) => ({ ...one, key: `${one.user}/${one.name}` })), 'key') };
};
export const startsOf = (value) => {
  const answer = shaped(value, { is_complete: true, starts: [] });
  return { ...answer, starts: unique(listOf(answer.starts, { id: 0, start: null, basis: '' }), 'id') };
};
export const poolsOf = (value) => unique(listOf(value, { name: '' }), 'name');
const kFinding = { kind: '', since: 0, gpus: 0, text: '', remedy: '' };
const kWasteful = { id: 0, display_id: '', name: '', user: '', team: '', gpus: 0, wasted_gpus: 0, gpu_hours: 0, lost_gpu_hours: 0, idle_gpu_hours: 0, lost_cost: null, action: '', action_text: '', action_time: null, warnings: 0, max_warnings: 0, findings: [] };
export const wasteOf = (value) => {
  const waste = shaped(value, { is_on: false, wasted_gpus: 0, jobs: [] });
  return { ...waste, jobs: unique(listOf(waste.jobs, kWasteful), 'id').map((job) => ({ ...job, findings: listOf(job.findings, kFinding) })) };
};
/** What the last run of a job lost, ended or not (GET /v1/jobs/ID/waste). */
export const jobWasteOf = (value) => {
  const waste = shaped(value, { id: 0, has_ended: false, gpu_hours: 0, lost_gpu_hours: 0, idle_gpu_hours: 0, lost_share: 0, lost_cost: null, is_small: false, findings: [] });
  return { ...waste, findings: listOf(waste.findings, kFinding) };
};
const kRowJob = { id: 0, name: '', user: '', state: '' };
export const wasteReportOf = (value) => {
  const report = shaped(value, { gpu_hours: 0, lost_gpu_hours: 0, idle_gpu_hours: 0, lost_cost: null, rows: [] });
  return { ...report, rows: unique(listOf(report.rows, { group: '', jobs: 0, gpu_hours: 0, lost_gpu_hours: 0, idle_gpu_hours: 0, lost_share: 0, lost_cost: null, is_small: false, findings: [] }), 'group').map((row) => ({ ...row, findings: listOf(row.findings, kFinding), job: isObject(row.job) ? shaped(row.job, kRowJob) : null })) };
};
export const efficiencyOf = (value) => ({ rows: unique(listOf(shaped(value, { rows: [] }).rows, { group: '', utilization: 0, gpu_hours: 0, memory_peak_bytes: 0, cpu_cores: 0, cpu_use: null }), 'group') });
export const sharesOf = (value) => {
  const report = shaped(value, { since: 0, until: 0, step_s: 1, rows: [] });
  const steps = (list) => list.map((one) => (Number.isFinite(one) ? one : null));
  const rows = unique(listOf(report.rows, { group: '', gpu_hours: 0, gpus: [], share: [], quota: [], limit: [] }), 'group');
  return { ...report, rows: rows.map((row) => ({ ...row, gpus: steps(row.gpus), share: steps(row.share), quota: steps(row.quota), limit: steps(row.limit) })) };
};
export const environmentOf = (value) => unique(listOf(shaped(value, { variables: [] }).variables, { name: '', value: '', is_asked: false }), 'name');
// Users choose the names of these values: without a prototype there is no 'constructor' among them.
const only = (values, fits) => Object.assign(Object.create(null), Object.fromEntries(Object.entries(values).filter(([, one]) => fits(one))));
export const elementsOf = (value) => {
  const answer = shaped(value, { elements: [], is_cut: false });
  const elements = listOf(answer.elements, { id: 0, parameters: {}, metrics: {} });
  return { ...answer, elements: elements.map((one) => ({ ...one, parameters: only(one.parameters, isText), metrics: only(one.metrics, Number.isFinite) })) };
};
const kService = { name: '', user: '', state: '', url: '', settings: {}, revision: 0, hot: 0, starting: 0, parked: 0, draining: 0, in_flight: 0, queued: 0, requests_per_second: 0, requests: 0, errors: 0, metric: null, latency_p50_s: null, latency_p95_s: null, latency_p99_s: null, gpus: 0, cost_per_1000_requests: null, last_wake_s: 0, scaled: '', note: '' };
const kSettings = { min_replicas: 0, max_replicas: 0, metric: '' };
const withSettings = (service) => ({ ...service, settings: shaped(service.settings, kSettings) });
export const servicesOf = (value) => unique(listOf(value, kService), 'name').map(withSettings);
export const serviceOf = (value) => {
  const service = shaped(value, { ...kService, replicas: [], revisions: [], events: [] });
  return {
    ...withSettings(service),
    canary: isObject(service.canary) ? shaped(service.canary, { revision: 0, share: 0, requests: 0, errors: 0 }) : null,
    replicas: unique(listOf(service.replicas, { number: 0, job: 0, revision: 0, state: '', address: '', in_flight: 0, since: 0, note: '' }), 'number'),
    revisions: unique(listOf(service.revisions, { number: 0, state: '', command: '', note: '' }), 'number'),
    events: listOf(service.events, { at: 0, text: '' }),
  };
};
const kSweep = { id: 0, name: '', user: '', state: '', method: '', metric: '', goal: '', resource: '', early_terminate: '', min_iter: 0, max_iter: 0, eta: 0, trials: 0, waiting: 0, running: 0, paused: 0, stopped: 0, ended: 0, best_trial: null, best: null, note: '' };
export const sweepsOf = (value) => unique(listOf(value, kSweep), 'id');
export const sweepOf = (value) => {
  const sweep = shaped(value, { ...kSweep, parameters: [], list: [] });
  const trials = unique(listOf(sweep.list, { id: 0, trial: 0, state: '', parameters: {}, best: null, best_at: 0, last: null, last_at: 0, rungs: [], note: '' }), 'trial');
  return { ...sweep, parameters: [...new Set(texts(sweep.parameters))], list: trials.map((one) => ({ ...one, parameters: only(one.parameters, isText), rungs: one.rungs.map((rung) => (Number.isFinite(rung) ? rung : null)) })) };
};
const kParameter = { name: '', type: '', is_optional: false, is_multiple: false, min: null, max: null, choices: [], description: '' };
export const valohaiOf = (value) => {
  const answer = shaped(value, { problems: [], steps: [], tasks: [], refusal: '' });
  const tasks = unique(listOf(answer.tasks, { name: '', step: '', type: '', parameters: [] }), 'name').map((one) => ({ ...one, parameters: texts(one.parameters) }));
  const steps = listOf(answer.steps, { name: '', image: '', description: '', time_limit_s: 0, commands: [], parameters: [], inputs: [], variables: [] }).map((step) => ({
    ...step,
    commands: texts(step.commands),
    parameters: unique(listOf(step.parameters, kParameter), 'name').map((one) => ({ ...one, choices: [...new Set(texts(one.choices))], defaults: Array.isArray(one.defaults) ? texts(one.defaults) : null })),
    inputs: unique(listOf(step.inputs, { name: '', is_optional: false, description: '', defaults: [] }), 'name').map((one) => ({ ...one, defaults: texts(one.defaults) })),
    variables: unique(listOf(step.variables, { name: '', is_optional: true }), 'name').map((one) => ({ ...one, value: typeof one.value === 'string' ? one.value : null })),
  }));
  const spec = isObject(answer.spec) ? { ...answer.spec, request: shaped(answer.spec.request, { gpus: 0 }), extra_environment: texts(Array.isArray(answer.spec.extra_environment) ? answer.spec.extra_environment : []), script: typeof answer.spec.script === 'string' ? answer.spec.script : '' } : null;
  return { ...answer, spec, tasks, steps: unique(steps, 'name'), problems: listOf(answer.problems, { line: 0, is_warning: false, text: '' }) };
};
// Of a specification only what is there; what a form reads of it is of the type that it takes it for.
const kSpec = { command: [], script: '', arguments: [], name: '', directory: '', request: {}, priority: 0, time_limit: 0, dependencies: [], array: {}, retries: 0, preemptible: '', output: '', project: '', team: '', pool: '', labels: {}, extra_environment: [], capture: {} };
const kSpecRequest = { gpus: 0, max_gpus: 0, gpu_type: '', cpus: 0, memory: 0, tasks: 1, nodes: 1, topology: '', constraint: '', slice: '', fraction: {} };
const kSpecPortion = { request: 0, limit: 0, memory: 0, memory_limit: 0 };
function fitting(value, shape) {
  const fits = ([name, one]) => {
    const wanted = Object.hasOwn(shape, name) ? shape[name] : undefined;
    return wanted === undefined || (Array.isArray(wanted) ? Array.isArray(one) : isObject(wanted) ? isObject(one) : typeof one === typeof wanted);
  };
  return Object.fromEntries(Object.entries(isObject(value) ? value : {}).filter(fits));
}
export function specOfAnswer(value) {
  const spec = fitting(value, kSpec);
  if (spec.request) spec.request = fitting(spec.request, kSpecRequest);
  // The daemon's answer also has these fields under the last release's names. The form changes only the present ones,
  // and the daemon refuses two names with different values.
  for (const former of ['gpus_most', 'portion']) delete spec.request?.[former];
  if (spec.request?.fraction) spec.request.fraction = fitting(spec.request.fraction, kSpecPortion);
  if (spec.array) spec.array = fitting(spec.array, { indices: '', at_once: 0 });
  if (spec.capture) spec.capture = fitting(spec.capture, { environment: [], limits: {}, umask: 0 });
  if (spec.dependencies) spec.dependencies = spec.dependencies.filter(isObject);
  for (const name of ['command', 'arguments', 'extra_environment']) if (spec[name]) spec[name] = texts(spec[name]);
  return spec;
}
export const againOf = (value) => {
  const answer = shaped(value, { spec: {}, left_out: [] });
  return { spec: specOfAnswer(answer.spec), left_out: texts(answer.left_out) };
};
export const scriptOf = (value) => {
  const answer = shaped(value, { spec: {}, refusal: '' });
  return { spec: specOfAnswer(answer.spec), refusal: answer.refusal };
};
export const wordsOf = (value) => {
  const answer = shaped(value, { words: [], line: '', refusal: '' });
  return { ...answer, words: unique(listOf(answer.words, { text: '', members: [], is_option: true, is_of_script: false }).map((one) => ({ ...one, members: texts(one.members) })).filter((one) => one.members.length), 'text') };
};
export const predictionsOf = (value) => {
  const report = shaped(value, { jobs: 0, rows: [] });
  return { ...report, rows: unique(listOf(report.rows, { user: '', predicted: 0, unpredicted: 0, median_ratio: 0, within_factor_two: 0, inside_interval: 0 }), 'user') };
};
const kUsageRow = { group: '', jobs: 0, running: 0, failed: 0, gpu_hours: 0, failed_gpu_hours: 0, share: 0, wait_mean_s: null, wait_median_s: null, wait_p95_s: null };
export const usageOf = (value) => {
  const report = shaped(value, { since: 0, until: 0, gpu_hours: 0, capacity_gpu_hours: 0, is_cut: false, rows: [] });
  return { ...report, until: Math.min(report.until, report.since + 120 * 86400), rows: unique(listOf(report.rows, kUsageRow), 'group') };
};
const kFairnessRow = { group: '', jobs: 0, gpu_hours: 0, share: 0, wait_median_s: 0, wait_longest_s: 0, slowdown_median: 0, slowdown_p95: 0 };
export const fairnessOf = (value) => {
  const report = shaped(value, { evenness_of_share: 0, evenness_of_slowdown: 0, rows: [] });
  return { ...report, rows: unique(listOf(report.rows, kFairnessRow), 'group') };
};
export const speedsOf = (value) => ({ rows: listOf(shaped(value, { rows: [] }).rows, { name: '', user: '', command: '', model: '', gpus: 0, speed: 0, runs: 0, by: '' }) });
export const forecastOf = (value) => {
  const answer = shaped(value, { id: 0, summary: '', notes: [], allocations: [], prediction_basis: '', predicted_start: null });
  return { ...answer, notes: texts(answer.notes), allocations: listOf(answer.allocations, { node: '', gpus: [] }).map((allocation) => ({ ...allocation, gpus: numbers(allocation.gpus) })) };
};
export function seriesOf(value) {
  const answer = shaped(value, { step_s: 1, begin: 0, series: [] });
  const values = (list) => list.map((one) => (typeof one === 'number' && Number.isFinite(one) ? one : null));
  return { ...answer, series: listOf(answer.series, { metric: '', unit: '', mean: [] }).map((one) => ({ ...one, mean: values(one.mean) })) };
}
const kSpread = { mean: 0, median: 0, p90: 0, p99: 0, max: 0 };
const groupOf = (value) => {
  const group = shaped(value, { jobs: 0, jct_seconds: kSpread, wait_seconds: kSpread, slowdown: kSpread });
  return { ...group, jct_seconds: shaped(group.jct_seconds, kSpread), wait_seconds: shaped(group.wait_seconds, kSpread), slowdown: shaped(group.slowdown, kSpread) };
};
/** What divvy simulate --json prints. */
export function simulationOf(value) {
  const result = shaped(value, { notes: [], runs: [] });
  const runs = listOf(result.runs, { policy: '', gpus: 0, allocation_percent: 0, all: {}, largest_tenth: {}, load: [], load_columns: [] });
  return { notes: [...new Set(texts(result.notes))], runs: runs.map((run) => ({ ...run, all: groupOf(run.all), largest_tenth: groupOf(run.largest_tenth), load: run.load.filter(Array.isArray) })) };
}
