// 1,008 GPUs on 63 machines, a job that runs on each, and 10,000 that wait, half of them held: lists, scrolling, typing and the page's memory.
import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';
import { readFileSync } from 'node:fs';
import { Daemon, leave, openBrowser, openPage, until } from './world.mjs';

const kMachines = 62; // Besides the controller's own, of 16 GPUs each: as many as one emulated machine has.
const kWaiting = 10_000;
const kJobs = kWaiting + kMachines + 1; // One runs on each machine.
let daemon, browser, page;
before(
  async () => {
    const port = 20000 + ((process.pid * 13) % 20000);
    daemon = new Daemon(process.env.DIVVY, '16xH100-80GB', `[controller]\nlisten = "127.0.0.1:${port}"\n[gpus]\npoll = "10s"\n`).up();
    for (let i = 1; i <= kMachines; ++i) daemon.addAgent(`n${String(i).padStart(2, '0')}`, '16xH100-80GB');
    await until('the machines', () => daemon.json('nodes').filter((node) => node.state === 'up').length === kMachines + 1, 200);
    const submit = (spec) => daemon.ask('POST', '/v1/jobs', { spec: { directory: '/tmp', ...spec } });
    for (const node of daemon.json('nodes')) {
      await submit({ command: ['sleep', '3600'], name: 'holds', time_limit: 7200e9, request: { gpus: 1, node_list: [node.name] } });
    }
    await until('what runs', () => daemon.json('status').jobs_running === kMachines + 1, 60);
    // Jobs of their own and not elements of an array, which would be one line. Every other one is held; the others ask for
    // a whole machine, of which none is free.
    for (let i = 0; i < kWaiting; i += 500) {
      await Promise.all(
        Array.from({ length: 500 }, (_, k) => {
          const is_held = k % 2 === 1;
          return submit({ command: ['true'], name: `train-${i + k}`, is_held, request: { gpus: is_held ? ((i + k) % 8) + 1 : 16 } });
        }),
      );
    }
    const counts = daemon.json('status');
    assert.deepEqual([counts.jobs_held, counts.jobs_queued], [kWaiting / 2, kWaiting / 2]);
    browser = await openBrowser();
    page = await openPage(browser);
    await page.goto(daemon.link());
    await page.waitForSelector('[data-tile="Running"]');
  },
  { timeout: 500_000 },
);
after(() => leave(browser, daemon));

test('the overview has a cell for each of 1,008 GPUs', async () => {
  await until('the cells', async () => assert.equal(await page.locator('main .cells a').count(), 16 * (kMachines + 1)) ?? true, 30);
  assert.equal((await page.locator('[data-tile="GPUs in use"] .value').innerText()).replace(/\s+/g, ' '), `${kMachines + 1} of 1008`);
});

// Work is counted, not timed: how many functions of the page run does not depend on what else this machine does.
async function callsOf(work) {
  const session = await page.context().newCDPSession(page);
  await session.send('Profiler.enable');
  await session.send('Profiler.startPreciseCoverage', { callCount: true, detailed: false });
  await work();
  const { result } = await session.send('Profiler.takePreciseCoverage');
  await session.send('Profiler.stopPreciseCoverage');
  await session.detach();
  return result.filter((script) => script.url.endsWith('/app.js')).flatMap((script) => script.functions).reduce((sum, one) => sum + one.ranges[0].count, 0);
}
/** While nobody looks at the page it reads nothing, so that only what the test does is counted. */
const look = (isHidden) =>
  page.evaluate((value) => {
    Object.defineProperty(document, 'hidden', { configurable: true, get: () => value });
    document.dispatchEvent(new Event('visibilitychange'));
  }, isHidden);
/** What an update that was under way adds is in the largest of several counts alone. */
async function leastCallsOf(work) {
  const counts = [];
  for (let i = 0; i < 3; ++i) counts.push(await callsOf(work));
  return Math.min(...counts);
}

const kFrames = 120;
/** Scrolls up and down within `pixels`; the most rows that were drawn at once, and how many were made. */
const scroll = (pixels) =>
  page.evaluate(
    async ([frames, most]) => {
      const box = document.querySelector('[role=table]');
      const found = { rows: 0, made: 0 };
      const observer = new MutationObserver((changes) => {
        for (const change of changes) for (const node of change.addedNodes) found.made += Number(node.role === 'row');
      });
      observer.observe(box.querySelector('.rows'), { childList: true });
      for (let i = 1; i <= frames; ++i) {
        const way = (137 * i) % (2 * most);
        box.scrollTop = way < most ? way : 2 * most - way;
        await new Promise(requestAnimationFrame);
        await new Promise((resolve) => setTimeout(resolve));
        found.rows = Math.max(found.rows, box.querySelectorAll('.rows [role=row]').length);
      }
      observer.disconnect();
      box.scrollTop = 0;
      return found;
    },
    [kFrames, pixels],
  );

test('scrolling 10,000 jobs costs no more than scrolling a few', async () => {
  await page.evaluate(() => (location.hash = '#/queue'));
  await page.waitForSelector('.rows [role=row]');
  const count = page.locator('[role=table]');
  const rows = (wanted) => until(`${wanted} rows`, async () => (await count.getAttribute('aria-rowcount')) === String(wanted + 1), 60);
  await rows(kJobs);
  await look(true);
  // As far as the rows of the few reach.
  const kPixels = 1000;
  let many, few;
  const calls = await leastCallsOf(async () => (many = await scroll(kPixels)));
  const kFew = kMachines + 1;
  await page.click('[role=tab]:has-text("Running")');
  await rows(kFew);
  const callsOfFew = await leastCallsOf(async () => (few = await scroll(kPixels)));
  await page.click('[role=tab]:has-text("All live")');
  await rows(kJobs);
  console.log(`for each frame: ${(calls / kFrames).toFixed(0)} calls with ${kJobs} rows, ${(callsOfFew / kFrames).toFixed(0)} with ${kFew}; rows drawn at once ${many.rows} and ${few.rows}, made ${many.made} and ${few.made}`);
  assert.ok(many.rows > 10 && many.rows < 100, `only the rows in sight are drawn, not ${many.rows}`);
  assert.ok(many.made <= 12 * kFrames, `${many.made} rows were made in ${kFrames} frames`);
  assert.ok(callsOfFew > kFrames, `${callsOfFew} calls were counted`);
  assert.ok(calls < 2 * callsOfFew, `${calls} calls with ${kJobs} rows, ${callsOfFew} with ${kFew}`);
  await page.evaluate(() => (document.querySelector('[role=table]').scrollTop = 1e9));
  await until('the last row', async () => (await page.locator(`.rows [role=row][aria-rowindex="${kJobs + 1}"]`).count()) === 1);
  await look(false);
});

test('the cost of sorting and filtering 10,000 jobs is linear', async () => {
  await look(true);
  const sorted = await callsOf(async () => {
    await page.click('[role=columnheader] button:has-text("Name")');
    await page.waitForSelector('[role=columnheader][aria-sort=ascending]');
  });
  const filtered = await callsOf(async () => {
    await page.fill('[data-filter]', 'train-9999');
    await until('one line', async () => (await page.locator('.rows [role=row]').count()) === 1, 60);
  });
  await look(false);
  console.log(`calls for each row: ${(sorted / kJobs).toFixed(0)} to sort, ${(filtered / kJobs).toFixed(0)} to filter`);
  // Some for each of the about 13 comparisons of a row, and for the text of each column. Work that grows with the square
  // of the number of rows takes thousands.
  assert.ok(sorted > kJobs && sorted < 500 * kJobs, `${sorted} calls`);
  assert.ok(filtered > kJobs && filtered < 500 * kJobs, `${filtered} calls`);
  await page.fill('[data-filter]', '');
});

test('an action on 10,000 jobs shows its progress', async () => {
  await page.check('[role=columnheader] input[type=checkbox]');
  await page.evaluate(() => {
    window.steps = [];
    new MutationObserver(() => {
      const bar = document.querySelector('[data-busy] progress');
      if (bar && bar.max > 1 && bar.value !== window.steps.at(-1)) window.steps.push(bar.value);
    }).observe(document.body, { subtree: true, childList: true, attributes: true, characterData: true });
  });
  await page.click('button:text-is("Priority")');
  await page.fill('dialog input', '-1');
  await page.click('dialog button:has-text("Set")');
  await page.waitForSelector(`text=Done for ${kJobs} jobs.`, { timeout: 120_000 });
  const steps = await page.evaluate(() => window.steps);
  console.log(`priority of ${kJobs} jobs, ${steps.length} steps seen`);
  assert.ok(steps.length >= 5 && steps.every((one, i) => i === 0 || one > steps[i - 1]), JSON.stringify(steps));
  assert.equal(await page.locator('[data-busy]').count(), 0);
  assert.equal(daemon.json('queue').filter((job) => job.priority === -1).length, kJobs);
});

test('the memory of the page does not grow', async () => {
  const session = await page.context().newCDPSession(page);
  const heap = async () => {
    await session.send('HeapProfiler.collectGarbage');
    return (await session.send('Runtime.getHeapUsage')).usedSize / 2 ** 20;
  };
  const before = await heap();
  const ticks = () => {
    const stat = readFileSync(`/proc/${daemon.json('status').pid}/stat`, 'utf8').split(' ');
    return Number(stat[13]) + Number(stat[14]);
  };
  const cpu = ticks();
  // Each time the page reads the whole list anew.
  const kLists = 4;
  let lists = 0;
  const count = (response) => (lists += Number(/\/v1\/jobs\?user=all$/.test(response.url())));
  page.on('response', count);
  await until(`${kLists} lists`, () => lists >= kLists, 300);
  page.off('response', count);
  const after = await heap();
  console.log(`heap ${before.toFixed(0)} MiB, ${after.toFixed(0)} MiB after ${lists} lists; the daemon used ${ticks() - cpu} hundredths of a second of a core`);
  assert.ok(after < 250, `${after} MiB`);
  assert.ok(after < before * 1.3 + 20, `${before} -> ${after} MiB`);
  assert.deepEqual(page.troubles, []);
});
