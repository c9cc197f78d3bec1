// A job's timeline and the indices of an array, by themselves.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { metricName, plainNumber } from '../src/lib/numbers.js';
import { expand, logPlacesOf, runsOf, startsOf, timelineOf, withDays } from '../src/lib/timeline.js';

test('an event is highlighted as a whole phrase', () => {
  const [what, text] = [(line) => timelineOf([{ time: 1, text: line }])[0].what, (line) => timelineOf([{ time: 1, text: line }])[0].text];
  for (const [line, head, rest] of [
    ['submitted by root', 'submitted by root', ''],
    ['started on GPUs 0-1: it was first in line', 'started on GPUs 0-1', ': it was first in line'],
    ['run 2 started on GPU 3', 'run 2 started on GPU 3', ''],
    ['its first element started', 'its first element started', ''],
    ['try 1 of 2 in 10 s: exit code 1', 'try 1 of 2 in 10 s', ': exit code 1'],
    ['queued again by root', 'queued again by root', ''],
    ['queued again: its machine went down', 'queued again', ': its machine went down'],
    ['timed_out: ran for 5 s', 'timed out', ': ran for 5 s'],
    ['is warned (1 of 2) that it wastes 1 GPU: it does nothing', 'is warned (1 of 2) that it wastes 1 GPU', ': it does nothing'],
    ['node n2 is lost; the job may go on there', 'node n2 is lost', '; the job may go on there'],
    ['try 1 of 2 ended with exit code 1; tries again after 10s', 'try 1 of 2 ended with exit code 1', '; tries again after 10s'],
    ['on n_1: planned on n_2', 'on n_1', ': planned on n_2'],
    ['succeeded', 'succeeded', ''],
  ]) {
    assert.equal(what(line), head, line);
    assert.equal(text(line), rest, line);
  }
});
test('a day is named where it begins', () => {
  const lines = withDays([{ time: 1 }, { time: 2 }, { time: 11 }], (time) => `day ${Math.floor(time / 10)}`);
  assert.deepEqual(lines.map((one) => one.day), ['day 0', '', 'day 1']);
});
test('runs begin where their history lines say', () => {
  assert.deepEqual(startsOf([{ time: 1, text: 'submitted by a' }, { time: 2, text: 'run 1 started on GPU 0' }, { time: 3, text: 'queued again: x' }, { time: 4, text: 'run 2 started on GPU 0' }, { time: 5, text: 'its first element started' }]), [2, 4]);
  assert.deepEqual(startsOf([{ time: 2, text: 'started on GPU 0' }]), [2]);
});
test('array indices are listed up to the requested number', () => {
  assert.deepEqual(expand('2-4,7', 10), [2, 3, 4, 7]);
  assert.deepEqual(expand('0-999999', 3), [0, 1, 2]);
  assert.deepEqual(expand('', 3), []);
});
test('very small and very large metrics are shown with a power of ten', () => {
  assert.deepEqual([0.000005642, 0.00012, 0.0015, 0, 1, -0.00004, 12345.678, 123456789, 1e-5].map(plainNumber), ['5.64e-6', '1.2e-4', '0.0015', '0', '1', '-4e-5', '12350', '1.23e8', '1e-5']);
  assert.deepEqual(['cpu_utilization', 'sm_activity', 'rows'].map(metricName), ['CPU use', 'SM activity', 'Rows']);
});

test('each run of a job has its node and the part of its log that is on another node', () => {
  const lines = (...texts) => texts.map((text) => ({ time: 1, text }));
  assert.deepEqual(runsOf(lines('started on GPU 0: first in line')), []);
  const timeline = lines('submitted by ada', 'run 1 started on GPUs 0-1: first in line', 'run 2 started on gpu3 (GPU 1): first in line', "run 3 started on the controller's machine (GPU 1), n2 (GPU 0)", 'run 4 started on GPU-box (GPU 0), n2 (GPU 0)', 'run 5 started');
  assert.deepEqual(runsOf(timeline), [{ run: 1, node: '' }, { run: 2, node: 'gpu3' }, { run: 3, node: '' }, { run: 4, node: 'GPU-box' }, { run: 5, node: '' }]);
  const job = { start_time: 5, node: 'gpu3', timeline: lines('run 1 started on GPU 0', 'run 2 started on gpu3 (GPU 1)', 'run 3 started on gpu3 (GPU 0)') };
  assert.deepEqual(logPlacesOf(job), [
    { node: 'gpu3', runs: [2, 3], asked: 0, name: 'runs 2, 3, on gpu3' },
    { node: '', runs: [1], asked: 1, name: "run 1, on the controller's machine" },
  ]);
  // One that waits to run again shows what ran last.
  assert.deepEqual(logPlacesOf({ ...job, start_time: null, node: '' }).map((one) => [one.node, one.asked]), [['gpu3', 3], ['', 1]]);
  assert.deepEqual(logPlacesOf({ start_time: 5, node: '', timeline: lines('run 1 started on GPU 0', 'run 2 started on GPU 1') }), []);
});
