// A job's own page: elements of arrays, its timeline, its runs, and what may be done.
import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';
import { Daemon, enter, leave, openPage, showView, until } from './world.mjs';

let daemon, browser, page;
const port = 21000 + (process.pid % 8000);
before(async () => {
  daemon = new Daemon(process.env.DIVVY, '4xH100-80GB', `[controller]\nlisten = "127.0.0.1:${port}"\n`).up();
  // Another part of the world than the daemon's.
  ({ browser, page } = await enter(daemon, { timezoneId: 'Asia/Kathmandu' }));
});
after(() => leave(browser, daemon));
const show = (view) => showView(page, view);
const fact = async (name) => page.locator(`.facts dt:text-is("${name}") + dd`).first().innerText({ timeout: 1000 });
const rowsOf = (label) => page.locator(`[aria-label="${label}"] .rows [role=row]`);
const cells = (row) => row.locator('[role=cell]').allInnerTexts();

test('an array shows its elements with states, links, original indices, limit and logs', async () => {
  const id = daemon.submit('--gpus', '1', '--array', '2-8:2%1', '--name', 'many', '--', 'sh', '-c', 'echo element $DIVVY_ARRAY_INDEX; [ $DIVVY_ARRAY_INDEX != 2 ] && sleep 1000; exit 3');
  await until('the second to run', () => daemon.json('queue').some((job) => job.display_id === `${id}_4` && job.state === 'running'));
  await show(`job/${id}`);
  await until('its elements', async () => (await rowsOf('Elements').count()) === 4);
  await until('their states', async () => {
    const found = await Promise.all([0, 1, 2, 3].map(async (i) => (await cells(rowsOf('Elements').nth(i))).slice(0, 2)));
    assert.deepEqual(found, [[`${id}_2`, 'failed'], [`${id}_4`, 'running'], [`${id}_6`, 'queued'], [`${id}_8`, 'queued']]);
    return true;
  });
  assert.equal(await fact('Array'), '2,4,6,8, 1 at once');
  assert.match(await page.locator('[data-elements]').innerText(), /^Elements: 4 in total, /);
  await page.waitForSelector('pre >> text=element 4');
  await page.selectOption('[data-element-log]', { label: `${id}_2` });
  await page.waitForSelector('pre >> text=element 2');
  await page.click(`[aria-label=Elements] a:text-is("${id}_2")`);
  await until('that element', async () => (await fact('Array')) === `element 2 of ${id}`);
  assert.equal(await fact('Exit code'), '3');
  await page.click('[data-array]');
  await page.waitForSelector('h2:text-is("Elements")');
  daemon.divvy('cancel', '--all', '--grace', '0');
});

test('a sweep has a sortable column for each parameter and reported metric, also in the CSV file', async () => {
  const id = daemon.submit('--gpus', '0', '--param', 'lr=0.1,0.002', '--param', 'optimiser=adam,sgd', '--name', 'sweep', '--', 'sh', '-c', 'echo "{\\"step\\": 7, \\"loss\\": {lr}5, \\"constructor\\": 1}"; sleep 1000');
  await until('its elements', () => daemon.json('queue').filter((job) => job.name === 'sweep' && job.state === 'running').length === 4);
  await show(`job/${id}`);
  const rows = rowsOf('Elements');
  const column = async (title) => {
    const titles = await page.locator('[aria-label="Elements"] [role=columnheader]').allInnerTexts();
    const at = titles.findIndex((text) => text.replace(/[↑↓]/, '').trim() === title);
    assert.ok(at >= 0, `${title} in ${titles}`);
    return rows.evaluateAll((all, index) => all.map((row) => row.children[index].textContent.trim()), at);
  };
  await until('what they reported', async () => assert.deepEqual(await column('loss'), ['0.15', '0.15', '0.0025', '0.0025']) ?? true, 60);
  assert.deepEqual(await column('lr'), ['0.1', '0.1', '0.002', '0.002']);
  assert.deepEqual(await column('optimiser'), ['adam', 'sgd', 'adam', 'sgd']);
  assert.deepEqual(await column('step'), ['7', '7', '7', '7']);
  // Numbers by their size, not by their letters.
  await page.click('[aria-label="Elements"] [role=columnheader] button:has-text("loss")');
  await page.click('[aria-label="Elements"] [role=columnheader] button:has-text("loss")');
  await until('the order', async () => assert.deepEqual(await column('Element'), [`${id}_2`, `${id}_3`, `${id}_0`, `${id}_1`]) ?? true);
  await page.fill('[aria-label="Filter Elements"]', 'sgd');
  await until('two of them', async () => (await rows.count()) === 2);
  // On a phone the second line has them.
  await page.setViewportSize({ width: 390, height: 800 });
  await page.fill('[aria-label="Filter Elements"]', '');
  await until('the second line', async () => {
    const text = (await rows.first().innerText()).replace(/\s+/g, ' ');
    return ['0.002', 'adam', '0.0025'].every((piece) => text.includes(piece));
  });
  await page.setViewportSize({ width: 1280, height: 800 });
  // Others see the elements, and neither what they are given nor what they report.
  const other = await openPage(browser);
  await other.goto(daemon.link().replace(/#.*/, ''));
  await other.fill('#token', daemon.divvy('token', 'create', '--user', 'nobody', '--role', 'viewer').trim());
  await other.click('button.primary');
  await other.waitForSelector('[data-tile="Running"]');
  await showView(other, `job/${id}`);
  await other.waitForSelector('[aria-label="Elements"] .rows [role=row]');
  assert.doesNotMatch(await other.locator('[aria-label="Elements"]').innerText(), /adam|loss/);
  assert.deepEqual(other.troubles, []);
  await other.context().close();
  daemon.divvy('cancel', '--all', '--grace', '0');
});

test('a job with a GPU fraction can be resized, parked, woken and moved, and its log is above its charts', async () => {
  await until('room', () => daemon.json('queue').length === 0);
  const id = daemon.submit('--gpus', '0.5', '--name', 'notebook', '--', 'sh', '-c', 'echo ready; sleep 1000');
  await show(`job/${id}`);
  await page.waitForSelector('button:text-is("Park")');
  await page.waitForSelector('[data-metric]');
  const tops = await page.locator('.actions > *').evaluateAll((all) => all.map((one) => one.getBoundingClientRect().top));
  assert.ok(tops.length >= 8 && new Set(tops).size === 1, `${tops}`);
  assert.ok(await page.evaluate(() => document.querySelector('.log').getBoundingClientRect().top < document.querySelector('[data-metric]').getBoundingClientRect().top));
  const portion = () => daemon.json('show', id).request.fraction;
  await page.click('button:text-is("Resize")');
  await page.click('dialog button:text-is("Resize")');
  await page.waitForSelector('dialog >> text=Change one of the values.');
  await page.fill('dialog label:has-text("May borrow") input', '1.5');
  await page.click('dialog button:text-is("Resize")');
  await page.waitForSelector('dialog >> text=/Write a fraction/');
  await page.fill('dialog label:has-text("Fraction") input', '0.25');
  await page.fill('dialog label:has-text("May borrow") input', '0.75');
  await page.click('dialog button:text-is("Resize")');
  await until('its new size', () => portion().request === 0.25 && portion().limit === 0.75);
  const on = () => daemon.json('show', id).share.gpus[0].gpu;
  page.expects.push(/400 .*\/v1\/jobs\/move/);
  const target = on() === 3 ? 2 : 3;
  await page.click('button:text-is("Move")');
  await page.fill('dialog input', '99');
  await page.click('dialog button:text-is("Move")');
  await page.waitForSelector('dialog [role=alert]');
  await page.fill('dialog input', String(target));
  await page.click('dialog button:text-is("Move")');
  await until('its new GPU', () => on() === target);
  await page.click('button:text-is("Park")');
  await page.waitForSelector('text=/its GPU memory is on the host/');
  daemon.divvy('cancel', id, '--grace', '0');
  // One with whole GPUs has none of these.
  const whole = daemon.submit('--gpus', '1', '--', 'sleep', '1000');
  await show(`job/${whole}`);
  await page.waitForSelector('button:text-is("Pause")');
  assert.equal(await page.locator('button:text-is("Park"), button:text-is("Resize"), button:text-is("Move")').count(), 0);
  daemon.divvy('cancel', '--all', '--grace', '0');
});

test('an unknown job is reported as unknown, without an error in the console', async () => {
  await page.evaluate(() => (location.hash = '#/job/4711'));
  await page.waitForSelector('text=There is no job 4711.');
  await page.evaluate(() => (location.hash = '#/job/nobodys'));
  await page.waitForSelector('text=There is no job nobodys.');
  assert.deepEqual(page.troubles, []);
});

test("the timeline uses the browser's time zone, shows days and highlights whole phrases", async () => {
  const id = daemon.submit('--gpus', '0', '--retries', '1', '--retry-delay', '1s', '--name', 'tries', '--', 'sh', '-c', 'exit 4');
  await until('its end', () => daemon.json('show', id).state === 'failed');
  await show(`job/${id}`);
  await page.waitForSelector('.timeline >> text=/run 2 started/');
  const inZone = (time, options) => new Intl.DateTimeFormat('en-GB', { timeZone: 'Asia/Kathmandu', ...options }).format(new Date(time * 1000));
  const told = (await daemon.ask('GET', `/v1/jobs/${id}`)).timeline;
  const clocks = await page.locator('.timeline li:not(.day) > span:first-child').allInnerTexts();
  assert.deepEqual(clocks, told.map((line) => inZone(line.time, { hour: '2-digit', minute: '2-digit', second: '2-digit' })));
  assert.equal(await page.locator('.timeline li.day').first().innerText(), inZone(told[0].time, { weekday: 'short', day: 'numeric', month: 'short', year: 'numeric' }));
  assert.equal(await page.locator('.timeline li:not(.day) > span').first().getAttribute('title'), inZone(told[0].time, { dateStyle: 'medium', timeStyle: 'medium' }));
  const bold = await page.locator('.timeline b').allInnerTexts();
  assert.deepEqual(bold, told.map((line) => line.text.split(/[:;] /)[0]));
});

test('charts begin with the first run and mark where another run began', async () => {
  const id = daemon.submit('--gpus', '1', '--name', 'again', '--', 'sh', '-c', 'i=0; while [ $i -lt 900 ]; do i=$((i+1)); echo "{\\"lr\\": 0.000005642}"; sleep 0.2; done');
  await show(`job/${id}`);
  await page.waitForSelector('[data-metric="own.lr"] canvas');
  await until('small numbers', async () => /now 5\.64e-6/.test(await page.locator('[data-metric="own.lr"] [role=img]').getAttribute('aria-label')));
  assert.equal(await page.locator('[data-restarts]').count(), 0);
  const asked = [];
  page.on('request', (request) => request.url().includes('/v1/series') && asked.push(request.url()));
  // Long enough a first run that the second is known from it by its seconds.
  const seconds = async () => (await daemon.ask('GET', `/v1/series?of=job&id=${id}`)).series.find((one) => one.metric === 'own.lr')?.mean.filter((value) => value !== null).length ?? 0;
  await until('seconds of the first run', async () => (await seconds()) >= 3);
  daemon.divvy('requeue', id);
  await page.waitForSelector('[data-restarts] >> text=/2 runs/');
  const first = (await daemon.ask('GET', `/v1/jobs/${id}`)).timeline.find((line) => /started/.test(line.text)).time;
  asked.length = 0;
  await until('another look', () => asked.some((url) => /of=job/.test(url)));
  const since = Number(/since=(\d+)/.exec(asked.find((url) => /of=job/.test(url)))[1]);
  assert.equal(since, Math.floor(first - 2));
  daemon.divvy('cancel', id, '--grace', '0');
});

test('a job without GPUs says so, and missing limits and values are shown as none', async () => {
  const id = daemon.submit('--gpus', '0', '--time', '1h', '--hold', '--', 'true');
  await show(`job/${id}`);
  await until('its request', async () => (await fact('Request')) === 'no GPU');
  await page.click('button:text-is("Time limit")');
  await page.fill('dialog input', '');
  await page.click('dialog button:has-text("Set")');
  // What is wrong is said where it was typed, and can be mended there.
  await page.waitForSelector('dialog [role=alert]:has-text("Enter hours, such as 1.5, or 0 for no limit.")');
  page.expects.push(/400 .*\/v1\/jobs\/update/);
  await page.fill('dialog input', '99999999999');
  await page.click('dialog button:has-text("Set")');
  await page.waitForSelector('dialog [role=alert]:not(:has-text("Enter hours"))');
  assert.equal(daemon.json('show', id).request.time_limit_s, 3600);
  await page.fill('dialog input', '0');
  await page.click('dialog button:has-text("Set")');
  await until('no limit', () => daemon.json('show', id).request.time_limit_s === 0);
  await until('the question to be gone', async () => (await page.locator('dialog[open]').count()) === 0);
  // What is done after one went back, and was asked something else, is no answer to that.
  await page.reload();
  let release = null;
  await page.route('**/v1/jobs/update', async (route) => {
    await new Promise((resolve) => (release = resolve));
    await route.continue();
  });
  await page.click('button:text-is("Time limit")');
  await page.fill('dialog input', '2');
  await page.click('dialog button:has-text("Set")');
  await until('its request to be under way', () => release !== null);
  await page.click('dialog button:text-is("Back")');
  await page.click('button:text-is("Priority")');
  release();
  await page.waitForSelector('.toast:has-text("changed time")');
  await page.unroute('**/v1/jobs/update');
  await page.waitForSelector('dialog[open] h1:has-text("Priority of")');
  await page.click('dialog button:text-is("Back")');
  await page.click('button:text-is("Priority")');
  await page.fill('dialog input', '1.5');
  await page.click('dialog button:has-text("Set")');
  await page.waitForSelector('dialog [role=alert]:has-text("Enter a whole number")');
  await page.click('dialog button:text-is("Back")');
  assert.equal(await page.locator('button:text-is("Release")').count(), 1);
  // Who may only look is offered nothing that cannot be done.
  const other = await openPage(browser);
  await other.goto(daemon.link().replace(/#.*/, ''));
  await other.fill('#token', daemon.divvy('token', 'create', '--role', 'viewer').trim());
  await other.click('button:has-text("Log in")');
  await other.waitForSelector('[data-tile="Running"]');
  await showView(other, `job/${id}`);
  await other.waitForSelector('h2:has-text("Facts")');
  assert.equal(await other.locator('a:has-text("Submit a copy")').count(), 0);
  assert.equal(await other.locator('.head button').count(), 0);
  assert.deepEqual(other.troubles, []);
  daemon.divvy('cancel', '--all', '--grace', '0');
});

test('release is offered for held jobs only', async () => {
  const id = daemon.submit('--gpus', '1', '--name', 'goes-on', '--', 'sleep', '300');
  await until('it to run', () => daemon.json('show', id).state === 'running');
  await show(`job/${id}`);
  await page.waitForSelector('button:text-is("Pause")');
  assert.equal(await page.locator('button:text-is("Release")').count(), 0);
  await show('queue');
  await page.check(`[aria-label="Select ${id}"]`);
  await page.waitForSelector('button:has-text("Cancel")');
  assert.equal(await page.locator('button:has-text("Release")').count(), 0);
  daemon.divvy('cancel', '--all', '--grace', '0');
});

test('the log lists runs whose output is on another node, and shows each', async () => {
  daemon.addAgent('far', '1xA100-40GB');
  await until('the machine', () => daemon.json('nodes').some((node) => node.name === 'far' && node.state === 'up'));
  daemon.divvy('gpus', 'restrict', 'far:none');
  const id = daemon.submit('--gpus', '1', '--name', 'moves', '--', 'sh', '-c', 'echo "attempt $DIVVY_ATTEMPT"; sleep 1000');
  await until('its first run', () => daemon.json('show', id).state === 'running');
  await show(`job/${id}`);
  await page.waitForSelector('pre >> text=attempt 1');
  assert.equal(await page.locator('[data-run-log], [data-elsewhere]').count(), 0);
  daemon.divvy('gpus', 'restrict', 'far:all');
  daemon.divvy('gpus', 'restrict', 'none');
  daemon.divvy('requeue', id);
  await page.waitForSelector('pre >> text=attempt 2', { timeout: 20_000 });
  assert.match(await page.locator('[data-elsewhere]').innerText(), new RegExp(`run 1 was on the controller's machine.*divvy logs --run 1 ${id}`));
  assert.doesNotMatch(await page.locator('pre').innerText(), /attempt 1/);
  await page.selectOption('[data-run-log]', { label: "run 1, on the controller's machine" });
  await page.waitForSelector('pre >> text=attempt 1');
  assert.match(await page.locator('[data-elsewhere]').innerText(), /run 2 was on far/);
  assert.doesNotMatch(await page.locator('pre').innerText(), /attempt 2/);
  daemon.divvy('cancel', '--all', '--grace', '0');
  daemon.divvy('gpus', 'restrict', 'all');
});

test('the page reports no errors', () => assert.deepEqual(page.troubles, []));
