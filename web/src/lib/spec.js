// Between the form and what is submitted (JobSpec, docs/api.md).

/** As a shell splits words; throws where a quote is left open. */
export function splitWords(text) {
  const words = [];
  let word = '';
  let has = false;
  let quote = '';
  for (let i = 0; i < text.length; ++i) {
    const c = text[i];
    if (quote === "'") {
      if (c === "'") quote = '';
      else word += c;
    } else if (quote === '"') {
      if (c === '"') quote = '';
      else if (c === '\\' && '"\\$`'.includes(text[i + 1] ?? ' ')) word += text[++i];
      else word += c;
    } else if (c === "'" || c === '"') {
      quote = c;
      has = true;
    } else if (c === '\\' && i + 1 < text.length) {
      word += text[++i];
      has = true;
    } else if (/\s/.test(c)) {
      if (has) words.push(word);
      word = '';
      has = false;
    } else {
      word += c;
      has = true;
    }
  }
  if (quote) throw new Error('the command has an unclosed quote');
  if (has) words.push(word);
  return words;
}
export const quoted = (word) => (/^[A-Za-z0-9_@%+=:,./-]+$/.test(word) ? word : `'${word.replaceAll("'", `'\\''`)}'`);

/**
 * What in a command is a shell's: ["&&", ">"]; a program that is started without one is given it as words. Not in
 * single quotes; of double ones only what a shell fills in there.
 */
export function shellSigns(text) {
  const signs = new Set();
  let quote = '';
  let isStart = true;
  if (/^\s*[A-Za-z_][A-Za-z0-9_]*=/.test(text)) signs.add('a leading NAME=value');
  for (let i = 0; i < text.length; ++i) {
    const c = text[i];
    const fills = (c === '$' && /[A-Za-z0-9_{(?@*#!$-]/.test(text[i + 1] ?? '')) || c === '`';
    if (c === '\\' && quote !== "'") {
      ++i;
      isStart = false;
    } else if (quote) {
      if (c === quote) quote = '';
      else if (quote === '"' && fills) signs.add(c);
    } else if (c === "'" || c === '"') {
      [quote, isStart] = [c, false];
    } else {
      const operator = /^(&&|\|\||;;|>>|<<|[0-9]?>&[0-9]|[;&|<>()*?])/.exec(text.slice(i));
      if (operator) {
        signs.add(operator[0]);
        i += operator[0].length - 1;
      } else if (fills || (isStart && (c === '~' || c === '#'))) signs.add(c);
      else if (c === '\n' && text.slice(i).trim() && text.slice(0, i).trim()) signs.add('a line break');
      isStart = /\s/.test(c);
    }
  }
  return [...signs];
}
/** Where a command has such signs a shell runs it, unless its user wants them as words. */
export const isForShell = (form) => form.kind === 'command' && form.isPlain !== true && shellSigns(form.command).length > 0;
const commandOf = (form) => (isForShell(form) ? ['sh', '-c', form.command.trim()] : splitWords(form.command));

const isSaid = (value) => value !== '' && value !== null && value !== undefined;
function count(value, what, least = 0) {
  const number = Number(value);
  if (!Number.isInteger(number) || number < least) throw new Error(`${what}: expected a whole number of at least ${least}`);
  return number;
}
function amount(value, what) {
  const number = Number(value);
  if (!Number.isFinite(number) || number < 0) throw new Error(`${what}: expected a number of at least 0`);
  return number;
}
const kGiB = 2 ** 30;
const sizeOf = (value, what) => Math.round(amount(value, what) * kGiB);
function secondsOf(hours) {
  const seconds = Math.round(amount(hours, 'hours') * 3600);
  if (seconds === 0 && Number(hours) !== 0) throw new Error('hours: expected at least one second');
  return seconds;
}

const variablesOf = (form) => form.environment.split('\n').map((line) => line.trim()).filter(Boolean);
const isOneLine = (pair) => !/[\n\r]/.test(pair);
/** VH_GPUS=N among the variables asks for N GPUs where nothing else does, as on the command line; else null. */
export function gpusByVariable(form) {
  if (form.areGpusSaid) return null;
  const said = variablesOf(form).findLast((line) => line.startsWith('VH_GPUS='));
  return said === undefined ? null : count(said.slice('VH_GPUS='.length).trim() || 'x', 'VH_GPUS');
}

const some = (number) => (number ? String(number) : '');
const gibOf = (size) => (size ? String(+(size / kGiB).toFixed(3)) : '');
const isAnyEnd = (one) => one.kind === 'after_any' && (one.element ?? null) === null && !one.delay;
export const kEmptyScript = '#!/bin/bash\n';

/** What the form shows of a specification, in which what is as usual may be missing. */
export function formOf(spec) {
  const request = spec.request ?? {};
  const portion = request.fraction ?? {};
  const dependencies = spec.dependencies ?? [];
  const nodes = request.nodes || 1;
  return {
    kind: spec.script ? 'script' : 'command',
    command: (spec.command ?? []).map(quoted).join(' '),
    isPlain: null,
    script: spec.script || kEmptyScript,
    arguments: (spec.arguments ?? []).map(quoted).join(' '),
    name: spec.name ?? '',
    directory: spec.directory ?? '',
    gpus: String(request.gpus ?? 0),
    gpusMost: request.max_gpus > (request.gpus ?? 0) ? String(request.max_gpus) : '',
    areGpusSaid: Object.keys(spec).length > 0,
    part: request.slice ? 'slice' : portion.request ? 'part' : portion.memory ? 'memory' : 'whole',
    portion: some(portion.request) || '0.5',
    portionMost: some(portion.limit),
    memory: gibOf(portion.memory) || '20',
    memoryMost: gibOf(portion.memory_limit),
    slice: request.slice ?? '',
    gpuType: request.gpu_type ?? '',
    cpus: some(request.cpus),
    hostMemory: gibOf(request.memory),
    hours: spec.time_limit ? String(+(spec.time_limit / 3600).toFixed(4)) : '',
    nodes: String(nodes),
    tasks: request.tasks > 1 && request.tasks !== nodes ? String(request.tasks) : '',
    pool: spec.pool ?? '',
    team: spec.team ?? '',
    project: spec.project ?? '',
    priority: some(spec.priority),
    array: spec.array?.indices ?? '',
    atOnce: some(spec.array?.at_once),
    after: dependencies.every(isAnyEnd) && !spec.needs_any_dependency ? dependencies.map((one) => one.job).join(' ') : '',
    topology: (request.topology ?? 'any') === 'any' ? '' : request.topology + (request.requires_topology ? ':required' : ''),
    preemptible: spec.is_preemptible_set ? (spec.preemptible ?? 'never') : '',
    isHeld: spec.is_held ?? false,
    environment: (spec.extra_environment ?? []).filter(isOneLine).join('\n'),
    retries: some(spec.retries),
    constraint: request.constraint ?? '',
    output: spec.output ?? '',
  };
}
/** Nothing beneath, and one GPU, which is what is wanted most often. */
export const freshForm = () => ({ ...formOf({}), gpus: '1' });

function takeGpus(form, request) {
  request.gpus = gpusByVariable(form) ?? (isSaid(form.gpus) ? count(form.gpus, 'GPUs') : 0);
  request.max_gpus = isSaid(form.gpusMost) ? count(form.gpusMost, 'maximum GPUs') : 0;
  delete request.slice;
  const { compute, compute_limit, idle_park, uses_mps } = request.fraction ?? {};
  const rest = Object.fromEntries(Object.entries({ compute, compute_limit, idle_park, uses_mps }).filter(([, value]) => value));
  delete request.fraction;
  if (form.part === 'part') request.fraction = { ...rest, request: amount(form.portion, 'fraction'), ...(isSaid(form.portionMost) ? { limit: amount(form.portionMost, 'borrow limit') } : {}) };
  if (form.part === 'memory') request.fraction = { ...rest, memory: sizeOf(form.memory, 'memory per GPU'), ...(isSaid(form.memoryMost) ? { memory_limit: sizeOf(form.memoryMost, 'borrow limit') } : {}) };
  if (form.part === 'slice') {
    if (!form.slice.trim()) throw new Error('MIG instance: enter a profile such as 1g.10gb, or a size such as >=16G');
    [request.slice, request.gpus] = [form.slice.trim(), request.gpus || 1];
  }
}

function takeWork(form, spec) {
  delete spec.command;
  delete spec.script;
  delete spec.arguments;
  if (form.kind === 'command') {
    spec.command = commandOf(form);
    return;
  }
  spec.script = form.script.startsWith('#!') ? form.script : `${kEmptyScript}${form.script}`;
  if (form.arguments.trim()) spec.arguments = splitWords(form.arguments);
}

/**
 * What is submitted: `carried.spec` with all that the form says otherwise than it did (`carried.form`, formOf of it),
 * so that what was not touched stays as it was, whether there is a field for it or not. Throws what is wrong.
 */
export function specOf(form, carried) {
  const spec = structuredClone(carried.spec);
  const request = (spec.request ??= {});
  const differs = (...keys) => keys.some((key) => form[key] !== carried.form[key]);
  const take = (key, into, name, read = (value) => value) => {
    if (!differs(key)) return;
    if (isSaid(form[key])) into[name] = read(form[key]);
    else delete into[name];
  };
  if (differs('kind', 'command', 'isPlain', 'script', 'arguments')) takeWork(form, spec);
  if (differs('gpus', 'gpusMost', 'part', 'portion', 'portionMost', 'memory', 'memoryMost', 'slice', 'areGpusSaid') || gpusByVariable(form) !== null) {
    delete request.short_nodes;
    takeGpus(form, request);
  }
  for (const key of ['name', 'directory', 'pool', 'team', 'project', 'output']) take(key, spec, key);
  take('gpuType', request, 'gpu_type');
  take('constraint', request, 'constraint');
  take('cpus', request, 'cpus', (value) => count(value, 'CPUs'));
  take('hostMemory', request, 'memory', (value) => sizeOf(value, 'memory'));
  take('hours', spec, 'time_limit', secondsOf);
  take('priority', spec, 'priority', (value) => {
    if (!Number.isInteger(Number(value))) throw new Error('priority: expected a whole number');
    return Number(value);
  });
  take('retries', spec, 'retries', (value) => count(value, 'retries'));
  if (differs('nodes', 'tasks')) {
    request.nodes = isSaid(form.nodes) ? count(form.nodes, 'nodes', 1) : 1;
    request.tasks = isSaid(form.tasks) ? count(form.tasks, 'tasks', 1) : request.nodes;
    delete request.spreads_tasks;
    delete request.short_nodes;
    if (spec.labels) delete spec.labels['divvy.tasks'];
  }
  if (differs('topology')) {
    const [way, need] = form.topology.split(':');
    [request.topology, request.requires_topology] = [way || 'any', need === 'required'];
  }
  if (differs('preemptible')) [spec.preemptible, spec.is_preemptible_set] = [form.preemptible || 'never', form.preemptible !== ''];
  if (differs('array', 'atOnce')) {
    delete spec.array;
    if (form.array) spec.array = { indices: form.array.replace(/\s+/g, ''), at_once: isSaid(form.atOnce) ? count(form.atOnce, 'elements at once') : 0 };
  }
  if (differs('after')) {
    spec.dependencies = form.after.split(/[\s,]+/).filter(Boolean).map((word) => ({ kind: 'after_any', job: count(word, 'after job', 1) }));
    delete spec.needs_any_dependency;
  }
  if (differs('isHeld')) spec.is_held = form.isHeld;
  if (differs('environment')) {
    const variables = variablesOf(form);
    for (const line of variables) if (!/^[A-Za-z_][A-Za-z0-9_]*=/.test(line)) throw new Error(`environment: '${line}' is not NAME=value`);
    spec.extra_environment = [...(carried.spec.extra_environment ?? []).filter((pair) => !isOneLine(pair)), ...variables];
  }
  return spec;
}

// Of which there are fields, by the first that a word of the command line says (POST /v1/words).
const kInForm = new Set(['command', 'script', 'arguments', 'name', 'directory', 'time_limit', 'pool', 'team', 'project', 'priority', 'array', 'dependencies', 'is_held', 'preemptible', 'extra_environment', 'retries', 'output']);
const kInRequest = new Set(['gpus', 'fraction/request', 'fraction/limit', 'fraction/memory', 'fraction/memory_limit', 'slice', 'gpu_type', 'cpus', 'memory', 'nodes', 'tasks', 'topology', 'constraint'].map((name) => `request/${name}`));

/**
 * What is carried along and has no field: [{ text, members, isOwn }], isOwn: the script's own lines say it. `hidden`:
 * members whose fields are not shown.
 */
export function carriedWords(words, carried, hidden = []) {
  const spec = carried.spec;
  const isShown = (word) => {
    const member = word.members[0];
    if (member === 'dependencies') return carried.form.after !== '' || !(spec.dependencies ?? []).length;
    if (member === 'extra_environment') return isOneLine(word.text);
    return (kInForm.has(member) || kInRequest.has(member)) && !hidden.includes(member);
  };
  const found = words.filter((word) => !isShown(word) && (word.is_option || !word.is_of_script)).map((word) => ({ text: word.text, members: word.members, isOwn: word.is_of_script }));
  const captured = spec.capture?.environment?.length;
  if (captured) found.push({ text: `the variables of the submission environment (${captured})`, members: ['capture/environment'], isOwn: false });
  return found;
}
/** Without the members that `word` says. */
export function without(carried, word) {
  const spec = structuredClone(carried.spec);
  for (const member of word.members) {
    if (member === 'extra_environment') {
      spec.extra_environment = spec.extra_environment.filter(isOneLine);
      continue;
    }
    const names = member.split('/');
    const last = names.pop();
    const holder = names.reduce((value, name) => value?.[name], spec);
    if (holder) delete holder[last];
  }
  return { spec, form: formOf(spec) };
}

const kOfWork = ['kind', 'command', 'isPlain', 'script', 'arguments', 'areGpusSaid'];
/**
 * A script's lines say something else than they did: `carried` with what they say now, and of the form the fields that
 * change by it.
 */
export function withLines(carried, before, now) {
  const spec = structuredClone(carried.spec);
  const merge = (into, old, fresh, skip = []) => {
    for (const name of new Set([...Object.keys(old), ...Object.keys(fresh)])) {
      if (skip.includes(name) || JSON.stringify(old[name]) === JSON.stringify(fresh[name])) continue;
      if (fresh[name] === undefined) delete into[name];
      else into[name] = fresh[name];
    }
  };
  merge(spec, before, now, ['script', 'command', 'arguments', 'request', 'labels', 'capture']);
  merge((spec.request ??= {}), before.request ?? {}, now.request ?? {});
  merge((spec.labels ??= {}), before.labels ?? {}, now.labels ?? {});
  const shown = { ...formOf(spec), ...Object.fromEntries(kOfWork.map((key) => [key, carried.form[key]])) };
  const changed = Object.fromEntries(Object.entries(shown).filter(([key, value]) => value !== carried.form[key]));
  if ('gpus' in changed) changed.areGpusSaid = true;
  return { carried: { spec, form: shown }, changed };
}
