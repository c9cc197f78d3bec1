// Changes that administrators make on the Teams page: teams, users' limits, reservations.
import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';
import { Daemon, enter, leave, openPage, showView, until } from './world.mjs';

let daemon, browser, page;
const port = 22000 + (process.pid % 8000);
before(async () => {
  daemon = new Daemon(process.env.DIVVY, '4xH100-80GB', `[controller]\nlisten = "127.0.0.1:${port}"\n[teams.fixed]\nquota = 1\n`).up();
  ({ browser, page } = await enter(daemon));
  await showView(page, 'teams');
  await page.waitForSelector('[aria-label=Teams] .rows [role=row]');
});
after(() => leave(browser, daemon));
const field = (label) => page.locator('dialog label', { has: page.locator(`span:text-is("${label}")`) }).locator('input, select');
const team = (name) => daemon.json('teams').teams.find((one) => one.name === name);

test('a team can be created, changed and removed', async () => {
  await page.click('button:text-is("New team")');
  await page.click('dialog button:text-is("Create")');
  await page.waitForSelector('dialog >> text=Write a name.');
  await field('Name').fill('vision');
  await field('Quota in GPUs').fill('2.5');
  await field('Users').fill('root, nobody');
  await field('Maximum running jobs').fill('7');
  await page.click('dialog button:text-is("Create")');
  await until('the team', () => team('vision'));
  assert.deepEqual([team('vision').quota, team('vision').limit, team('vision').users.sort(), team('vision').running_limit], [2.5, null, ['nobody', 'root'], 7]);
  await page.click('[aria-label="Edit team vision"]');
  await page.click('dialog button:text-is("Change")');
  await page.waitForSelector('dialog >> text=Change one of the values.');
  await field('Quota in GPUs').fill('');
  await field('Limit in GPUs').fill('3');
  await field('Users').fill('nobody');
  await field('Parent team').selectOption('fixed');
  await page.click('dialog button:text-is("Change")');
  await until('the changes', () => team('vision').limit === 3);
  assert.deepEqual([team('vision').quota, team('vision').users, team('vision').parent, team('vision').running_limit], [null, ['nobody'], 'fixed', 7]);
  // A change that the daemon refuses keeps the dialog open, with the reason.
  await page.click('button:text-is("New team")');
  await field('Name').fill('vision');
  page.expects.push(/40\d .*\/v1\/teams/, /409/);
  await page.click('dialog button:text-is("Create")');
  await page.waitForSelector('dialog [role=alert]');
  await page.click('dialog button:text-is("Back")');
  await page.click('[aria-label="Remove team vision"]');
  await page.click('dialog button:text-is("Remove")');
  await until('its end', () => !team('vision'));
  await until('its row to go', async () => (await page.locator('[aria-label="Edit team vision"]').count()) === 0);
  // A team of divvy.toml is changed there.
  assert.equal(await page.locator('[aria-label="Edit team fixed"]').count(), 0);
});

test("a user's limits can be changed", async () => {
  const id = daemon.submit('--gpus', '0', '--', 'sleep', '1000');
  await page.reload();
  await page.click('[aria-label="Edit user root"]');
  await field('Maximum GPUs').fill('3');
  await field('Budget in GPU-hours').fill('100');
  await field('Budget period').selectOption('week');
  await page.click('dialog button:text-is("Change")');
  const user = () => daemon.json('teams').users.find((one) => one.name === 'root');
  await until('the limits', () => user().gpu_limit === 3);
  assert.deepEqual([user().budget_gpu_hours, user().period], [100, 'week']);
  daemon.divvy('cancel', id, '--grace', '0');
});

test('GPUs can be reserved, and the reservation can be cancelled', async () => {
  await page.click('button:text-is("Reserve GPUs")');
  await page.click('dialog button:text-is("Reserve")');
  await page.waitForSelector('dialog >> text=Choose a team, or write a user.');
  await field('Name').fill('course');
  await field('GPUs').fill('2');
  await field('For team').selectOption('fixed');
  const day = new Date(Date.now() + 2 * 86400_000);
  const start = new Date(day.getFullYear(), day.getMonth(), day.getDate(), 9);
  await field('Start').fill(`${start.toLocaleDateString('sv-SE')}T09:00`);
  await field('Duration in hours').fill('1.5');
  await field('Repeated').selectOption('every week');
  await page.click('dialog button:text-is("Reserve")');
  await until('the reservation', () => daemon.json('reserve', 'list').length === 1);
  const [one] = daemon.json('reserve', 'list');
  assert.deepEqual([one.name, one.gpus, one.team, one.start, one.duration_s, one.every], ['course', 2, 'fixed', start.getTime() / 1000, 5400, 'week']);
  await page.click('[aria-label="Cancel reservation 1"]');
  await page.click('dialog button:text-is("Cancel it")');
  await until('its end', () => daemon.json('reserve', 'list').length === 0);
  assert.deepEqual(page.troubles, []);
});

test('other users see teams but cannot change them', async () => {
  const other = await openPage(browser);
  await other.goto(daemon.link().replace(/#.*/, ''));
  await other.fill('#token', daemon.divvy('token', 'create', '--user', 'nobody').trim());
  await other.click('button.primary');
  await other.waitForSelector('[data-tile="Running"]');
  await showView(other, 'teams');
  await other.waitForSelector('[aria-label=Teams] .rows [role=row]');
  assert.equal(await other.locator('button:text-is("New team"), button:text-is("Reserve GPUs"), button:text-is("Edit"), button:text-is("Remove")').count(), 0);
  assert.deepEqual(other.troubles, []);
});
