// The form of a step of valohai.yaml: from its fields to what the daemon is asked, and to the command line that says the same.
import { quoted } from './spec.js';

const kFlags = { __proto__: null, true: true, false: false };
const isOn = (text) => kFlags[String(text).toLowerCase()] ?? ['1', 'yes', 'on'].includes(String(text).toLowerCase());

/** What the form begins with: { gpus, title, parameters, inputs, variables } of texts, and of flags true or false. */
export function fieldsOf(step) {
  const named = (list, value) => Object.fromEntries(list.map((one) => [one.name, value(one)]));
  return {
    gpus: step.variables.find((one) => one.name === 'VH_GPUS')?.value ?? '',
    title: '',
    parameters: named(step.parameters, (one) => (one.type === 'flag' ? isOn(one.defaults?.[0] ?? 'false') : (one.defaults ?? []).join('\n'))),
    inputs: named(step.inputs, (one) => one.defaults.join('\n')),
    variables: named(step.variables.filter((one) => one.name !== 'VH_GPUS'), (one) => one.value ?? ''),
  };
}
const linesOf = (text) => text.split('\n').filter((line) => line !== '');
const same = (a, b) => a.length === b.length && a.every((one, i) => one === b[i]);

/** Only what differs from the file's own: { parameters, inputs, variables }, as the daemon takes them. */
export function changesOf(step, fields) {
  const changes = { parameters: {}, inputs: {}, variables: {} };
  for (const one of step.parameters) {
    const value = fields.parameters[one.name];
    if (one.type === 'flag') {
      if (value !== isOn(one.defaults?.[0] ?? 'false')) changes.parameters[one.name] = [String(value)];
      continue;
    }
    const values = one.is_multiple ? linesOf(value) : value === '' ? [] : [value];
    if (!same(values, one.defaults ?? [])) changes.parameters[one.name] = values;
  }
  for (const one of step.inputs) {
    const values = linesOf(fields.inputs[one.name]);
    if (!same(values, one.defaults)) changes.inputs[one.name] = values;
  }
  for (const one of step.variables) {
    if (one.name !== 'VH_GPUS' && fields.variables[one.name] !== (one.value ?? '')) changes.variables[one.name] = fields.variables[one.name];
  }
  const own = step.variables.find((one) => one.name === 'VH_GPUS')?.value ?? '';
  const gpus = String(fields.gpus ?? '').trim();
  if (gpus !== '' && gpus !== own) changes.variables.VH_GPUS = gpus;
  return changes;
}

export function vhLine(step, fields) {
  const changes = changesOf(step, fields);
  const words = ['divvy', 'vh', 'exec', 'run', quoted(step.name)];
  if (fields.title) words.push('--title', quoted(fields.title));
  for (const [name, value] of Object.entries(changes.variables)) words.push(name === 'VH_GPUS' ? `VH_GPUS=${quoted(value)}` : `--var ${quoted(`${name}=${value}`)}`);
  const types = new Map(step.parameters.map((one) => [one.name, one.type]));
  for (const [name, values] of Object.entries(changes.parameters)) {
    if (types.get(name) === 'flag') words.push(values[0] === 'true' ? `--${quoted(name)}` : `--no-${quoted(name)}`);
    else for (const value of values.length ? values : ['']) words.push(`--${quoted(name)}=${quoted(value)}`);
  }
  for (const [name, values] of Object.entries(changes.inputs)) for (const value of values.length ? values : ['']) words.push(`--${quoted(name)}=${value === '' ? '' : quoted(value)}`);
  return words.join(' ');
}

/** With --adhoc it runs a copy of the directory, so that that may be edited meanwhile. */
export const taskLine = (task) => `divvy vh task run ${quoted(task.name)} --adhoc`;
