// The form of a submission by itself: what goes in comes out, and what is a shell's is known.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { carriedWords, formOf, freshForm, isForShell, shellSigns, specOf, splitWords, withLines, without } from '../src/lib/spec.js';

const nothing = { spec: {}, form: formOf({}) };
const carry = (spec) => ({ spec, form: formOf(spec) });

test('settings that are not edited are unchanged, with or without a form field', () => {
  const spec = {
    command: ['python', 'a b', '&&', '$HOME', ''],
    name: 'x',
    request: { gpus: 2, gpu_memory: 40 * 2 ** 30, memory: 100000001, tasks: 3, nodes: 3, topology: 'nvlink', requires_topology: true, excluded_nodes: ['n3'], others: [{ cpus: 8 }], fraction: { request: 0.25, compute: 0.5, idle_park: 60 } },
    placement: 'spread',
    is_placement_set: true,
    priority: -4,
    begin: 1795436796.034845,
    time_limit: 17.5,
    dependencies: [{ kind: 'after_ok', job: 12 }],
    array: { indices: '0-4', at_once: 2 },
    retries: 3,
    preemptible: 'requeue',
    is_preemptible_set: true,
    group: 'g',
    labels: { 'slurm.qos': 'high' },
    extra_environment: ['A=1', 'B=two\nlines', 'C= spaces '],
    capture: { environment: ['PATH=/bin'], umask: 18 },
  };
  const carried = carry(spec);
  assert.deepEqual(specOf({ ...carried.form }, carried), spec);
  // And of what is touched only that changes.
  const changed = specOf({ ...carried.form, hours: '2', environment: 'A=2' }, carried);
  assert.deepEqual(changed, { ...spec, time_limit: 7200, extra_environment: ['B=two\nlines', 'A=2'] });
});

test('settings of a script and its arguments are unchanged too', () => {
  const spec = { script: '#!/bin/bash\n# DIVVY --gpus 2\ntrue\n', arguments: ['alpha', 'beta gamma'], request: { gpus: 2 } };
  const carried = carry(spec);
  assert.equal(carried.form.arguments, "alpha 'beta gamma'");
  assert.deepEqual(specOf({ ...carried.form }, carried), spec);
  assert.deepEqual(specOf({ ...carried.form, arguments: 'one' }, carried).arguments, ['one']);
  assert.equal(specOf({ ...carried.form, kind: 'command', command: 'true' }, carried).script, undefined);
});

test('an empty form requests one GPU and keeps times exact', () => {
  const form = freshForm();
  assert.deepEqual(specOf({ ...form, command: 'true' }, nothing), { request: { gpus: 1, max_gpus: 0 }, command: ['true'] });
  assert.equal(specOf({ ...form, command: 'true', hours: '0.005' }, nothing).time_limit, 18);
  assert.equal(specOf({ ...form, command: 'true', hours: '0.025' }, nothing).time_limit, 90);
  assert.throws(() => specOf({ ...form, command: 'true', hours: '0.0001' }, nothing), /at least one second/);
  assert.throws(() => specOf({ ...form, command: "echo 'x" }, nothing), /unclosed quote/);
});

test('shell syntax is recognized, and text that only resembles it is not', () => {
  const found = (text) => shellSigns(text).join(' ');
  assert.equal(found('echo a && echo b > file'), '&& >');
  assert.equal(found('a | b; c & d'), '| ; &');
  assert.equal(found('echo $HOME `date` "$(pwd)"'), '$ `');
  assert.equal(found('ls *.txt ~/x'), '* ~');
  assert.equal(found('CUDA_LAUNCH_BLOCKING=1 python x.py'), 'a leading NAME=value');
  assert.equal(found('python x.py 2>&1'), '2>&1');
  for (const plain of ['python train.py --lr=1e-3 --name {lr}', "echo 'a && b' \"c; d\" e\\;f", 'a#b x~y', 'awk \'{print $1}\'', 'git show HEAD~1', 'echo 5$']) assert.equal(found(plain), '', plain);
  const form = { ...freshForm(), command: 'echo a && echo b > file' };
  assert.ok(isForShell(form));
  assert.deepEqual(specOf(form, nothing).command, ['sh', '-c', 'echo a && echo b > file']);
  assert.deepEqual(specOf({ ...form, isPlain: true }, nothing).command, ['echo', 'a', '&&', 'echo', 'b', '>', 'file']);
});

test('settings without a form field are named and can be omitted', () => {
  const spec = { command: ['true'], request: { gpus: 1, topology: 'nvlink', excluded_nodes: ['n1'] }, comment: 'c', labels: { notify: 'end', 'slurm.qos': 'x' }, dependencies: [{ kind: 'after_ok', job: 3 }], capture: { environment: ['A=1'], umask: 18 } };
  const words = [
    ['--topology nvlink', 'request/topology', 'request/requires_topology'],
    ['--exclude n1', 'request/excluded_nodes'],
    ['--dependency afterok:3', 'dependencies', 'needs_any_dependency'],
    ['--comment c', 'comment'],
    ['--notify end', 'labels/notify'],
    ['--pool p', 'pool'],
  ].map(([text, ...members]) => ({ text, members, is_option: true, is_of_script: false }));
  const carried = carry(spec);
  const named = carriedWords(words, carried, ['pool']);
  assert.deepEqual(named.map((one) => one.text), ['--exclude n1', '--dependency afterok:3', '--comment c', '--notify end', '--pool p', 'the variables of the submission environment (1)']);
  const rest = named.reduce(without, carried).spec;
  assert.deepEqual(rest, { command: ['true'], request: { gpus: 1, topology: 'nvlink' }, labels: { 'slurm.qos': 'x' }, capture: { umask: 18 } });
  assert.deepEqual(specOf({ ...carried.form }, carried), spec, 'what was carried is not changed by it');
});

test('option lines of a script fill the form, and changed lines replace their earlier values', () => {
  let form = { ...freshForm(), kind: 'script', script: 'x', name: 'mine' };
  const first = withLines(nothing, {}, { request: { gpus: 4 }, time_limit: 3600, dialect: 'slurm', labels: { 'slurm.qos': 'x' }, script: 'x' });
  Object.assign(form, first.changed);
  assert.deepEqual([form.gpus, form.hours, form.name], ['4', '1', 'mine']);
  assert.equal(specOf(form, first.carried).dialect, 'slurm');
  form.hours = '2';
  const second = withLines(first.carried, { request: { gpus: 4 }, time_limit: 3600, dialect: 'slurm', labels: { 'slurm.qos': 'x' } }, { request: { gpus: 8 }, time_limit: 3600 });
  Object.assign(form, second.changed);
  const spec = specOf(form, second.carried);
  assert.deepEqual([spec.request.gpus, spec.time_limit, spec.dialect, spec.labels, spec.name], [8, 7200, undefined, {}, 'mine']);
});

test('words are split as by a shell', () => {
  assert.deepEqual(splitWords(`a 'b c' "d \\" e" f\\ g ''`), ['a', 'b c', 'd " e', 'f g', '']);
});
