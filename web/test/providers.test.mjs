// Providers of nodes on demand: a real provider's program starts an agent on this machine.
import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';
import { mkdirSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { Daemon, enter, leave, openPage, showView, until } from './world.mjs';

let daemon, browser, page;
const port = 22000 + (process.pid % 8000);
const program = new URL('../../tests/providers/local_provider.py', import.meta.url).pathname;
before(async () => {
  daemon = new Daemon(process.env.DIVVY, '1xH100-80GB');
  const folder = (name) => {
    mkdirSync(join(daemon.home, name));
    return join(daemon.home, name);
  };
  const provider = (name, command, gpus) => `[[providers]]\nname = "${name}"\ncommand = ${JSON.stringify(command)}\nmax_nodes = 2\nmax_per_month = 500\npoll = "1s"\nidle = "1h"\n[[providers.shapes]]\nname = "h100x${gpus}"\ngpu_model = "H100-80GB"\ngpus = ${gpus}\ncpus = 1\nmemory = "1G"\nprice = 24\nstartup = "5s"\n`;
  const failing = join(folder('programs'), 'failing');
  writeFileSync(failing, '#!/bin/sh\necho "account 4711 is <b>closed</b>" >&2\nexit 1\n', { mode: 0o755 });
  writeFileSync(
    join(daemon.home, 'divvy.toml'),
    `[controller]\nlisten = "127.0.0.1:${port}"\n[teams.vision]\nusers = ["root"]\nmax_per_hour = 30\nmax_per_month = 2000\n` + provider('local', [program, folder('nodes')], 8) + provider('broken', [failing], 64),
  );
  daemon.up();
  ({ browser, page } = await enter(daemon));
});
after(async () => {
  try {
    daemon.divvy('cancel', '--all', '--grace', '0');
    daemon.divvy('providers', 'drain', 'local');
    await until('the return of the nodes', () => daemon.json('providers').every((one) => one.nodes === 0), 60);
  } finally {
    await leave(browser, daemon);
  }
});
const rowsOf = (label) => page.locator(`[aria-label="${label}"] .rows [role=row]`).allInnerTexts();
const has = (label, ...texts) => async () => (await rowsOf(label)).some((row) => texts.every((text) => row.includes(text)));

test('providers, their nodes and the money of teams are shown', async () => {
  const id = daemon.submit('--gpus', '8', '--', 'sleep', '1000');
  await showView(page, 'providers');
  await until('the provider', has('Providers', 'local', 'enabled', '1 / 2', '24.00', '/ 500.00'), 60);
  await until('the error of the other', has('Providers', 'broken', 'failing', 'account 4711 is <b>closed</b>'), 60);
  await until('its node', has('Nodes of providers', 'local-1', 'h100x8', 'joined', '24.00'), 60);
  await until('the job', () => daemon.json('show', id).state === 'running', 60);
  await until("the team's money", has('Money of teams', 'vision', '24.00 / 30.00', '/ 2,000.00'));
  assert.deepEqual(page.troubles, []);
});

test('a report has the cost of the job, and teams their money', async () => {
  await until('the cost in the report', () => daemon.json('report', 'usage', '--by', 'job').rows.some((row) => row.nodes_cost > 0 && row.nodes_share === 1));
  assert.match(daemon.divvy('report', 'usage', '--by', 'team'), /NODE COST/);
  assert.match(daemon.divvy('report', 'usage', '--by', 'team'), /Nodes of providers cost \d/);
  assert.match(daemon.divvy('teams'), /vision.*24\/30 h, [\d.]+\/2000 mo/);
  // On the page of teams, too.
  await showView(page, 'teams');
  await until("the team's money", async () => /\/ 2,000\.00/.test(await page.locator('[aria-label=Teams] .rows').innerText()));
  assert.deepEqual(page.troubles, []);
});

test('an administrator disables and enables a provider', async () => {
  await showView(page, 'providers');
  await page.click('[aria-label="Disable provider broken"]');
  await page.click('dialog button:text-is("Disable")');
  await until('its state', has('Providers', 'broken', 'disabled'));
  assert.equal(daemon.json('providers').find((one) => one.name === 'broken').state, 'disabled');
  await page.click('[aria-label="Enable provider broken"]');
  await until('its state', () => daemon.json('providers').find((one) => one.name === 'broken').state !== 'disabled');
  assert.deepEqual(page.troubles, []);
});

test('a narrow page shows the providers', async () => {
  const narrow = await openPage(browser, { viewport: { width: 380, height: 700 }, storageState: await page.context().storageState() });
  await narrow.goto(page.url());
  await until('the provider', async () => (await narrow.locator('[aria-label="Providers"] .rows').innerText()).includes('local'));
  await narrow.context().close();
});
