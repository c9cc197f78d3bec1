// More windows of one browser than it has connections to a host: one stream is enough for all of them.
import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';
import { Daemon, enter, leave, until } from './world.mjs';

const kWindows = 9;
let daemon, browser, page;
const windows = [];
let streams = [];
before(async () => {
  daemon = new Daemon(process.env.DIVVY, '4xH100-80GB').up();
  ({ browser, page } = await enter(daemon));
  const context = page.context();
  context.on('request', (request) => request.url().includes('/v1/events') && streams.push(request));
  context.on('requestfailed', (request) => (streams = streams.filter((one) => one !== request)));
  context.on('requestfinished', (request) => (streams = streams.filter((one) => one !== request)));
  const address = page.url().split('#')[0];
  windows.push(page);
  while (windows.length < kWindows) {
    const next = await context.newPage();
    next.goto(address).catch(() => {});
    windows.push(next);
  }
});
after(() => leave(browser, daemon));
const running = (one) => one.locator('[data-tile="Running"] .value').innerText({ timeout: 500 });
const all = (what, number) => Promise.all(windows.map((one, i) => until(`${what} in window ${i + 1}`, async () => (await running(one)).trim() === number)));

test('all windows show live events over one stream', async () => {
  await all('the first look', '0');
  const id = daemon.submit('--gpus', '1', '--', 'sleep', '1000');
  await all('a start', '1');
  assert.equal(streams.length, 0, 'only the first window has a stream');
  // An event, not only the next reading of the list, is what they go by.
  await windows.at(-1).evaluate(() => (location.hash = '#/events'));
  daemon.divvy('cancel', '--grace', '0', id);
  await windows.at(-1).locator('main', { hasText: 'cancelled' }).waitFor({ timeout: 5000 });
  await windows.at(-1).evaluate(() => (location.hash = '#/overview'));
});

test('if the window with the stream is closed, another takes it over', async () => {
  await windows.shift().close();
  await until('another stream', () => streams.length === 1);
  daemon.submit('--gpus', '2', '--', 'sleep', '1000');
  await all('the next start', '1');
});

test('all windows reconnect after a restart of the daemon', async () => {
  daemon.divvy('down');
  await Promise.all(windows.map((one, i) => until(`the word that it is away in window ${i + 1}`, async () => (await one.locator('[role=alert], [role=status]').allInnerTexts()).join(' ').includes('does not answer') || (await one.locator('body').innerText()).includes('does not answer'))));
  daemon.up();
  daemon.submit('--gpus', '1', '--', 'sleep', '1000');
  await all('both jobs', '2');
  assert.equal(streams.length, 1);
});
