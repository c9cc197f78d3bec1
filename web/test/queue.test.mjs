// The queue with more jobs than are in sight: expected starts, those that have ended, what its address says, who may do what.
import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { after, before, test } from 'node:test';
import { Daemon, enter, leave, showView, until } from './world.mjs';

const kWaiting = 60;
let daemon, browser, page;
before(async () => {
  daemon = new Daemon(process.env.DIVVY, '4xH100-80GB').up();
  // The second ends before the first.
  const slow = daemon.submit('--gpus', '1', '--name', 'slow', '--', 'sleep', '1.5');
  daemon.submit('--gpus', '1', '--name', 'quick', '--', 'true');
  daemon.submit('--gpus', '1', '--name', 'over-time', '--time', '1s', '--grace', '0', '--', 'sleep', '100');
  await until('them to end', () => daemon.json('queue').length === 0 && daemon.json('show', slow).end_time);
  daemon.submit('--gpus', '4', '--time', '5h', '--name', 'runs', '--', 'sleep', '3000');
  await until('it to run', () => daemon.json('queue').some((job) => job.state === 'running'));
  for (let i = 0; i < kWaiting; ++i) daemon.submit('--gpus', String((i % 4) + 1), '--time', `${i + 1}m`, '--name', `waits-${i}`, '--', 'sleep', '3000');
  daemon.submit('--gpus', '1', '--after', daemon.submit('--hold', '--name', 'held', '--', 'true'), '--name', 'depends', '--', 'true');
  ({ browser, page } = await enter(daemon, { viewport: { width: 1280, height: 500 } }));
});
after(() => leave(browser, daemon));
const show = (view) => showView(page, view);
const names = (box = page) => box.locator('.rows [role=row] [role=cell]:nth-child(4)').allInnerTexts();
const save = async () => {
  const [file] = await Promise.all([page.waitForEvent('download'), page.click('button:text-is("CSV")')]);
  const [titles, ...rows] = readFileSync(await file.path(), 'utf8').trim().split('\r\n').map((line) => line.split(','));
  return rows.map((row) => Object.fromEntries(titles.map((title, i) => [title, row[i]])));
};
const sorted = (title) => page.locator(`[role=columnheader]:has-text("${title}")`).getAttribute('aria-sort');

test('expected starts are known of all that wait, also of those out of sight', async () => {
  await show('queue');
  await page.waitForSelector('.rows [role=row]');
  let rows;
  await until('the starts', async () => (rows = await save()).filter((row) => /^\d{4}-\d\d-\d\dT/.test(row.Starts)).length === kWaiting);
  for (const name of ['waits-0', 'waits-17', 'waits-59']) {
    const row = rows.find((one) => one.Name === name);
    const why = daemon.json('why', row.Job);
    assert.ok(Math.abs(Date.parse(row.Starts) / 1000 - why.predicted_start) < 30, `${row.Starts} ${why.predicted_start}`);
  }
  await page.click('[role=columnheader] button:has-text("Starts")');
  await page.click('[role=columnheader] button:has-text("Starts")');
  const times = (await save()).map((row) => row.Starts).filter(Boolean);
  assert.equal(times.length, kWaiting);
  assert.deepEqual(times, [...times].sort());
  // Who cannot be told says so, with the words of divvy why.
  await page.fill('[data-filter]', 'depends');
  const cell = page.locator('.rows [role=row]', { hasText: 'depends' }).locator('[role=cell]:text-is("—")');
  await until('its words', async () => (await cell.getAttribute('title', { timeout: 500 })) === daemon.json('why', '@').prediction_basis);
  await page.fill('[data-filter]', '');
});

test('what has ended stands by its end, the last first, and says so', async () => {
  await page.click('[role=tab]:has-text("Ended")');
  await page.waitForSelector('.rows >> text="quick"');
  assert.equal(await sorted('Ended'), 'descending');
  const ends = (await save()).map((row) => row.Ended);
  assert.deepEqual(ends, [...ends].sort().reverse());
  await page.click('[role=tab]:has-text("All live")');
  await page.waitForSelector('.rows >> text="runs"');
  assert.equal(await page.locator('[role=columnheader][aria-sort=descending], [role=columnheader][aria-sort=ascending]').count(), 0);
});
