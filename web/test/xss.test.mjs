// What people and programs write comes into the page as text, wherever it is shown. Each of these would be markup or script
// somewhere; none may run, load or become an element.
import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';
import { Daemon, enter, leave, openPage, showView, until } from './world.mjs';

// A job's name is one line without control characters; a log may be anything.
export const kCases = [
  '<script>window.hit=1</script>',
  '<img src=x onerror="window.hit=1">',
  '<svg/onload=window.hit=1>',
  '"><svg onload=window.hit=1>',
  "'><b onmouseover=window.hit=1>x</b>",
  '</title><script>window.hit=1</script>',
  '</textarea><script>window.hit=1</script>',
  '</pre></section><iframe srcdoc="<script>parent.hit=1</script>"></iframe>',
  'javascript:window.hit=1',
  '<a href="javascript:window.hit=1">x</a>',
  '<style>*{display:none}</style>',
  '<link rel=stylesheet href=http://evil.example/x.css>',
  '<base href=http://evil.example/>',
  '<meta http-equiv=refresh content="0;url=http://evil.example">',
  '<form action=http://evil.example><button>x</button></form>',
  '{@html "<img src=x onerror=window.hit=1>"}',
  '{{constructor.constructor("window.hit=1")()}}',
  '${window.hit=1}',
  '&lt;script&gt;window.hit=1&lt;/script&gt;',
  '\u202egnp.exe\u202c',
  'a\u0000b\u001b]0;title\u0007\u001b[31mred',
  '=HYPERLINK("http://evil.example","x")',
  '__proto__',
  'constructor',
];

let daemon, browser, page;
const kNames = kCases.filter((text) => !/[\u0000-\u001f]/.test(text));
before(async () => {
  daemon = new Daemon(process.env.DIVVY, '4xH100-80GB').up();
  ({ browser, page } = await enter(daemon));
});
after(() => leave(browser, daemon));
const show = (view) => showView(page, view);
async function check(where) {
  assert.equal(await page.evaluate(() => window.hit), undefined, where);
  assert.equal(await page.locator('main iframe, main script, main style, main base, main form[action], main img, main object, main embed, main [onerror], main [onload], main [onmouseover]').count(), 0, where);
  assert.equal(await page.evaluate(() => [...document.querySelectorAll('a[href]')].filter((link) => link.protocol !== 'http:').length), 0, where);
  assert.equal(await page.evaluate(() => Object.keys(Object.prototype).length), 0);
  assert.deepEqual(page.troubles, [], where);
}

test('names, comments, projects, reasons and directories are escaped', async () => {
  const refused = [];
  for (const text of kNames) {
    for (const words of [['--name', text], ['--comment', text], ['--project', text], ['--output', `${daemon.home}/${text.replaceAll('/', '_')}`], ['--env', `X=${text}`], ['--account', text], ['--group', text.slice(0, 60)]]) {
      try {
        daemon.submit('--gpus', '1', '--hold', ...words, '--', 'echo', text);
      } catch {
        refused.push(`${words[0]} ${text}`);
      }
    }
  }
  console.log(`${refused.length} of ${kNames.length * 7} refused at the submission`);
  const jobs = daemon.json('queue');
  assert.ok(jobs.length > 50);
  for (const view of ['overview', 'queue', 'events', 'nodes', 'teams', 'usage']) {
    await show(view);
    if (view === 'queue') await until('all lines', async () => (await page.locator('[role=table]').getAttribute('aria-rowcount')) === String(jobs.length + 1));
    await check(view);
  }
  await show('queue');
  await page.fill('[data-filter]', 'onerror');
  await page.waitForSelector(`text="${'<img src=x onerror="window.hit=1">'.replaceAll('"', '\\"')}"`);
  await page.fill('[data-filter]', '');
  for (const text of kNames) {
    const job = jobs.find((one) => one.name === text);
    if (!job) continue;
    await show(`job/${job.id}`);
    await page.waitForSelector('h2:has-text("Facts")');
    assert.ok((await page.locator('main h1').innerText()).replace(/\s+/g, ' ').includes(text.replace(/\s+/g, ' ')), text);
    await check(`job named ${text}`);
  }
  for (const job of jobs.filter((one) => one.comment || one.project).slice(0, 12)) {
    await show(`job/${job.id}`);
    await page.waitForSelector('h2:has-text("Facts")');
    await check(`job with comment ${job.comment} ${job.project}`);
  }
});

test('environments and the job name beside them are escaped', async () => {
  const id = daemon.submit('--gpus', '0', '--hold', ...kNames.flatMap((text, i) => ['--env', `CASE_${i}=${text}`]), '--', 'true');
  await show(`job/${id}`);
  await page.click('[data-environment] summary');
  await page.fill('[data-environment] [data-filter]', 'case_');
  await until('all of them', async () => (await page.locator('[data-environment] [role=table]').getAttribute('aria-rowcount')) === String(kNames.length + 1));
  const shown = new Set();
  for (let at = 0; at <= kNames.length * 31; at += 150) {
    await page.locator('[data-environment] .scroll').evaluate((box, to) => (box.scrollTop = to), at);
    await page.waitForTimeout(60);
    for (const text of await page.locator('[data-environment] .rows [role=row] [role=cell]:nth-child(2)').allInnerTexts()) shown.add(text);
  }
  for (const text of kNames) assert.ok([...shown].some((one) => one.replace(/\s+/g, ' ') === text.replace(/\s+/g, ' ')), text);
  await check('environment');
});

test('names and values of reported metrics are escaped', async () => {
  const path = `${daemon.home}/metrics`;
  const { writeFileSync } = await import('node:fs');
  const lines = kCases.flatMap((text, i) => [JSON.stringify({ step: i, [text]: i, good_one: i, text }), JSON.stringify({ step: i, [`a ${text}`]: 0.5 })]);
  writeFileSync(path, lines.join('\n') + '\n');
  const id = daemon.submit('--gpus', '0', '--', 'sh', '-c', `cat ${path}; sleep 2; cat ${path}; sleep 1000`);
  await show(`job/${id}`);
  await page.waitForSelector('[data-metric="own.good_one"]');
  console.log(`own metrics shown: ${(await page.locator('[data-metric^="own."]').count())}`);
  await check('own metrics');
  // And where a daemon would let any name through.
  const wild = await openPage(browser);
  await wild.route(/\/v1\/series/, (route) => route.fulfill({ json: { step_s: 1, begin: 1_800_000_000, series: kCases.map((text) => ({ of: 'job', metric: `own.${text}`, unit: text, mean: [1, 2, 3] })) } }));
  await wild.goto(daemon.link());
  await wild.waitForSelector('[data-tile="Running"]');
  await wild.evaluate((job) => (location.hash = '#/job/' + job), id);
  await until('their charts', async () => (await wild.locator('[data-metric]').count()) === kCases.length);
  const usual = page;
  page = wild;
  await check('any metrics');
  page = usual;
  await wild.close();
  daemon.divvy('cancel', id, '--grace', '0');
});

test('receivers of notifications and their errors are escaped', async () => {
  const wild = await openPage(browser);
  const receivers = kCases.map((text) => ({ name: text, user: text, events: text, channel: text, target: text, failure: text, waiting: 1, next_try: 1, last_success: 1, may_be_removed: true }));
  await wild.route(/\/v1\/notify/, (route) => route.fulfill({ json: { is_on: true, receivers } }));
  await wild.goto(daemon.link());
  await wild.waitForSelector('[data-tile="Running"]');
  await showView(wild, 'notifications');
  await until('all of them', async () => (await wild.locator('[aria-label="Receivers"]').getAttribute('aria-rowcount')) === String(kCases.length + 1));
  const usual = page;
  page = wild;
  await check('receivers');
  page = usual;
  await wild.close();
});

test('waste notes are escaped', async () => {
  const wild = await openPage(browser);
  const jobs = daemon.json('queue').slice(0, kCases.length);
  const waste = { time: 1, is_on: true, wasted_gpus: 3, jobs: jobs.map((job, i) => ({ id: job.id, display_id: kCases[i], name: kCases[i], user: kCases[i], team: kCases[i], wasted_gpus: 1, lost_gpu_hours: 1, findings: [{ kind: kCases[i], since: 1, gpus: 1, text: kCases[i], remedy: kCases[i] }] })) };
  await wild.route(/\/v1\/waste/, (route) => route.fulfill({ json: waste }));
  await wild.goto(daemon.link());
  await wild.waitForSelector('[data-wasted]');
  const usual = page;
  page = wild;
  for (const view of ['overview', 'queue', 'usage', `job/${jobs[0].id}`, `job/${jobs[1].id}`]) {
    await show(view);
    await page.waitForSelector('[data-waste], [data-wasted]');
    await check(`waste at ${view}`);
  }
  page = usual;
  await wild.close();
});

test('all texts and errors of a valohai.yaml are escaped', async () => {
  const quote = JSON.stringify;
  const usable = kNames.filter((text) => !/[{}$]/.test(text));
  const yaml = usable
    .map((text, i) => `- step:\n    name: ${quote(`${text} ${i}`)}\n    image: ${quote(text)}\n    description: ${quote(text)}\n    command: ${quote(`echo ${text}`)}\n    environment-variables:\n      - {name: ${quote(`V${i}`)}, default: ${quote(text)}}\n    parameters:\n      - {name: ${quote(`p ${text}`)}, default: ${quote(text)}, choices: [${quote(text)}, other], description: ${quote(text)}}\n      - {name: ${quote(`q ${text}`)}, default: ${quote(text)}}\n    inputs:\n      - {name: ${quote(`i${i}`)}, default: ${quote(text)}, description: ${quote(text)}, optional: true}\n`)
    .join('');
  await show('submit');
  await page.check('input[value=valohai]');
  await page.fill('[data-field=yaml]', yaml);
  await page.waitForSelector('[data-field=step], [data-problems]');
  const steps = await page.locator('[data-field=step] option').evaluateAll((all) => all.map((one) => one.value));
  console.log(`${steps.length} of ${usable.length} steps read`);
  for (const step of steps) {
    await page.selectOption('[data-field=step]', step);
    await page.waitForTimeout(30);
    await check(`step ${step}`);
  }
  for (const text of kNames) {
    await page.fill('[data-field=yaml]', `- step:\n    name: x\n    ${quote(text)}: 1\n    command: ${quote(text)}\n- ${quote(text)}: {}\n`);
    await page.waitForSelector('[data-problems]');
    await check(`problems with ${text}`);
  }
});

test('logs with any bytes are escaped', async () => {
  const path = `${daemon.home}/bytes`;
  const { writeFileSync } = await import('node:fs');
  writeFileSync(path, Buffer.concat([Buffer.from(kCases.join('\n') + '\n'), Buffer.from(Array.from({ length: 256 }, (_, i) => i)), Buffer.from('\n\xff\xfe broken utf-8 \xc3\n', 'latin1'), Buffer.from('x'.repeat(200_000) + '\nlast line\n')]));
  const id = daemon.submit('--gpus', '1', '--', 'sh', '-c', `cat ${path}; sleep 1000`);
  await show(`job/${id}`);
  await page.waitForSelector('pre >> text=last line');
  const text = await page.locator('pre').first().innerText();
  for (const one of kCases.filter((one) => !/[\u0000-\u001f]/.test(one))) assert.ok(text.includes(one), one);
  assert.ok(!/[\u0000-\u0008\u001b]/.test(text));
  await check('log');
  daemon.divvy('cancel', id, '--grace', '0');
});

test('the part of an address after # is escaped', async () => {
  page.expects.push(/404/, /400/);
  for (const text of kNames) {
    await page.evaluate((name) => (location.hash = '#/job/' + encodeURIComponent(name)), text);
    await page.waitForSelector('main h1');
    await page.evaluate((name) => (location.hash = '#/nodes/' + encodeURIComponent(name)), text);
    await page.waitForSelector('main h1');
    await page.evaluate((name) => (location.hash = '#/' + name), text);
    await page.waitForTimeout(20);
    await check(`address ${text}`);
  }
  await page.evaluate(() => (location.hash = '#/job/%E0%A4%A'));
  await page.waitForSelector('main h1');
  await check('a broken address');
});

test('a CSV file contains no formulas', async () => {
  await show('queue');
  await page.fill('[data-filter]', 'hyperlink');
  await page.waitForSelector('.rows [role=row]');
  const [file] = await Promise.all([page.waitForEvent('download'), page.click('button:has-text("CSV")')]);
  const { readFileSync } = await import('node:fs');
  const text = readFileSync(await file.path(), 'utf8');
  assert.ok(!/(^|,)"?=/.test(text), text);
  assert.ok(text.includes("'=HYPERLINK"), text);
  await page.fill('[data-filter]', '');
});

test('malformed API answers do not break the page', async () => {
  // As a fuzzed daemon would answer: wrong types, missing and huge fields.
  const wild = [null, 'text', -1, 1e308, [], {}, '<img src=x onerror=window.hit=1>', [[[]]], true];
  let seed = 7;
  const next = () => (seed = (seed * 1103515245 + 12345) % 2147483648) / 2147483648;
  const spoil = (value, depth = 0) => {
    if (depth > 0 && next() < 0.12) return wild[Math.floor(next() * wild.length)];
    if (Array.isArray(value)) return value.map((one) => spoil(one, depth + 1));
    if (value && typeof value === 'object') return Object.fromEntries(Object.entries(value).filter(() => next() > 0.05).map(([key, one]) => [key, spoil(one, depth + 1)]));
    return value;
  };
  const fuzzed = await openPage(browser);
  fuzzed.expects.push(/.*/);
  let hits = 0;
  await fuzzed.goto(daemon.link());
  await fuzzed.waitForSelector('[data-tile="Running"]');
  await fuzzed.route(/\/v1\/(jobs|gpus|nodes|teams|status|reports|pools|reservations|waste|series|valohai|notify)/, async (route) => {
    const response = await route.fetch();
    const type = response.headers()['content-type'] ?? '';
    if (!type.includes('json')) return route.fulfill({ response });
    ++hits;
    return route.fulfill({ response, body: JSON.stringify(spoil(await response.json())) });
  });
  for (let round = 0; round < 3; ++round) {
    for (const view of ['overview', 'queue', 'nodes', 'teams', 'usage', 'events', 'submit', 'whatif', 'notifications', 'job/1']) {
      await fuzzed.evaluate((name) => (location.hash = '#/' + name), view);
      await fuzzed.waitForTimeout(250);
      if (view === 'submit' && (await fuzzed.locator('input[value=valohai]').count())) {
        await fuzzed.check('input[value=valohai]', { timeout: 1000 }).catch(() => {});
        await fuzzed.fill('[data-field=yaml]', '- step:\n    name: a\n    image: b\n    command: c\n    parameters: [{name: p, default: "1"}]\n', { timeout: 1000 }).catch(() => {});
        await fuzzed.waitForTimeout(400);
      }
      if (view === 'job/1') {
        await fuzzed.click('[data-environment] summary', { timeout: 500 }).catch(() => {});
        await fuzzed.waitForTimeout(200);
      }
      assert.equal(await fuzzed.evaluate(() => window.hit), undefined);
      assert.equal(await fuzzed.locator('nav').count(), 1, `the menu is gone at ${view}`);
    }
  }
  assert.ok(hits > 20, String(hits));
  await fuzzed.unroute(/\/v1\//);
  await fuzzed.unrouteAll();
  // And with good answers again it is well again, without a reload.
  await fuzzed.evaluate(() => (location.hash = '#/overview'));
  await fuzzed.waitForSelector('[data-tile="Running"]');
  await until('the numbers', async () => (await fuzzed.locator('[data-tile="Waiting"] .value').innerText()).trim() === String(daemon.json('status').jobs_queued));
});
