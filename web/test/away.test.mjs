// Views that are opened while the daemon is away, and what happens while nobody looks: nothing of it is missing afterwards.
import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';
import { Daemon, enter, leave, showView, until } from './world.mjs';

const kGone = [/ERR_CONNECTION_REFUSED/, /ERR_EMPTY_RESPONSE/, /ERR_CONNECTION_RESET/, /ERR_INCOMPLETE_CHUNKED_ENCODING/, /ERR_SOCKET_NOT_CONNECTED/];
let daemon, browser, page;
before(async () => {
  daemon = new Daemon(process.env.DIVVY, '2xH100-80GB').up();
  daemon.divvy('run', '--gpus', '1', '--name', 'before', '--', 'true');
  ({ browser, page } = await enter(daemon));
  page.expects.push(...kGone);
});
after(() => leave(browser, daemon));
const text = () => page.locator('main').innerText();
const goAway = async () => {
  daemon.divvy('down');
  await page.waitForSelector('text=Disconnected');
};

test('usage opened while the daemon is down loads once the daemon is back', async () => {
  await goAway();
  await showView(page, 'usage');
  assert.match(await text(), /The history will be loaded when the daemon answers again/);
  daemon.up();
  await page.waitForSelector('[aria-label="GPU-hours by name"], [aria-label="GPU-hours by user"]', { timeout: 20_000 });
  assert.doesNotMatch(await text(), /does not answer/);
});

test('the usage view refreshes and keeps its sorting and filter', async () => {
  await page.click('[aria-label="By what"] button:text-is("name")');
  const table = page.locator('.table', { has: page.locator('[role=table][aria-label="GPU-hours by name"]') });
  await table.locator('[role=columnheader] button:text-matches("^Jobs")').click();
  await table.locator('[data-filter]').fill('fore');
  await until('one line', async () => (await table.locator('.rows [role=row]').count()) === 1);
  await goAway();
  assert.equal(await table.locator('.rows [role=row]').count(), 1, 'what was known stays');
  daemon.up();
  for (const name of ['afore', 'heretofore', 'beyond']) daemon.divvy('run', '--gpus', '1', '--name', name, '--', 'true');
  // Read anew once a minute.
  await until('what ran meanwhile', async () => (await table.locator('.rows [role=row]').count()) === 3, 75);
  assert.equal(await table.locator('[role=columnheader]', { hasText: /^\s*Jobs/ }).getAttribute('aria-sort'), 'descending');
  assert.equal(await table.locator('[data-filter]').inputValue(), 'fore');
});

test('events opened while the daemon is down say so, and show earlier events once it is back', async () => {
  await page.reload();
  await showView(page, 'overview');
  await page.waitForSelector('[data-tile="Running"]');
  await goAway();
  await showView(page, 'events');
  assert.match(await text(), /disconnected/);
  assert.match(await text(), /Events will be loaded when the daemon answers again/);
  assert.doesNotMatch(await text(), /Nothing has happened yet/);
  daemon.up();
  await page.waitForSelector('.rows >> text="beyond"', { timeout: 20_000 });
  assert.doesNotMatch(await text(), /disconnected/);
});

test('a job opened while the daemon is down loads once the daemon is back', async () => {
  page.expects.push(/404 .*\/v1\/jobs\/1\/log/); // What ran at a terminal has none.
  await goAway();
  await showView(page, 'overview');
  await page.evaluate(() => (location.hash = '#/job/1'));
  await page.waitForSelector('text="Job 1 will be loaded when the daemon answers again."');
  daemon.up();
  await page.waitForSelector('h1:has-text("before")', { timeout: 20_000 });
  await showView(page, 'events');
});

test('teams opened while the daemon is down load once the daemon is back', async () => {
  await page.reload();
  await showView(page, 'overview');
  await page.waitForSelector('[data-tile="Running"]');
  await goAway();
  await showView(page, 'teams');
  assert.match(await text(), /Teams will be loaded when the daemon answers again/);
  daemon.up();
  await page.waitForSelector('[role=table][aria-label="Users"]', { timeout: 20_000 });
  assert.doesNotMatch(await text(), /when the daemon answers again/);
  await showView(page, 'events');
});

test('events from while the page is closed or the daemon is down are listed afterwards', async () => {
  const look = (isHidden) =>
    page.evaluate((value) => {
      Object.defineProperty(document, 'hidden', { configurable: true, get: () => value });
      document.dispatchEvent(new Event('visibilitychange'));
    }, isHidden);
  await look(true);
  daemon.divvy('run', '--gpus', '1', '--name', 'unseen', '--', 'true');
  await page.waitForTimeout(500);
  assert.doesNotMatch(await text(), /unseen/);
  await look(false);
  const states = async (name) => (await page.locator('.rows [role=row]', { has: page.locator(`text="${name}"`) }).allInnerTexts()).join(' ');
  await until('all of it', async () => /submitted/.test(await states('unseen')) && /running/.test(await states('unseen')) && /succeeded/.test(await states('unseen')));
  await goAway();
  daemon.up();
  daemon.divvy('run', '--gpus', '1', '--name', 'meanwhile', '--', 'sleep', '2');
  await until('all of it', async () => /succeeded/.test(await states('meanwhile')));
  assert.deepEqual(page.troubles, []);
});
