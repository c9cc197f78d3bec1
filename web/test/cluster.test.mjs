// Several machines: what the page shows and does of them.
import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';
import { Daemon, leave, openBrowser, openPage, parsed, until } from './world.mjs';

let daemon, browser, page;
before(async () => {
  const port = 20000 + ((process.pid * 11) % 20000);
  daemon = new Daemon(process.env.DIVVY, '2xH100-80GB', `[controller]\nlisten = "127.0.0.1:${port}"\n`).up();
  daemon.addAgent('n1', '4xA100-40GB');
  daemon.addAgent('n2', '4xH100-80GB');
  browser = await openBrowser();
  page = await openPage(browser);
  await page.goto(daemon.link());
  await until('both machines', () => daemon.json('nodes').filter((node) => node.state === 'up').length === 3);
  await page.evaluate(() => (location.hash = '#/nodes'));
  await page.waitForSelector('h1:has-text("Nodes and GPUs")');
});
after(() => leave(browser, daemon));
const line = (name) => page.locator('[aria-label=Nodes] [role=row]', { has: page.locator(`a:text-is("${name}")`) });
const node = (name) => daemon.json('nodes').find((one) => one.name === name);

test('nodes match divvy nodes, and their GPUs match divvy gpus', async () => {
  await until('the numbers to agree', async () => {
    for (const one of daemon.json('nodes')) {
      const cells = await line(one.name).locator('[role=cell]').allInnerTexts();
      assert.deepEqual(cells.slice(0, 5), [one.name, one.state, String(one.gpus), String(one.gpus_free), String(one.jobs)]);
    }
    assert.equal(await page.locator('[aria-label=GPUs]').getAttribute('aria-rowcount'), String(daemon.json('gpus').length + 1));
    return true;
  });
  // The page scrolls, and not a small table within it.
  assert.ok(await page.locator('[aria-label=GPUs]').evaluate((table) => table.scrollHeight <= table.clientHeight), 'all GPUs are shown');
});

test('a node can be drained and resumed', async () => {
  await page.click('[aria-label=Nodes] a:text-is("n1")');
  await page.waitForSelector('h1:text-is("n1")');
  await page.click('button:text-is("Drain")');
  await page.fill('dialog input >> nth=0', 'fan <b>broken</b>');
  await page.click('dialog button:has-text("Drain")');
  await until('its draining', () => /^drain/.test(node('n1').state));
  await page.waitForSelector('text=fan <b>broken</b>');
  await page.click('button:text-is("Resume")');
  await until('up again', () => node('n1').state === 'up');
  await page.waitForSelector('button:text-is("Drain")');
});

test('a node can be cordoned and its GPUs restricted', async () => {
  await page.click('button:text-is("Cordon")');
  await page.fill('dialog input >> nth=0', 'a look');
  await page.click('dialog button:has-text("Cordon")');
  await until('its cordon', () => node('n1').state === 'cordoned');
  await page.click('button:text-is("Resume")');
  await until('up again', () => node('n1').state === 'up');
  await page.click('button:has-text("Restrict GPUs")');
  await page.fill('dialog input', '1-2');
  await page.click('dialog button:has-text("Set")');
  await until('the restriction', () => String(node('n1').gpus_restricted) === '0,3');
  assert.deepEqual(daemon.json('nodes').find((one) => one.is_controller).gpus_restricted, []);
  await page.waitForSelector('text=Closed for new work: GPUs 0,3');
  await page.click('button:has-text("Restrict GPUs")');
  await page.fill('dialog input', 'all');
  await page.click('dialog button:has-text("Set")');
  await until('its end', () => node('n1').gpus_restricted.length === 0);
});

test('a job on the controller shows its node and charts of its own GPUs', async () => {
  const host = daemon.json('nodes').find((one) => !['n1', 'n2'].includes(one.name)).name;
  const id = daemon.submit('--gpus', '2', '--name', 'here', '--nodelist', host, '--', 'sleep', '1000').trim();
  await until('its start', () => daemon.json('show', id).state === 'running');
  await page.evaluate((job) => (location.hash = '#/job/' + job), id);
  await page.waitForSelector(`dd:text-is("${host}: GPUs 0-1")`);
  const curves = page.locator('[data-metric=gpu_utilization] [role=img]');
  await until('its curves', async () => /GPU 0/.test(await curves.getAttribute('aria-label')));
  assert.match(await curves.getAttribute('aria-label'), /^GPU use: GPU 0 \d+ %, GPU 1 \d+ %$/);
  await page.evaluate(() => (location.hash = '#/queue'));
  await page.waitForSelector(`.rows [role=row]:has-text("here") >> text="${host}:0-1"`);
  daemon.divvy('cancel', id, '--grace', '0');
});

test('a gang that includes the controller names each node with its own GPUs only', async () => {
  const host = daemon.json('nodes').find((one) => one.is_controller).name;
  // So that it has GPUs of other numbers here than there.
  const before = daemon.submit('--gpus', '1', '--nodelist', host, '--', 'sleep', '1000');
  await until('its start', () => daemon.json('show', before).state === 'running');
  const id = daemon.submit('--nodes', '2', '--gpus', '1', '--name', 'both', '--nodelist', `${host},n2`, '--', 'sleep', '1000');
  await until('its start', () => daemon.json('show', id).state === 'running');
  assert.deepEqual(daemon.json('show', id).allocations.map((allocation) => [allocation.node, String(allocation.gpus)]), [['', '1'], ['n2', '0']]);
  await page.evaluate((job) => (location.hash = '#/job/' + job), id);
  await page.waitForSelector(`dd:text-is("${host}: 1; n2: 0")`);
  assert.equal(await page.locator(`dt:text-is("GPU UUIDs of ${host}")`).count(), 1);
  await until('its curves', async () => {
    assert.match(await page.locator('[data-metric=gpu_utilization] [role=img]').getAttribute('aria-label'), new RegExp(`^GPU use: GPU ${host}:1 \\d+ %, GPU n2:0 \\d+ %$`));
    return true;
  });
  await until('its ranks', async () => {
    const ranks = await page.locator('[aria-label="Ranks of steps"] .rows [role=row]').evaluateAll((rows) => rows.map((row) => [...row.querySelectorAll('[role=cell]')].slice(1, 3).map((cell) => cell.innerText)));
    assert.deepEqual(ranks, [['0', host], ['1', 'n2']]);
    return true;
  });
  await page.evaluate(() => (location.hash = '#/queue'));
  await page.waitForSelector(`.rows [role=row]:has-text("both") >> text="${host}+1"`);
  await page.evaluate(() => (location.hash = '#/overview'));
  await page.waitForSelector(`.node a.name:text-is("${host}")`);
  daemon.divvy('cancel', id, before, '--grace', '0');
  const array = daemon.submit('--nodelist', host, '--gpus', '1', '--array', '0-1', '--', 'sleep', '1000');
  await page.evaluate((job) => (location.hash = '#/job/' + job), array);
  await page.waitForSelector(`[aria-label=Elements] .rows >> text="${host}:1"`);
  assert.equal(await page.locator('dt:text-is("Allocation")').count(), 0, 'its elements have');
  daemon.divvy('cancel', '--all', '--grace', '0');
});

test('a job on two nodes shows the log of its first node', async () => {
  const id = daemon.submit('--nodes', '2', '--gpus', '2', '--name', 'gang', '--nodelist', 'n1,n2', '--queue-anyway', '--', 'sh', '-c', 'echo on two machines; sleep 1000').trim();
  await until('its start', () => ['running', 'queued'].includes(daemon.json('show', id).state));
  const shown = daemon.json('show', id);
  await page.evaluate((job) => (location.hash = '#/job/' + job), id);
  await page.waitForSelector('h1:has-text("gang")');
  if (shown.state === 'running') {
    await page.waitForSelector('text=/n1: 0-1; n2: 0-1/');
    await page.waitForSelector('pre >> text=on two machines');
  } else {
    await page.waitForSelector('h2:has-text("Why it waits")');
  }
  daemon.divvy('cancel', id, '--grace', '0');
  await page.waitForSelector('.badge:has-text("cancelled")');
});

test('a disconnected node does not show its last values as current', async () => {
  const id = daemon.submit('--gpus', '1', '--nodelist', 'n2', '--name', 'far', '--', 'sleep', '40');
  await until('its start', () => daemon.json('show', id).state === 'running');
  await page.evaluate((job) => (location.hash = '#/job/' + job), id);
  const curve = page.locator('[data-metric=gpu_utilization] [role=img]');
  await until('its use', async () => /^GPU use: now \d+ %$/.test(await curve.getAttribute('aria-label')));
  page.expects.push(/503 .*\/log/);
  daemon.onAgent('n2', 'agent', '--stop');
  await until('its absence', () => node('n2').state === 'away');
  await until('its last use', async () => /^GPU use: last \d+ %$/.test(await curve.getAttribute('aria-label')));
  await page.evaluate(() => (location.hash = '#/nodes'));
  const row = page.locator('[aria-label=GPUs] [role=row]', { has: page.locator('a:text-is("n2")') }).first();
  await until('its GPUs', async () => /\t?–\s+– \/ 79\.6 GiB\s+–\s+–/.test(await row.innerText()));
  // And its line among the events is of no job, so that there is no link to one.
  await page.evaluate(() => (location.hash = '#/events'));
  await page.waitForSelector('.rows >> text="node n2 is away"');
  assert.equal(await page.locator('main a:text-is("")').count(), 0);
  daemon.onAgent('n2', 'agent', '--detach', '--name', 'n2', '--emulate', '4xH100-80GB');
  await until('it to be back', () => node('n2').state === 'up');
  daemon.divvy('cancel', id, '--grace', '0');
});

test('on a phone a second line shows the other columns, and nothing is shown twice', async () => {
  const id = daemon.submit('--gpus', '1', '--nodelist', 'n1', '--array', '0-1%1', '--name', 'parts', '--', 'sleep', '1000');
  await page.evaluate((job) => (location.hash = '#/job/' + job), id);
  await page.waitForSelector('[aria-label=Elements] .rows >> text="n1:0"');
  await page.evaluate(() => (URL.createObjectURL = (blob) => ((window.saved = blob.text()), 'data:,')));
  await page.click('.table:has([aria-label=Elements]) button:text-is("CSV")');
  const lines = parsed(await page.evaluate(() => window.saved));
  assert.deepEqual(lines[0], ['Element', 'State', 'GPUs', 'Started', 'Ran (s)', 'Exit', 'Why']);
  assert.match(lines[1][3], /^\d{4}-\d\d-\d\dT.*Z$/);
  assert.match(lines[1][4], /^\d+$/);
  await page.setViewportSize({ width: 390, height: 844 });
  await page.waitForSelector('[aria-label=Elements] .below:text-matches("^on n1:0 · since ")');
  await page.evaluate(() => (location.hash = '#/nodes/n1'));
  await page.waitForSelector('[aria-label=GPUs] .below');
  const row = page.locator('[aria-label=GPUs] .rows [role=row]').first();
  assert.match(await row.locator('.below').innerText(), /^0 B \/ 40 GiB/);
  assert.equal((await row.innerText()).match(/0 %/g).length, 1);
  await page.setViewportSize({ width: 1280, height: 800 });
  daemon.divvy('cancel', '--all', '--grace', '0');
});

test('the keyboard moves from the filter to the rows, and a GPU links to its node', async () => {
  await page.evaluate(() => (location.hash = '#/nodes'));
  await page.waitForSelector('[aria-label="Filter GPUs"]');
  for (const key of ['ArrowDown', 'Enter']) {
    await page.fill('[aria-label="Filter GPUs"]', 'A100');
    await page.press('[aria-label="Filter GPUs"]', key);
    assert.equal(await page.evaluate(() => document.activeElement.getAttribute('aria-label')), 'GPUs');
    assert.match(await page.locator('[aria-label=GPUs] .rows .at').innerText(), /^n1\s/);
  }
  await page.locator('[aria-label=GPUs] .rows .at a:text-is("0")').click();
  await page.waitForSelector('h1:text-is("n1")');
  assert.deepEqual(page.troubles, []);
});
