// What meets the eye: axes with labels, the newest numbers, tables that fit their width, what is amiss with a job's GPU.
import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';
import { kTimeSteps, mostOfUnit, timeSpace, valueSteps } from '../src/lib/axis.js';
import { Daemon, enter, leave, showView, until } from './world.mjs';

let daemon, browser, page, job;
before(async () => {
  daemon = new Daemon(process.env.DIVVY, '4xH100-80GB', '[teams.vision]\nquota = 2\nusers = ["somebody"]\n').up();
  // Now and then a second without a line.
  job = daemon.submit('--gpus', '2', '--name', 'talks', '--', 'sh', '-c', 'i=0; while [ $i -lt 3000 ]; do i=$((i+1)); echo "{\\"reward\\": $((100+i))}"; sleep 1.7; done');
  daemon.submit('--gpus', '0.5', '--team', 'vision', '--name', 'half', '--', 'sleep', '3000');
  daemon.submit('--gpus', '4', '--name', 'waits', '--', 'sleep', '3000');
  await until('them to run', () => daemon.json('queue').filter((one) => one.state === 'running').length === 2);
  ({ browser, page } = await enter(daemon));
});
after(() => leave(browser, daemon));
const show = (view) => showView(page, view);
const labelOf = (chart) => page.locator(`${chart} [role=img], ${chart}[role=img]`).first().getAttribute('aria-label');

test('each interval of a time axis has a label, and counts have whole steps', () => {
  for (const pixels of [180, 270, 600, 1100]) {
    for (let seconds = 4; seconds < 2 * 365 * 86400; seconds *= 1.13) {
      // As the charts choose it: the least step with room for its labels.
      const step = kTimeSteps.find((one) => (pixels * one) / seconds >= timeSpace(seconds, pixels));
      assert.ok(2 * step <= seconds, `${seconds} s on ${pixels} pixels: two labels, ${step} s apart`);
    }
  }
  assert.ok(valueSteps({ isWhole: true }).every(Number.isInteger));
  assert.ok(valueSteps({}).includes(0.2) && !valueSteps({}).includes(2.5));
  assert.ok(valueSteps({ isBinary: true }).includes(1024));
});

test('a chart of unused GPU memory reaches up to the size of a GPU', () => {
  const [none, some] = [[{ mean: [0, null, 0] }], [{ mean: [0, 0] }, { mean: [0, 5] }]];
  assert.equal(mostOfUnit('bytes', 'gpu_memory_used_bytes', none, [40, 80]), 80);
  assert.equal(mostOfUnit('bytes', 'gpu_memory_used_bytes', some, [40, 80]), null);
  assert.equal(mostOfUnit('bytes', 'gpu_memory_used_bytes', none, []), null);
  assert.equal(mostOfUnit('bytes', 'memory_used_bytes', none, [80]), null);
  assert.equal(mostOfUnit('ratio', 'gpu_utilization', none, [80]), 1);
});

test('reported metrics show their newest value and are drawn without gaps', async () => {
  await show(`job/${job}`);
  await until('the newest number', async () => {
    const newest = (await daemon.ask('GET', '/v1/latest')).jobs.find((one) => one.id === Number(job)).own.reward;
    const shown = Number(/ now (\d+)$/.exec(await labelOf('[data-metric="own.reward"]'))?.[1]);
    return newest > 107 && Math.abs(shown - newest) <= 1;
  });
  // The line's own pixels: between its ends no column is empty.
  const gaps = await page.locator('[data-metric="own.reward"] canvas').evaluate((canvas) => {
    const { width, height } = canvas;
    const data = canvas.getContext('2d').getImageData(0, 0, width, height).data;
    const probe = document.createElement('i');
    probe.style.color = 'var(--line-4)';
    document.body.append(probe);
    const ink = getComputedStyle(probe).color.match(/\d+/g).map(Number);
    probe.remove();
    const drawn = [];
    for (let x = 0; x < width; ++x) {
      for (let y = 0; y < height; ++y) {
        const at = 4 * (y * width + x);
        if (data[at + 3] > 60 && ink.every((value, i) => Math.abs(data[at + i] - value) < 50)) {
          drawn.push(x);
          break;
        }
      }
    }
    return { drawn: drawn.length, gaps: drawn.filter((x, i) => i && x - drawn[i - 1] > 2).length };
  });
  assert.ok(gaps.drawn > 20 && gaps.gaps === 0, JSON.stringify(gaps));
});

test('teams and jobs without a team are shown with their names', async () => {
  await show('teams');
  await until('both', async () => /no team [\d.]+, vision [\d.]+|vision [\d.]+, no team [\d.]+/.test(await labelOf('[aria-label^="GPUs held over time"]')));
});

test("a team's quota is shown beside its usage, as it was at the time", async () => {
  await show('teams');
  await page.locator('select[aria-label="Whose"]').selectOption('vision');
  await until('the lines', async () => /held [\d.]+.*quota 2.*fair share [\d.]+/.test(await labelOf('[aria-label^="GPUs held over time"]')));
  await until('where they are from', async () => (await page.locator('main').innerText()).includes('Quota, limit and fair share are shown as they were at the time.'));
});

test('a shared GPU shows its use', async () => {
  await show('overview');
  await until('the cell to agree', async () => {
    const gpu = daemon.json('gpus').find((one) => one.tenants.length);
    const cell = page.locator(`main .cells a[data-gpu="${gpu.node}:${gpu.index}"]`);
    return (await cell.innerText()).includes(`${gpu.utilisation_percent} %`) && (await cell.innerText()).includes(String(gpu.index));
  });
});

test('the reason of a job uses the room that names and users leave', async () => {
  await show('queue');
  const cut = (column) =>
    page.evaluate((title) => {
      const at = [...document.querySelectorAll('[role=columnheader]')].findIndex((one) => one.textContent.trim() === title);
      const cells = [...document.querySelectorAll('.rows [role=row]')].map((row) => row.children[at]);
      return { widths: cells.map((one) => one.clientWidth), isCut: cells.some((one) => one.scrollWidth > one.clientWidth) };
    }, column);
  await page.waitForSelector('.rows [role=row]');
  for (const width of [1280, 1920]) {
    await page.setViewportSize({ width, height: 800 });
    await until(`the columns at ${width}`, async () => !(await cut('Name')).isCut && !(await cut('User')).isCut && Math.min(...(await cut('Reason')).widths) >= (width === 1280 ? 200 : 500));
  }
  await page.setViewportSize({ width: 1280, height: 800 });
});

test('the hours of usage have row and column titles, also on a phone', async () => {
  await show('usage');
  await page.waitForSelector('.heat tbody td');
  for (const width of [1280, 390]) {
    await page.setViewportSize({ width, height: 800 });
    const over = await page.evaluate(() => {
      const textOf = (one) => {
        const range = document.createRange();
        range.selectNodeContents(one);
        return range.getBoundingClientRect();
      };
      const days = [...document.querySelectorAll('.heat tbody tr')].filter((row) => textOf(row.children[0]).right > row.children[1].getBoundingClientRect().left);
      const hours = [...document.querySelectorAll('.heat thead th')].filter((one) => one.textContent);
      const near = hours.filter((one, i) => i && textOf(hours[i - 1]).right > textOf(one).left);
      return [...days, ...near].map((one) => one.textContent);
    });
    assert.deepEqual(over, [], `at ${width}`);
  }
  await page.setViewportSize({ width: 1280, height: 800 });
});

test('no table needs horizontal scrolling', async () => {
  for (const view of ['queue', 'nodes', 'teams', 'usage', 'notifications', 'events']) {
    await show(view);
    for (const width of [1280, 1024, 768, 480, 390]) {
      await page.setViewportSize({ width, height: 800 });
      await until(`the tables of ${view} to fit ${width}`, () => page.evaluate(() => [...document.querySelectorAll('[role=table]')].every((one) => one.scrollWidth <= one.clientWidth)));
    }
  }
  await page.setViewportSize({ width: 768, height: 800 });
  await show('queue');
  const titles = await page.locator('[role=columnheader]').allInnerTexts();
  for (const title of ['Job', 'Name', 'State', 'GPUs', 'Time']) assert.ok(titles.includes(title), `${title} in ${titles}`);
  await page.setViewportSize({ width: 1280, height: 800 });
});

test('on a phone a second line shows columns that do not fit', async () => {
  await page.setViewportSize({ width: 390, height: 800 });
  const second = (text) => page.locator('.rows [role=row]', { hasText: text }).first().locator('.below').innerText();
  await show('queue');
  const waits = daemon.json('queue').find((one) => one.name === 'waits');
  await until('where it stands', async () => (await second('waits')).startsWith('#1 · ') && (await second('waits')).includes(waits.reason));
  assert.match(await second('talks'), /^on \S*0-1 · 2 GPUs · \d/);
  await show('events');
  await until('the name of a job', async () => (await second('submitted')).length > 3 && /half|talks|waits/.test(await page.locator('.rows .below').allInnerTexts().then((all) => all.join())));
  await show('nodes');
  await until('who has it', async () => /talks of root/.test((await page.locator('[aria-label=GPUs] .below').allInnerTexts()).join()));
  // The menu goes with Escape, and the focus back to its button.
  await page.click('[aria-label="Menu"]');
  await page.waitForSelector('nav >> visible=true');
  await page.keyboard.press('Escape');
  await page.waitForSelector('nav', { state: 'hidden' });
  assert.equal(await page.evaluate(() => document.activeElement.getAttribute('aria-label')), 'Menu');
  await page.setViewportSize({ width: 1280, height: 800 });
});

test('a column title can be clicked anywhere', async () => {
  await show('queue');
  const title = page.locator('[role=columnheader]', { hasText: 'Name' });
  const box = await title.boundingBox();
  await page.mouse.click(box.x + box.width - 4, box.y + box.height / 2);
  assert.equal(await title.getAttribute('aria-sort'), 'ascending');
});

test('an unknown address shows an error', async () => {
  await page.evaluate(() => (location.hash = '#/nosuch'));
  await page.waitForSelector('text=There is no view “nosuch”');
  await show('queue');
  await page.waitForSelector('h1:text-is("Queue")');
  assert.equal(await page.locator('text=There is no view').count(), 0);
});

test("a fault of a job's GPU is shown as in divvy show", async () => {
  const gpu = daemon.json('show', job).gpus[0];
  daemon.divvy('emulate', 'xid', String(gpu), '48');
  await show(`job/${job}`);
  await page.waitForSelector('[data-trouble]');
  const shown = await page.locator('[data-trouble]').innerText();
  const said = daemon.divvy('show', job).split('\n').find((line) => line.startsWith(`GPU ${gpu} `));
  assert.equal(shown.replace(/^GPU \d+: /, ''), said.replace(/^GPU \d+ +/, ''));
  assert.match(shown, /fenced: XID 48/);
  assert.deepEqual(page.troubles, []);
});
