// Services and sweeps: what the command line shows of them, and the plots of a sweep.
import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';
import { Daemon, enter, leave, showView, until } from './world.mjs';

let daemon, browser, page;
before(async () => {
  daemon = new Daemon(process.env.DIVVY, '4xH100-80GB').up();
  ({ browser, page } = await enter(daemon));
});
after(() => leave(browser, daemon));
const show = (view) => showView(page, view);
const rowsOf = (label) => page.locator(`[aria-label="${label}"] .rows [role=row]`).allInnerTexts();

test('a sweep shows its best trials, curves and parallel coordinates', async () => {
  const trial = 'for e in 1 2 3; do echo "{\\"epoch\\": $e, \\"loss\\": $(python3 -c "print({q} + 1 / $e)")}"; sleep 1.1; done';
  const id = daemon.divvy('sweep', 'run', '--quiet', '--gpus', '1', '--param', 'q=3,1,2', '--param', 'kind=a,b', '--metric', 'loss', '--name', 'search', '--', 'sh', '-c', trial).trim();
  const sweep = () => daemon.json('sweep', 'show', id);
  await until('the end of the sweep', () => sweep().state === 'ended' && sweep().list.every((one) => one.best !== null), 120);
  await show('sweeps');
  await until('the sweep in the list', async () => (await rowsOf('Sweeps')).some((text) => text.includes('search') && text.includes('1.333')));
  await page.click('[aria-label="Sweeps"] .rows [role=row] a');
  await page.waitForSelector(`[data-sweep="${id}"]`);
  const best = sweep().best_trial;
  await until('the trials, the best first', async () => {
    const rows = await rowsOf('Trials');
    return rows.length === 6 && new RegExp(`^${best}\\b`).test(rows[0].trim());
  });
  assert.equal(await page.locator('[data-parallel] polyline').count(), 6);
  assert.deepEqual(await page.locator('[data-parallel] text.name').allTextContents(), ['q', 'kind', 'loss']);
  assert.ok((await page.locator('[data-curves] polyline').count()) >= 1);
  await page.locator('[data-parallel] polyline').first().dispatchEvent('pointerenter');
  assert.equal(await page.locator('[data-parallel] polyline.chosen').count(), 1);
  assert.deepEqual(page.troubles, []);
});

test('a service shows its state, load, replicas, revisions and events', async (context) => {
  const code = 'import http.server,os;http.server.HTTPServer((os.environ["HOST"],int(os.environ["PORT"])),http.server.SimpleHTTPRequestHandler).serve_forever()';
  await show('services');
  await page.waitForSelector('text=No services.');
  try {
    daemon.divvy('serve', 'create', 'web-test', '--replicas', '1..2', '--', 'python3', '-c', code);
  } catch (error) {
    if (String(error.stderr).includes('install the package haproxy')) return context.skip('HAProxy is not installed');
    throw error;
  }
  try {
    const state = () => daemon.json('serve', 'show', 'web-test');
    await until('a ready replica', () => state().state === 'hot', 60);
    const answer = await fetch(state().url);
    assert.equal(answer.status, 200);
    await until('the service in the list', async () => (await rowsOf('Services')).some((text) => text.includes('web-test') && text.includes('hot') && text.includes('1..2')));
    await page.click('[aria-label="Services"] .rows [role=row] a');
    await page.waitForSelector('[data-service="web-test"]');
    await until('its requests', async () => (await page.locator('[data-service]').innerText()).includes('1 requests, 0 failed'));
    await until('its replica', async () => (await rowsOf('Replicas')).some((text) => text.includes('ready') && text.includes(String(state().replicas[0].job))));
    const text = await page.locator('main').innerText();
    assert.match(text, /replica 1 \(job \d+\) is ready/);
    assert.match(text, /1\s+current\s+python3/);
    assert.deepEqual(page.troubles, []);
  } finally {
    daemon.divvy('serve', 'delete', 'web-test');
    await until('its end', () => daemon.json('serve', 'list').length === 0, 60);
  }
});
