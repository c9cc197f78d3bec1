// From the form to what is submitted (JobSpec, docs/api.md), and to the command line that says the same.

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
  if (quote) throw new Error('the command leaves a quote open');
  if (has) words.push(word);
  return words;
}
export const quoted = (word) => (/^[A-Za-z0-9_@%+=:,./-]+$/.test(word) ? word : `'${word.replaceAll("'", `'\\''`)}'`);

const isSaid = (value) => value !== '' && value !== null && value !== undefined;
function count(value, what, least = 0) {
  const number = Number(value);
  if (!Number.isInteger(number) || number < least) throw new Error(`${what}: a whole number from ${least} is wanted`);
  return number;
}
function amount(value, what) {
  const number = Number(value);
  if (!Number.isFinite(number) || number < 0) throw new Error(`${what}: a number is wanted`);
  return number;
}
const kGiB = 2 ** 30;

const variablesOf = (form) => form.environment.split('\n').map((line) => line.trim()).filter(Boolean);
/** VH_GPUS=N among the variables asks for N GPUs where nothing else does, as on the command line; else null. */
export function gpusByVariable(form) {
  if (form.areGpusSaid) return null;
  const said = variablesOf(form).findLast((line) => line.startsWith('VH_GPUS='));
  return said === undefined ? null : count(said.slice('VH_GPUS='.length).trim() || 'x', 'VH_GPUS');
}

export function specOf(form) {
  const spec = { request: { gpus: gpusByVariable(form) ?? (isSaid(form.gpus) ? count(form.gpus, 'GPUs') : 0) } };
  const request = spec.request;
  if (form.kind === 'command') spec.command = splitWords(form.command);
  else spec.script = form.script.startsWith('#!') ? form.script : `#!/bin/sh\n${form.script}`;
  if (form.name) spec.name = form.name;
  if (form.directory) spec.directory = form.directory;
  if (isSaid(form.gpusMost)) request.gpus_most = count(form.gpusMost, 'GPUs at most');
  if (form.part === 'part') request.portion = { request: amount(form.portion, 'the part'), ...(isSaid(form.portionMost) ? { limit: amount(form.portionMost, 'at most') } : {}) };
  if (form.part === 'memory') request.portion = { memory: Math.round(amount(form.memory, 'its memory') * kGiB), ...(isSaid(form.memoryMost) ? { memory_limit: Math.round(amount(form.memoryMost, 'at most') * kGiB) } : {}) };
  if (form.part === 'slice') {
    if (!form.slice.trim()) throw new Error('a MIG instance: say which, 1g.10gb or >=16G');
    [request.slice, request.gpus] = [form.slice.trim(), request.gpus || 1];
  }
  if (form.gpuType) request.gpu_type = form.gpuType;
  if (isSaid(form.cpus)) request.cpus = count(form.cpus, 'CPUs');
  if (isSaid(form.hostMemory)) request.memory = Math.round(amount(form.hostMemory, 'memory') * kGiB);
  if (isSaid(form.hours) && Number(form.hours) !== 0) spec.time_limit = amount(form.hours, 'hours') * 3600;
  if (isSaid(form.nodes) && Number(form.nodes) !== 1) {
    request.nodes = count(form.nodes, 'machines', 1);
    request.tasks = request.nodes;
  }
  if (isSaid(form.tasks)) request.tasks = count(form.tasks, 'tasks', 1);
  if (form.topology) request.topology = form.topology;
  if (form.constraint) request.constraint = form.constraint;
  for (const key of ['pool', 'team', 'project', 'output']) if (form[key]) spec[key] = form[key];
  if (isSaid(form.priority)) {
    spec.priority = Number(form.priority);
    if (!Number.isInteger(spec.priority)) throw new Error('priority: a whole number is wanted');
  }
  if (isSaid(form.retries)) spec.retries = count(form.retries, 'retries');
  if (form.preemptible) [spec.preemptible, spec.is_preemptible_set] = [form.preemptible, true];
  if (form.array) spec.array = { indices: form.array.replace(/\s+/g, ''), at_once: isSaid(form.atOnce) ? count(form.atOnce, 'at once') : 0 };
  if (form.after) {
    spec.dependencies = form.after.split(/[\s,]+/).filter(Boolean).map((word) => ({ kind: 'after_any', job: count(word, 'after job', 1) }));
  }
  if (form.isHeld) spec.is_held = true;
  const variables = variablesOf(form);
  for (const line of variables) if (!/^[A-Za-z_][A-Za-z0-9_]*=/.test(line)) throw new Error(`environment: '${line}' is not NAME=value`);
  if (variables.length) spec.extra_environment = variables;
  return spec;
}

export function commandLine(form) {
  const words = ['divvy', 'submit'];
  const say = (option, value) => isSaid(value) && words.push(option, quoted(String(value)));
  const gpus = gpusByVariable(form) === null && isSaid(form.gpus) ? Number(form.gpus) : 0;
  if (form.part === 'slice') {
    say('--slice', form.slice.trim());
    if (gpus > 1) say('--gpus', gpus);
  } else if (gpus && form.part === 'part') say('--gpus', gpus === 1 ? form.portion : `${gpus}x${form.portion}`);
  else if (gpus) say('--gpus', isSaid(form.gpusMost) ? `${gpus}..${form.gpusMost}` : gpus);
  if (gpus && form.part === 'part') say('--gpu-limit', form.portionMost);
  if (gpus && form.part === 'memory') words.push('--shared', '--gpu-memory', `${form.memory}G`);
  if (gpus && form.part === 'memory' && isSaid(form.memoryMost)) words.push('--gpu-memory-limit', `${form.memoryMost}G`);
  if (form.gpuType) say('--gpu-type', form.gpuType);
  say('--cpus', form.cpus);
  if (isSaid(form.hostMemory)) say('--memory', `${form.hostMemory}G`);
  if (Number(form.hours) > 0) say('--time', Number.isInteger(Number(form.hours)) ? `${form.hours}h` : `${Math.round(form.hours * 60)}m`);
  if (Number(form.nodes) > 1) say('--nodes', form.nodes);
  say('--tasks', form.tasks);
  if (form.topology) say('--topology', form.topology);
  say('--constraint', form.constraint);
  say('--name', form.name);
  say('--chdir', form.directory);
  say('--output', form.output);
  say('--pool', form.pool);
  say('--team', form.team);
  say('--project', form.project);
  if (form.array) say('--array', form.array + (isSaid(form.atOnce) ? `%${form.atOnce}` : ''));
  if (form.after) say('--after', form.after.split(/[\s,]+/).filter(Boolean).join(':'));
  say('--priority', form.priority);
  say('--retries', form.retries);
  if (form.preemptible) say('--preemptible', form.preemptible);
  for (const line of variablesOf(form)) say('--env', line);
  if (form.isHeld) words.push('--hold');
  if (form.kind === 'script') words.push('script.sh');
  else words.push('--', form.command.trim());
  return words.join(' ');
}
