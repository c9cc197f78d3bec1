// The queue with more jobs than are in sight: expected starts, those that have ended, what its address says, who may do what.
import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';
import { Daemon, enter, keepFiles, leave, openPage, parsed, showView, until } from './world.mjs';

const kWaiting = 60;
let daemon, browser, page;
before(async () => {
  const port = 20000 + ((process.pid * 11) % 20000);
  daemon = new Daemon(process.env.DIVVY, '4xH100-80GB', `[controller]\nlisten = "127.0.0.1:${port}"\n`).up();
  // The second ends before the first.
  const slow = daemon.submit('--gpus', '1', '--name', 'slow', '--', 'sleep', '1.5');
  daemon.submit('--gpus', '1', '--name', 'quick', '--', 'true');
  daemon.submit('--gpus', '1', '--name', 'over-time', '--time', '1s', '--grace', '0', '--', 'sleep', '100');
  await until('them to end', () => daemon.json('queue').length === 0 && daemon.json('show', slow).end_time);
  daemon.submit('--gpus', '4', '--time', '5h', '--name', 'runs', '--', 'sleep', '3000');
  await until('it to run', () => daemon.json('queue').some((job) => job.state === 'running'));
  for (let i = 0; i < kWaiting; ++i) daemon.submit('--gpus', String((i % 4) + 1), '--time', `${i + 1}m`, '--name', `waits-${i}`, '--', 'sleep', '3000');
  daemon.submit('--gpus', '1', '--after', daemon.submit('--hold', '--name', 'held', '--', 'true'), '--name', 'depends', '--', 'true');
  ({ browser, page } = await enter(daemon, { viewport: { width: 1280, height: 500 } }, keepFiles));
});
after(() => leave(browser, daemon));
const show = (view) => showView(page, view);
const names = (box = page) => box.locator('.rows [role=row] [role=cell]:nth-child(4)').allInnerTexts();
const save = async () => {
  await page.click('button:text-is("CSV")');
  const [titles, ...rows] = parsed(await page.evaluate(() => window.saved));
  return rows.map((row) => Object.fromEntries(titles.map((title, i) => [title, row[i]])));
};
const sorted = (title) => page.locator(`[role=columnheader]:has-text("${title}")`).getAttribute('aria-sort');

test('all waiting jobs have expected starts, also those that are scrolled out of view', async () => {
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

test('ended jobs are sorted by end, latest first, and the page says so', async () => {
  await page.click('[role=tab]:has-text("Ended")');
  await page.waitForSelector('.rows >> text="quick"');
  assert.equal(await sorted('Ended'), 'descending');
  const ends = (await save()).map((row) => row.Ended);
  assert.deepEqual(ends, [...ends].sort().reverse());
  await page.click('[role=tab]:has-text("All live")');
  await page.waitForSelector('.rows >> text="runs"');
  assert.equal(await page.locator('[role=columnheader][aria-sort=descending], [role=columnheader][aria-sort=ascending]').count(), 0);
});

test('the filter finds a state by its name and by its label', async () => {
  await show('queue?show=ended');
  await page.waitForSelector('.rows >> text="quick"');
  for (const text of ['timed out', 'timed_out']) {
    await page.fill('[data-filter]', text);
    await until('the one', async () => (await page.locator('.rows [role=row]').allInnerTexts()).join().includes('over-time') && (await page.locator('.rows [role=row]').count()) === 1);
  }
});

test('with many ended jobs the page shows the count, filters all of them and loads more on request', async () => {
  const spec = { command: ['true'], directory: '/tmp', is_held: true, request: { gpus: 1 } };
  const ids = [];
  for (let i = 0; i < 1010; i += 101) ids.push(...(await Promise.all(Array.from({ length: 101 }, (_, k) => daemon.ask('POST', '/v1/jobs', { spec: { ...spec, name: `many-${i + k}` } })))).map((answer) => String(answer.id)));
  await daemon.ask('POST', '/v1/jobs/cancel', { select: { ids } });
  await until('their end', () => daemon.json('status').jobs_held === 1, 60);
  await show('overview');
  await show('queue?show=ended');
  await page.waitForSelector('[data-cut]:has-text("newest 1,000 ended jobs")');
  assert.equal(await page.locator('.rows >> text="quick"').count(), 0);
  for (const text of ['quick', 'timed out', 'timed', 'quick succeeded', '2']) {
    await page.fill('[data-filter]', text);
    await until(`who is found by ${text}`, async () => (await save()).some((row) => row.Name === (text.startsWith('timed') ? 'over-time' : 'quick')));
  }
  await page.fill('[data-filter]', 'no-such-job');
  await page.waitForSelector('text=None of the newest 1,000 jobs matches the filter.');
  await page.fill('[data-filter]', '');
  await page.click('button:has-text("1,000 more")');
  await page.waitForSelector('[data-cut]', { state: 'detached' });
  await until('all', async () => Number(await page.locator('[role=table]').getAttribute('aria-rowcount')) === 1010 + 3 + 1);
  assert.deepEqual(page.troubles, []);
});

test('the address contains the view, so links and the way back from a job restore it', async () => {
  await show('queue');
  await page.click('[role=tab]:has-text("Ended")');
  await page.fill('[data-filter]', 'timed');
  await page.click('[role=columnheader] button:has-text("Name")');
  await page.locator('.rows a', { hasText: /^3$/ }).click();
  await page.waitForSelector('h2:has-text("Facts")');
  await page.goBack();
  await page.waitForSelector('h1:text-is("Queue")');
  assert.equal(await page.locator('[role=tab][aria-selected=true]').innerText().then((text) => text.trim()), 'Ended');
  assert.equal(await page.inputValue('[data-filter]'), 'timed');
  assert.equal(await sorted('Name'), 'ascending');
  await page.evaluate(() => (location.hash = '#/queue?show=waiting&sort=-gpus'));
  await page.waitForSelector('[role=tab][aria-selected=true]:has-text("Waiting")');
  assert.equal(await page.inputValue('[data-filter]'), '');
  assert.equal(await sorted('GPUs'), 'descending');
  await page.check('text=Mine only');
  assert.match(page.url(), /mine=1/);
});

test('columns match divvy queue, omit empty ones and show full names where there is room', async () => {
  await page.setViewportSize({ width: 1400, height: 700 });
  await show('queue');
  const titles = await page.locator('[role=columnheader]').allInnerTexts();
  for (const title of ['#', 'Job', 'Name', 'GPUs', 'Limit', 'Starts', 'Waits for', 'Reason']) assert.ok(titles.some((one) => one.trim() === title), `${title} in ${titles}`);
  for (const title of ['Done', 'Team']) assert.ok(!titles.includes(title), title);
  const long = daemon.submit('--hold', '--name', 'a-name-of-22-letters--', '--', 'true');
  await page.fill('[data-filter]', 'a-name');
  const cell = page.locator('.rows [role=cell]', { hasText: 'a-name-of-22-letters--' });
  await until('its line', async () => (await cell.count()) === 1);
  assert.ok(await cell.evaluate((one) => one.scrollWidth <= one.clientWidth), 'its name is cut');
  daemon.divvy('cancel', long);
  await page.fill('[data-filter]', '');
  await until('all', async () => (await save()).length === daemon.json('queue').length);
  const said = Object.fromEntries(parsed(daemon.divvy('queue', '--csv', '--columns', 'id,reason')));
  for (const row of await save()) assert.equal(row.Reason, said[row.Job], row.Job);
  const runs = daemon.json('queue').find((job) => job.name === 'runs');
  assert.equal((await save()).find((row) => row.Name === 'runs')['Limit (s)'], '18000');
  assert.equal(said[runs.display_id], '');
});

test("no actions are offered for another user's job", async () => {
  const own = page;
  const row = (at, name) => at.locator('.rows [role=row]', { has: at.locator(`text="${name}"`) }).locator('input[type=checkbox]');
  await row(own, 'runs').check();
  assert.deepEqual((await own.locator('.bar button:not(.plain)').allInnerTexts()).map((text) => text.trim()), ['Priority', 'Cancel']);
  await row(own, 'waits-0').check();
  assert.deepEqual((await own.locator('.bar button:not(.plain)').allInnerTexts()).map((text) => text.trim()), ['Hold 1', 'Priority', 'Cancel']);
  for (const [words, hasBoxes] of [[['--role', 'viewer'], false], [['--user', 'nobody'], true]]) {
    const other = await openPage(browser);
    await other.goto(daemon.link().replace(/#.*/, ''));
    await other.fill('#token', daemon.divvy('token', 'create', ...words).trim());
    await other.click('button.primary');
    await other.waitForSelector('[data-tile="Running"]');
    await showView(other, 'queue');
    await other.waitForSelector('.rows >> text="runs"');
    assert.equal((await other.locator('.rows input[type=checkbox]').count()) > 0, hasBoxes);
    if (hasBoxes) {
      await row(other, 'runs').check();
      await other.waitForSelector('.bar .badge');
      assert.equal(await other.locator('.bar button:not(.plain)').count(), 0);
    }
    await other.context().close();
  }
  assert.deepEqual(page.troubles, []);
});
