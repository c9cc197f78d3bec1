// Every view on a daemon at work: what it shows is what the command line says, and what is done there is done.
import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { after, before, test } from 'node:test';
import { Daemon, enter, home, leave, openPage, showFreshSubmit, showView, until } from './world.mjs';

let daemon, browser, page;
before(async () => {
  daemon = new Daemon(process.env.DIVVY, '8xH100-80GB', '[teams.vision]\nquota = 4\nusers = ["root"]\n[teams.speech]\nquota = 2\n').up();
  ({ browser, page } = await enter(daemon));
});
after(() => leave(browser, daemon));
const show = (view) => showView(page, view);
const tile = async (name) => (await page.locator(`[data-tile="${name}"] .value`).innerText()).replace(/\s+/g, ' ').trim();
const row = (text) => page.locator('[role=row]', { has: page.locator(`text="${text}"`) }).first();
const confirm = (text) => page.click(`dialog button:has-text("${text}")`);
const stateOf = (id) => daemon.json('show', id).state;

test('the overview matches divvy status and divvy gpus', async () => {
  daemon.submit('--gpus', '2', '--name', 'one', '--', 'sleep', '1000');
  daemon.submit('--gpus', '3', '--name', 'two', '--', 'sleep', '1000');
  daemon.submit('--gpus', '8', '--preemptible', 'requeue', '--name', 'three', '--time', '1h', '--', 'sleep', '1000');
  daemon.submit('--gpus', '1', '--name', 'four', '--hold', '--', 'sleep', '1000');
  daemon.submit('--gpus', '4', '--array', '0-9', '--name', 'five', '--', 'sleep', '1000');
  await show('overview');
  await until('the numbers to agree', async () => {
    const status = daemon.json('status');
    const gpus = daemon.json('gpus');
    const allocated = gpus.filter((gpu) => gpu.state === 'allocated').length;
    assert.equal(await tile('GPUs in use'), `${allocated} of ${status.gpus}`);
    assert.equal(await tile('Running'), String(status.jobs_running));
    assert.equal(await tile('Waiting'), String(status.jobs_queued));
    assert.ok((await page.locator('[data-tile="Waiting"]').innerText()).includes(`and ${status.jobs_held} held`));
    assert.equal(await page.locator('main .cells a.allocated').count(), allocated);
    assert.equal(await page.locator('main .cells a').count(), gpus.length);
    return true;
  });
});

test('each line of the queue matches divvy queue', async () => {
  await show('queue');
  await page.waitForSelector('text="three"');
  await until('the lines to agree', async () => {
    for (const job of daemon.json('queue')) {
      const line = page.locator('[role=row]', { has: page.locator(`a:text-is("${job.display_id}")`) });
      const text = await line.innerText({ timeout: 500 });
      for (const piece of [job.name, job.user, job.state, String(job.request.gpus)]) assert.ok(text.includes(piece), `${job.display_id}: '${piece}' is not in '${text}'`);
      if (job.position) assert.ok(text.split('\n').includes(String(job.position)), `position ${job.position} of ${job.display_id} in ${text}`);
      if (['queued', 'held'].includes(job.state)) assert.ok(text.includes(job.reason), `${job.reason} in ${text}`);
    }
    assert.equal(await page.locator('.rows [role=row]').count(), daemon.json('queue').length);
    return true;
  });
});

test('the queue can be sorted, filtered and exported', async () => {
  await page.click('[role=columnheader] button:has-text("GPUs")');
  assert.equal(await page.locator('[role=columnheader]:has-text("GPUs")').getAttribute('aria-sort'), 'descending');
  assert.ok((await page.locator('.rows [role=row]').first().innerText()).includes('three'));
  await page.click('[role=columnheader] button:has-text("GPUs")');
  assert.equal(await page.locator('[role=columnheader]:has-text("GPUs")').getAttribute('aria-sort'), 'ascending');
  await page.click('[role=columnheader] button:has-text("GPUs")');
  await page.keyboard.press('Escape');
  await page.evaluate(() => document.activeElement.blur());
  await page.keyboard.press('/');
  await page.keyboard.type('held four');
  await until('one line', async () => (await page.locator('.rows [role=row]').count()) === 1);
  const [file] = await Promise.all([page.waitForEvent('download'), page.click('button:has-text("CSV")')]);
  const lines = readFileSync(await file.path(), 'utf8').trim().split('\r\n');
  assert.equal(lines.length, 2);
  assert.ok(lines[0].startsWith('#,Job,Name,User,State,GPUs'), lines[0]);
  assert.ok(lines[1].includes('four,'), lines[1]);
  await page.fill('[data-filter]', 'no such job');
  await page.waitForSelector('text=No jobs match the filter');
  await page.fill('[data-filter]', '');
});

test('selected jobs can be held, released, reprioritized and cancelled', async () => {
  const id = String(daemon.json('queue').find((job) => job.name === 'three').id);
  await row('three').locator('input[type=checkbox]').check();
  await page.click('button:text-is("Hold")');
  await until('held', () => stateOf(id) === 'held');
  await until('shown as held', async () => (await row('three').innerText()).includes('held'));
  await row('three').locator('input[type=checkbox]').check();
  await page.click('button:text-is("Release")');
  await until('released', () => stateOf(id) === 'queued');
  await row('three').locator('input[type=checkbox]').check();
  await page.click('button:text-is("Priority")');
  await page.fill('dialog input', '7');
  await confirm('Set');
  await until('its priority', () => daemon.json('show', id).priority === 7);
  await row('three').locator('input[type=checkbox]').check();
  await page.click('button:text-is("Cancel")');
  await confirm('Keep it');
  assert.equal(stateOf(id), 'queued');
  await row('three').locator('input[type=checkbox]').check();
  if (!(await row('three').locator('input[type=checkbox]').isChecked())) await row('three').locator('input[type=checkbox]').check();
  await page.click('button:text-is("Cancel")');
  await confirm('Cancel it');
  await until('cancelled', () => stateOf(id) === 'cancelled');
  await page.waitForSelector('.rows >> text="three"', { state: 'detached' });
  await page.click('[role=tab]:has-text("Ended")');
  await page.waitForSelector('.rows >> text="three"');
  await page.click('[role=tab]:has-text("All live")');
});

test('the queue can be used with the keyboard', async () => {
  await show('overview');
  await page.keyboard.press('g');
  await page.keyboard.press('q');
  await page.waitForSelector('h1:has-text("Queue")');
  // Who goes on by the keyboard is in the view.
  await until('the focus', () => page.evaluate(() => document.activeElement.id === 'main' && document.activeElement.getAttribute('aria-label') === 'Queue'));
  await page.focus('[role=table]');
  await page.keyboard.press('ArrowDown');
  await page.keyboard.press('ArrowDown');
  // The row is told to who hears the page.
  const second = await page.locator('.rows [role=row]').nth(1).locator('a').first().innerText();
  assert.match(await page.locator('[data-spoken]').innerText(), new RegExp(`^Row 2 of \\d+: .*Job ${second}, Name `));
  await page.keyboard.press('Enter');
  await page.waitForSelector('h2:has-text("Facts")');
  await page.goBack();
  await page.waitForSelector('h1:has-text("Queue")');
  await page.keyboard.press('?');
  await page.waitForSelector('dialog[open] >> text=Filter the table');
  await page.click('dialog[open] button:has-text("Close")');
});

test('the reason for waiting matches divvy why', async () => {
  const job = daemon.json('queue').find((one) => one.name === 'five' && one.state === 'queued');
  await show(`job/${job.id}`);
  const why = daemon.json('why', String(job.id));
  await page.waitForSelector('h2:has-text("Why it waits")');
  await until('its words', async () => (await page.locator('.why').innerText()).includes(why.summary));
  if (why.command) assert.ok((await page.locator('.why').innerText()).includes(why.command));
});

test('a job shows its live log, progress and end, and can be submitted again', async () => {
  const id = daemon.submit('--gpus', '1', '--name', 'talks', '--', 'sh', '-c', `echo first line; ${daemon.binary} progress 0.25; until [ -e go ]; do sleep 0.05; done; echo second line; echo a fault >&2; exit 3`);
  await show(`job/${id}`);
  await page.waitForSelector('pre >> text=first line');
  await page.waitForSelector('text=25 %');
  daemon.divvy('run', '--gpus', '0', '--', 'touch', `${daemon.home}/go`);
  await page.waitForSelector('pre >> text=second line');
  await page.waitForSelector('.badge:has-text("failed")');
  const shown = daemon.json('show', id);
  assert.equal(shown.exit_code, 3);
  await until('its exit code', async () => (await page.locator('.facts').first().innerText()).includes('Exit code\n3'));
  for (const line of shown.history) {
    const words = line.replace(/^\S+ \S+\s+/, '').split(':')[0];
    assert.ok((await page.locator('.timeline').innerText()).includes(words), `'${words}' in the timeline`);
  }
  await page.click('text=Submit a copy');
  await page.waitForSelector('[data-field=command]');
  await until('the form', async () => (await page.inputValue('[data-field=command]')).includes('echo first line'));
  assert.equal(await page.inputValue('[data-field=name]'), 'talks');
});

test('charts exist for all GPUs, a node, a job and its reported metrics', async () => {
  const text = 'i=0; while [ $i -lt 600 ]; do i=$((i+1)); echo "{\\"step\\": $i, \\"loss\\": $((100-i))}"; sleep 0.2; done';
  const id = daemon.submit('--gpus', '1', '--name', 'learns', '--', 'sh', '-c', text);
  await show(`job/${id}`);
  await page.waitForSelector('[data-metric="own.loss"] canvas');
  await page.waitForSelector('[data-metric="gpu_utilization"] canvas');
  const said = JSON.parse(daemon.divvy('logs', '-n', '1', id).trim()).loss;
  await until('its loss', async () => {
    const label = await page.locator('[data-metric="own.loss"] [role=img]').getAttribute('aria-label');
    // What it said last, and no mean of some seconds.
    const shown = Number(/now (\S+)/.exec(label)[1]);
    return Number.isInteger(shown) && shown <= said + 1 && shown > said - 60;
  });
  daemon.divvy('emulate', 'utilisation', '0', '77');
  await show('overview');
  await page.waitForSelector('h2:has-text("GPUs over time")');
  await page.waitForSelector('.chart canvas');
  await until('what is allocated', async () => {
    const allocated = daemon.json('gpus').filter((gpu) => gpu.state === 'allocated').length;
    return (await page.locator('.chart').first().getAttribute('aria-label')).includes(`allocated ${allocated}`);
  });
  await show('nodes');
  await page.waitForSelector('[aria-label^="GPUs over time"]');
  await until('the use of GPU 0', async () => (await page.locator('[aria-label^="GPUs over time"]').getAttribute('aria-label')).includes('GPU 0 77 %'));
  await page.selectOption('[aria-label="What: GPUs over time"]', 'gpu_power_watts');
  await until('power', async () => /GPU 0 \d+ W/.test(await page.locator('[aria-label^="GPUs over time"]').getAttribute('aria-label')));
  daemon.divvy('cancel', id, '--grace', '0');
});

test('submit shows where the job would fit, and submits it', async () => {
  await showFreshSubmit(page);
  await page.fill('[data-field=command]', "sh -c 'echo \"two words\"; sleep 1000'");
  await page.fill('[data-field=name]', 'from-the-page');
  await page.fill('[data-field=gpus]', '99');
  await page.waitForSelector('[data-preview] >> text=/99 GPUs/');
  assert.ok(await page.locator('[data-preview] .notice.bad').count());
  await page.fill('[data-field=gpus]', '1');
  await page.fill('[data-field=hours]', '2');
  await page.waitForSelector('[data-preview] >> text=/1 GPU.*2 h/');
  await page.waitForSelector('[data-preview] dd.big:has-text("now")');
  await page.waitForSelector('[data-line=ready]');
  const line = await page.locator('[data-preview] pre').innerText();
  assert.equal(line, `divvy submit --gpus 1 --time 2h --name from-the-page --chdir ${home} -- sh -c 'echo "two words"; sleep 1000'`);
  await page.click('[data-submit]');
  await page.waitForSelector('h1:has-text("from-the-page")');
  const job = daemon.json('queue').find((one) => one.name === 'from-the-page');
  assert.equal(job.request.gpus, 1);
  assert.equal(job.request.time_limit_s, 7200);
  await page.waitForSelector('pre >> text=two words');
  await page.click('button:text-is("Cancel")');
  await confirm('Cancel it');
  await until('its end', () => stateOf(String(job.id)) === 'cancelled');
});

test('the command line that submit shows is read back unchanged', async () => {
  await showFreshSubmit(page);
  await page.fill('[data-field=command]', 'true');
  await page.fill('[data-field=gpus]', '2');
  await page.selectOption('[data-field=part]', 'part');
  await page.click('summary');
  await page.fill('input[placeholder="0-99"]', '0-4');
  await page.fill('label:has-text("Elements at once") input', '2');
  await page.fill('label:has-text("Priority") input', '-3');
  await page.fill('label:has-text("Retries") input', '2');
  await page.fill('label:has-text("Environment") textarea', 'A=one two\nB=3');
  await page.check('text=Submit held');
  await page.waitForSelector('[data-line=ready]');
  const line = await page.locator('[data-preview] pre').innerText();
  await page.click('[data-submit]');
  await page.waitForSelector('h2:has-text("Facts")');
  const { execFileSync } = await import('node:child_process');
  const id = execFileSync('sh', ['-c', line.replace(/^divvy submit/, '"$DIVVY" submit --quiet')], { env: { ...daemon.environment, DIVVY: daemon.binary }, cwd: daemon.home, encoding: 'utf8' }).trim();
  const strip = ({ id: _, display_id, submit_time, eligible_time, directory, output, history, position, array_id, name, reason, ...rest }) => rest;
  const ids = daemon.json('queue').filter((job) => job.name === 'true').map((job) => String(job.id));
  assert.equal(ids.length, 2);
  assert.ok(ids.includes(id));
  assert.deepEqual(strip(daemon.json('show', ids[0])), strip(daemon.json('show', ids[1])));
  daemon.divvy('cancel', ...ids);
});

test('nodes show GPUs as divvy gpus does, and GPUs can be restricted', async () => {
  await show('nodes');
  await page.waitForSelector('h2:has-text("GPU links")');
  await until('the GPUs to agree', async () => {
    for (const gpu of daemon.json('gpus')) {
      const text = await page.locator('.rows [role=row]').nth(gpu.index).innerText();
      for (const piece of [String(gpu.index), gpu.state, ...gpu.job_display_ids]) assert.ok(text.includes(piece), `${piece} in ${text}`);
    }
    return true;
  });
  await page.click('button:has-text("Restrict GPUs")');
  await page.fill('dialog input', '0-5');
  await confirm('Set');
  await until('the restriction', () => daemon.json('gpus').filter((gpu) => gpu.state === 'restricted' || /restrict/.test(gpu.reason)).length > 0 || daemon.json('nodes')[0].gpus_restricted.length === 2);
  await page.waitForSelector('text=/Closed for new work: GPUs 6-7/');
  // What is no GPU is refused in the words of the command line.
  const refusal = (() => {
    try {
      return daemon.divvy('gpus', 'restrict', '0-9');
    } catch (error) {
      return error.stderr.trim().split('\n')[0].replace(/^divvy: /, '');
    }
  })();
  page.expects.push(/400 .*\/v1\/gpus\/restrict/);
  assert.match(refusal, /there is no GPU 8; this server has 8 GPUs, 0 to 7/);
  for (const [text, words] of [['0-99', 'there is no GPU 8; this server has 8 GPUs, 0 to 7'], ['first', '“first” is no list of GPUs']]) {
    await page.click('button:has-text("Restrict GPUs")');
    await page.fill('dialog input', text);
    await confirm('Set');
    // The question stays, so that it can be mended there.
    await page.waitForSelector(`dialog [role=alert]:has-text("${words}")`);
    await page.click('dialog button:text-is("Back")');
  }
  await page.click('button:has-text("Restrict GPUs")');
  await page.fill('dialog input', 'all');
  await confirm('Set');
  await until('its end', () => daemon.json('nodes')[0].gpus_restricted.length === 0);
  // This machine has no agent to drain.
  assert.equal(await page.locator('button:text-is("Drain")').count(), 0);
});

test('teams match divvy teams', async () => {
  await show('teams');
  await page.waitForSelector('text="vision"');
  await until('the numbers to agree', async () => {
    const said = daemon.json('teams');
    for (const team of said.teams) {
      const cells = await row(team.name).locator('[role=cell]').allInnerTexts();
      assert.equal(cells[2], String(team.quota), JSON.stringify(cells));
      assert.ok(cells[1].includes(String(team.gpus)), JSON.stringify(cells));
    }
    const user = said.users[0];
    const cells = await page.locator('[aria-label=Users] .rows [role=row]').first().locator('[role=cell]').allInnerTexts();
    assert.deepEqual([cells[0], cells[2], cells[3], cells[4]], [user.name, String(user.running), String(user.queued), String(user.gpus)]);
    return true;
  });
});

test('usage matches divvy report', async () => {
  await show('usage');
  await page.waitForSelector('text=GPU-hours held');
  await page.waitForSelector('[aria-label="GPU-hours by user"] .rows [role=row]');
  await page.click('[aria-label="By what"] button:text-is("name")');
  await page.waitForSelector('[aria-label="GPU-hours by name"] .rows [role=row]');
  const said = daemon.json('report', 'usage', '--by', 'name');
  const lines = await page.locator('[aria-label="GPU-hours by name"] .rows [role=row]').allInnerTexts();
  assert.equal(lines.length, said.rows.length);
  for (const row of said.rows) {
    const cells = lines.find((line) => line.split('\n')[0] === row.group)?.split('\n') ?? [];
    assert.ok(cells.includes(String(row.jobs)), `${row.jobs} jobs of ${row.group} in ${cells}`);
    // What runs still goes on between the two looks.
    const shown = Number(cells.find((cell) => /^\d/.test(cell))?.replace(',', ''));
    assert.ok(Math.abs(shown - row.gpu_hours) < 0.1, `${shown} shown, ${row.gpu_hours} said of ${row.group}`);
  }
  const fair = daemon.json('report', 'fairness');
  assert.equal(await page.locator('[aria-label="Waiting by user"] .rows [role=row]').count(), fair.rows.length);
  assert.ok((await page.locator('[aria-label="Failed jobs"]').innerText()).includes('talks'));
  assert.equal(await page.locator('.heat tbody tr').count() >= 7, true);
  // Of a long time a row for each weekday, in the mean.
  await page.click('button:text-is("90 d")');
  await until('the weekdays', async () => (await page.locator('.heat tbody th').allInnerTexts()).join() === 'Monday,Tuesday,Wednesday,Thursday,Friday,Saturday,Sunday');
  // Where hours of UTC begin at half past, so do the cells.
  const other = await openPage(browser, { timezoneId: 'Asia/Kolkata' });
  await other.goto(daemon.link());
  await other.waitForSelector('[data-tile="Running"]');
  await showView(other, 'usage');
  await other.waitForSelector('.heat tbody td');
  assert.equal((await other.locator('.heat thead th').allInnerTexts())[3], '03:30');
  assert.match(await other.locator('.heat tbody tr').nth(1).locator('td').nth(5).getAttribute('title'), /, 05:30 to 06:30: /);
  await other.context().close();
});

test('what-if runs the simulator on the history of this cluster, as a job', async () => {
  await show('whatif');
  await page.fill('[data-field=more]', '8');
  await page.click('[data-run]');
  await page.waitForSelector('[aria-label=Policies] .rows [role=row]');
  const job = daemon.json('queue', '--all').find((one) => one.name === 'what-if');
  assert.equal(job.request.gpus, 0);
  const said = JSON.parse(daemon.divvy('logs', String(job.id)));
  const lines = await page.locator('[aria-label=Policies] .rows [role=row]').allInnerTexts();
  assert.equal(lines.length, said.runs.length);
  assert.ok(said.runs.some((run) => run.gpus === 16));
  for (const run of said.runs) assert.ok(lines.some((line) => line.includes(run.policy) && line.includes(String(run.gpus))), run.policy);
  // It is there after a new login, as of then, and where the address is spelt as people do.
  const other = await openPage(browser);
  await other.goto(daemon.link());
  await other.waitForSelector('[data-tile="Running"]');
  await showView(other, 'what-if');
  await other.waitForSelector('[aria-label=Policies] .rows [role=row]');
  assert.match(await other.locator('[data-of]').innerText(), new RegExp(`, job ${job.id}\\.$`));
  assert.equal(await other.locator('.astray').count(), 0);
  assert.equal(await other.locator('nav [aria-current=page]').innerText(), await page.locator('nav [aria-current=page]').innerText());
  assert.deepEqual(other.troubles, []);
  await other.context().close();
});

test('events are shown live', async () => {
  await show('events');
  const id = daemon.submit('--gpus', '0', '--name', 'an-event', '--', 'true');
  await page.waitForSelector(`.rows >> text="${id}"`);
  await until('its end', async () => (await page.locator('[role=row]', { has: page.locator(`a:text-is("${id}")`) }).allInnerTexts()).some((text) => text.includes('succeeded')));
  await page.click('button:has-text("Pause")');
  const count = await page.locator('.rows [role=row]').count();
  const other = daemon.submit('--gpus', '0', '--name', 'unseen', '--', 'true');
  await page.waitForSelector('button:has-text("new)")');
  assert.equal(await page.locator(`.rows >> text="${other}"`).count(), 0);
  assert.ok(count > 0);
  await page.click('button:has-text("Resume")');
  await page.waitForSelector(`.rows >> text="${other}"`);
});

test('events include what happened to jobs and GPUs before the page was opened', async () => {
  await show('overview');
  const id = daemon.submit('--gpus', '0', '--hold', '--name', 'released', '--', 'true');
  daemon.divvy('release', String(id));
  daemon.divvy('gpus', 'restrict', '0-6');
  await page.reload();
  await show('events');
  await page.waitForSelector('.rows >> text=/released by /');
  await page.waitForSelector('.rows >> text=/GPU 7.* is restricted/');
  daemon.divvy('gpus', 'restrict', 'all');
  await page.waitForSelector(".rows >> text=/GPU 7.* is available to divvy again/");
});

test('the first rendering needs three files and no API answer, and the page reports no errors', async () => {
  const fresh = await openPage(browser);
  await fresh.goto(daemon.link());
  await fresh.waitForSelector('[data-tile="Running"]');
  let answer = () => {};
  const isAsked = new Promise((resolve) => (answer = resolve));
  await fresh.route('**/v1/**', () => answer());
  await fresh.reload({ waitUntil: 'commit' });
  await isAsked;
  await until('a picture', () => fresh.evaluate(() => performance.getEntriesByName('first-contentful-paint').length === 1));
  const files = await fresh.evaluate(() => performance.getEntriesByType('resource').map((one) => new URL(one.name).pathname).filter((path) => !path.startsWith('/v1/')));
  assert.deepEqual(files.filter((path) => !path.endsWith('.svg')).sort(), ['/app.css', '/app.js']);
  assert.deepEqual(fresh.troubles, []);
  await fresh.context().close();
  assert.deepEqual(page.troubles, []);
});

test('each of several GPUs of a job has its own curve', async () => {
  daemon.divvy('cancel', '--all', '--grace', '0');
  await until('room', () => daemon.json('queue').length === 0);
  const id = daemon.submit('--gpus', '3', '--', 'sleep', '1000');
  await until('its start', () => daemon.json('show', id).state === 'running');
  const gpus = daemon.json('show', id).gpus;
  daemon.divvy('emulate', 'utilisation', String(gpus[1]), '80', '40');
  await show(`job/${id}`);
  const legend = page.locator('[data-metric=gpu_utilization] .legend');
  await until('the curves', async () => /80 %/.test(await legend.innerText({ timeout: 500 })));
  const text = (await legend.innerText()).replace(/\s+/g, ' ');
  for (const gpu of gpus) assert.match(text, new RegExp(`GPU ${gpu} ${gpu === gpus[1] ? '80' : '\\d+'} %`));
  daemon.divvy('emulate', 'utilisation', String(gpus[1]), '0', '0');
});

test('the processes of a job on its GPUs are listed with their usage', async () => {
  const id = daemon.submit('--gpus', '1', '--name', 'procs', '--', 'sh', '-c', 'sleep 60');
  const seen = { time: 1, gpus: [{ node: '', gpu: 0, time: 1, values: {}, processes: [{ pid: 4711, id: Number(id), memory_bytes: 4 * 2 ** 30, utilization: 0.71 }, { pid: 4712, id: Number(id), memory_bytes: 2 ** 30, utilization: null }, { pid: 99, id: 987654, memory_bytes: 1, utilization: 0 }] }], slices: [], nodes: [], jobs: [], cluster: {} };
  const other = await openPage(browser);
  await other.route('**/v1/events*', (route) => route.fulfill({ contentType: 'text/event-stream', body: `event: samples\ndata: ${JSON.stringify(seen)}\n\n` }));
  await other.goto(daemon.link());
  await showView(other, `job/${id}`);
  const table = other.locator('[aria-label="Processes on GPUs"]');
  await table.locator('text=4711').waitFor();
  const text = (await table.innerText()).replace(/\s+/g, ' ');
  assert.match(text, /0 4711 .*71 % 4(\.0)? GiB/);
  assert.match(text, /4712/);
  assert.doesNotMatch(text, / 99 /);
  await other.context().close();
  daemon.divvy('cancel', id);
});

test('a running step shows the GPUs of each rank', async () => {
  daemon.divvy('cancel', '--all', '--grace', '0');
  await until('room', () => daemon.json('queue').length === 0);
  const id = daemon.submit('--gpus', '2', '--deadline', 'now+1h', '--', 'sh', '-c', `${process.env.DIVVY} run --tasks 2 --gpus-per-task 1 -- sleep 60; true`);
  await until('its step', () => (daemon.json('show', id).steps[0]?.task_map.length ?? 0) === 2);
  const told = daemon.json('show', id).steps[0].task_map;
  await show(`job/${id}`);
  const rows = page.locator('[role=table][aria-label="Ranks of steps"] .rows [role=row]');
  await until('two ranks', async () => (await rows.count()) === 2, 30);
  const shown = await rows.evaluateAll((all) => all.map((one) => [...one.querySelectorAll('[role=cell]')].map((cell) => cell.textContent.trim())));
  assert.deepEqual(shown.map((cells) => cells.slice(0, 3)), told.map((task) => [`${id}.0`, String(task.rank), task.gpus.join(',')]));
  await page.waitForSelector('dt:text-is("Deadline")');
  daemon.divvy('cancel', id, '--now');
});

test('throttling is described in words, and temperature is shown beside the GPU', async () => {
  const slowed = { time: 1, gpus: [{ node: '', gpu: 2, time: 1, values: { gpu_throttle: 0x24 } }], slices: [], nodes: [], jobs: [], cluster: {} };
  const other = await openPage(browser);
  await other.route('**/v1/events*', (route) => route.fulfill({ contentType: 'text/event-stream', body: `event: samples\ndata: ${JSON.stringify(slowed)}\n\n` }));
  await other.route('**/v1/series?*gpu_throttle*', (route) => route.fulfill({ json: { step_s: 1, begin: Date.now() / 1000 - 3, series: [{ of: 'gpu', node: '', gpu: 2, metric: 'gpu_throttle', unit: 'bits', mean: [0, 4, 0x24], min: [0, 4, 0x24], max: [0, 4, 0x24], step: [] }] } }));
  await other.goto(daemon.link());
  await showView(other, 'nodes');
  await other.waitForSelector('[role=row] >> text=slowed by heat (driver)');
  // Reads nothing while the stream is away.
  await other.unroute('**/v1/events*');
  await other.selectOption('select[aria-label="What: GPUs over time"]', { label: 'clock throttling' });
  await other.waitForSelector('.legend >> text=power cap, heat (driver)');
  await other.context().close();
});
