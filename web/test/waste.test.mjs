// Waste: named with its remedy on every view where the command line names it, and in the same words.
import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';
import { Daemon, enter, leave, showView, until } from './world.mjs';

let daemon, browser, page, idle, half;
const plain = (text) => text.replace(/\s+/g, ' ').trim();
/** Without what grows from one look to the next, and without how a time is written. */
const steady = (text) =>
  plain(
    text
      .replace(/\(lost so far.*/, '')
      .replace(/for \d+ (s|min).*?;/, 'for some time;')
      .replace(/ at (\w+ \w+,? )?\d+:\d.*? unless/, ' at some time unless'),
  );
before(async () => {
  daemon = new Daemon(process.env.DIVVY, '4xH100-80GB', '[waste]\ngrace = "0s"\nidle_after = "10s"\naction = "requeue"\n[prices]\ndefault = 3600.0\n').up();
  idle = daemon.submit('--gpus', '1', '--name', 'forgotten', '--', 'sleep', '1000');
  half = daemon.submit('--gpus', '3', '--name', 'one-of-three', '--', 'sleep', '1000');
  ({ browser, page } = await enter(daemon));
  await until('both to run', () => [idle, half].every((id) => daemon.json('show', id).state === 'running'));
  daemon.divvy('emulate', 'utilisation', String(daemon.json('show', half).gpus[0]), '90');
  await until('the findings', async () => (await daemon.ask('GET', '/v1/waste')).jobs.length === 2, 60);
});
after(() => leave(browser, daemon));
const show = (view) => showView(page, view);
/** The lines of divvy show about it, without the figure that grows. */
const said = (id) =>
  daemon
    .divvy('show', id)
    .split('\n')
    .filter((line) => /^ *waste /.test(line))
    .map((line) => steady(line.replace(/^ *waste +/, '')));
const shown = async (id) => (await page.locator(`[data-waste="${id}"] li`).allInnerTexts()).map(steady);

test("a job's waste note matches divvy show", async () => {
  for (const id of [idle, half]) {
    await show(`job/${id}`);
    await until('the words to agree', async () => {
      const lines = said(id);
      assert.ok(lines.length > 0, daemon.divvy('show', id));
      assert.deepEqual(await shown(id), lines);
      return true;
    });
    if (id === idle) assert.ok((await shown(id)).some((line) => /^is queued again at some time unless it uses its GPUs \(\d of 2 warnings given\)$/.test(line)), String(await shown(id)));
    assert.match(plain(await page.locator('[data-waste]').innerText()), /lost so far: [0-9.]+ GPU-hours at a cost of [0-9.]+/);
  }
});

test('waste marks in the queue and their sum match divvy queue', async () => {
  await show('queue');
  await until('the sum', async () => {
    const line = daemon.divvy('queue').split('\n').find((one) => / wastes? .*divvy report waste$/.test(one));
    assert.ok(line, daemon.divvy('queue'));
    assert.ok((await page.locator('[data-wasted]').innerText()).startsWith(line.replace('; divvy report waste', '. ')), line);
    return true;
  });
  daemon.submit('--gpus', '4', '--name', 'waits', '--', 'true');
  await page.waitForSelector('.rows >> text="waits"');
  const badges = page.locator('.rows .badge.warn:has-text("GPU")');
  assert.equal(await badges.count(), 2);
  // In words what it is: below the pointer, and by the keyboard.
  const badge = page.locator(`.rows a.badge.warn[href$="/${idle}"]`);
  const words = page.locator('[role=tooltip]:visible');
  assert.equal(await words.count(), 0);
  await badge.hover();
  assert.match(await words.innerText(), new RegExp(`^Job ${idle} wastes 1 GPU:\ndoes nothing with its GPU: 0% for .*; divvy cancel ${idle}$`));
  await page.mouse.move(0, 0);
  assert.equal(await words.count(), 0);
  for (let i = 0; i < 40 && !(await badge.evaluate((one) => one === document.activeElement)); ++i) await page.keyboard.press('Tab');
  assert.match(await words.innerText(), /^Job \d+ wastes 1 GPU:/);
  const [about, at] = [await words.boundingBox(), await badge.boundingBox()];
  assert.ok(about.y >= at.y + at.height || about.y + about.height <= at.y, 'it hides nothing of the badge');
  await page.keyboard.press('Escape');
  assert.equal(await words.count(), 0);
  await page.click('button:text-is("Show only these")');
  await until('two lines', async () => (await page.locator('.rows [role=row]').count()) === 2);
  await page.click('button:text-is("Show all")');
  await until('three lines', async () => (await page.locator('.rows [role=row]').count()) === 3);
});

test('overview and usage show wasting jobs, suggestions and lost GPU-hours', async () => {
  await show('overview');
  await page.waitForSelector(`[data-wasted] [data-waste="${idle}"]`);
  assert.deepEqual(await shown(half), said(half));
  await show('usage');
  await page.waitForSelector('[aria-label="GPU-hours lost by user"] .rows [role=row]');
  await page.click('[aria-label="By what"] button:text-is("name")');
  await page.click('[aria-label="Waste by what"] button:text-is("name")');
  await page.waitForSelector('[aria-label="GPU-hours lost by name"] .rows [role=row]');
  const report = daemon.json('report', 'waste', '--by', 'name');
  for (const row of report.rows) {
    const cells = await page.locator('[aria-label="GPU-hours lost by name"] .rows [role=row]', { hasText: row.group }).locator('[role=cell]').allInnerTexts();
    assert.ok(Math.abs(Number(cells[4]) - row.lost_gpu_hours) < 0.03, `${cells} ${JSON.stringify(row)}`);
    assert.ok(Math.abs(parseInt(cells[5]) / 100 - row.lost_share) < 0.03, `${cells} ${JSON.stringify(row)}`);
  }
  assert.equal(await page.locator('[data-offenders] [data-waste]').count(), report.now.jobs.length);
  // By job what to do stands in its line; on a phone below it.
  await page.click('[aria-label="Waste by what"] button:text-is("job")');
  const byJob = page.locator('[aria-label="GPU-hours lost by job"]');
  const remedy = (await daemon.ask('GET', '/v1/reports/waste?by=job')).rows.find((row) => row.group === String(half)).findings[0].remedy;
  await until('what to do', async () => (await byJob.locator('[role=columnheader]').allInnerTexts()).includes('What to do'));
  assert.ok((await byJob.locator('.rows [role=row]', { hasText: 'one-of-three' }).locator('[role=cell]').allInnerTexts()).includes(remedy));
  await page.setViewportSize({ width: 390, height: 844 });
  await until('the second line', async () => (await byJob.locator('.rows [role=row]', { hasText: 'one-of-three' }).locator('.below').innerText()).startsWith(remedy));
  await page.setViewportSize({ width: 1280, height: 800 });
  const efficiency = daemon.json('report', 'efficiency', '--by', 'name').rows.find((row) => row.group === 'one-of-three');
  const cells = await page.locator('[aria-label="GPU-hours by name"] .rows [role=row]', { hasText: 'one-of-three' }).locator('[role=cell]').allInnerTexts();
  assert.ok(cells.some((cell) => /^\d+ %$/.test(cell) && Math.abs(parseInt(cell) / 100 - efficiency.utilization) < 0.05), `${cells} ${efficiency.utilization}`);
  assert.deepEqual(page.troubles, []);
});

test('an ended job is not listed as wasting and shows what it lost', async () => {
  await show(`job/${idle}`);
  await page.waitForSelector('[aria-label="Waste"] [data-waste]');
  daemon.divvy('cancel', idle, '--grace', '0');
  await until('its note to go', async () => (await page.locator('[aria-label="Waste"]').count()) === 0);
  await page.waitForSelector('[aria-label="Lost"] [data-lost]');
  const alike = (lines) => lines.map((line) => line.replace(' %', '%'));
  const lines = alike(await shown(idle));
  assert.deepEqual(lines, alike(said(idle)));
  assert.match(lines[0], /^lost [0-9.]+ of its [0-9.]+ GPU-hours \(\d+%\) at a cost of [0-9.]+$/);
  assert.match(lines[1], /^did nothing with its GPU: .*; submit it with --gpus 0 if it needs no GPU$/);
  await show('usage');
  await page.waitForSelector(`[data-ended-offenders] [data-waste="${idle}"] [data-lost]`);
  assert.deepEqual(page.troubles, []);
});
