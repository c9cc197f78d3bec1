// The page and the command line agree on every number: on a daemon with whole GPUs, parts, MIG instances, arrays, jobs on
// several machines, teams, and a history, each table of the page, as it saves it, against what divvy ... --json says.
import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import { after, before, test } from 'node:test';
import { bytes, hours, lasting, money, plain, share } from '../src/lib/format.js';
import { Daemon, enter, keepFiles, leave, parsed, showFreshSubmit, showView, until } from './world.mjs';

const kConfig = `[gpus]
mig = "auto"
[waste]
grace = "0s"
idle_after = "10s"
[prices]
default = 2.5
[teams.vision]
quota = 4
users = ["root"]
[teams.speech]
quota = 2
limit = 6
users = ["root"]
[teams.robotics]
quota = 1
users = ["root"]
[users.root]
team = "vision"
`;
let daemon, browser, page;
before(async () => {
  const port = 20000 + ((process.pid * 17) % 20000);
  daemon = new Daemon(process.env.DIVVY, '4xH100-80GB', `[controller]\nlisten = "127.0.0.1:${port}"\n${kConfig}`).up();
  daemon.addAgent('n1', '4xA100-40GB');
  daemon.addAgent('n2', '2xA100-40GB');
  await until('the machines', () => daemon.json('nodes').filter((node) => node.state === 'up').length === 3);
  const long = ['--', 'sleep', '3000'];
  for (let i = 0; i < 6; ++i) daemon.submit('--gpus', String(1 + (i % 2)), '--name', ['train', 'evaluate'][i % 2], '--team', ['vision', 'speech'][i % 2], '--', 'sh', '-c', `sleep 0.${i + 2}; exit ${i === 4 ? 3 : 0}`);
  await until('what ran before', () => daemon.json('queue').length === 0);
  daemon.submit('--slice', '1g.10gb', '--name', 'sliced', '--team', 'speech', ...long);
  daemon.submit('--slice', '3g.40gb', '--name', 'sliced-wide', ...long);
  daemon.submit('--gpus', '0.5', '--name', 'half', '--team', 'speech', ...long);
  daemon.submit('--gpus', '0.25', '--name', 'quarter', '--team', 'robotics', ...long);
  daemon.submit('--gpus', '2', '--gpu-type', 'A100', '--time', '3h', '--name', 'talks', '--', 'sh', '-c', 'i=0; while [ $i -lt 3000 ]; do i=$((i+1)); echo "{\\"step\\": $i, \\"loss\\": 0.5}"; sleep 0.5; done');
  daemon.submit('--nodes', '2', '--gpus', '1', '--nodelist', 'n1,n2', '--name', 'gang', '--time', '2h', '--preemptible', 'requeue', ...long);
  daemon.submit('--gpus', '1', '--gpu-type', 'A100', '--array', '0-5%1', '--preemptible', 'requeue', '--time', '30m', '--name', 'sweep', '--team', 'robotics', ...long);
  daemon.submit('--gpus', '4', '--gpu-type', 'H100', '--time', '1h', '--name', 'waits', ...long);
  daemon.submit('--gpus', '1', '--hold', '--priority', '-5', '--name', 'held', ...long);
  daemon.submit('--gpus', '0', '--name', 'on-cpus', ...long);
  await until('them to run', () => daemon.json('queue').filter((job) => job.state === 'running').length >= 8);
  ({ browser, page } = await enter(daemon, { viewport: { width: 1700, height: 900 } }, keepFiles));
});
after(() => leave(browser, daemon));
const show = (view) => showView(page, view);

/** The table of this name as its CSV file has it: all columns, also those that are out of sight. By title. */
async function table(label) {
  const box = page.locator('.table', { has: page.locator(`[role=table][aria-label="${label}"]`) });
  await box.waitFor();
  const button = box.locator('button:has-text("CSV")');
  if (await button.isDisabled()) return [];
  await button.click();
  const [titles, ...rows] = parsed(await page.evaluate(() => window.saved));
  return rows.map((row) => Object.fromEntries(titles.map((title, i) => [title, row[i]])));
}
const numeric = (text) => Number(text.replaceAll(',', ''));
const near = (text, value, drift, what) => assert.ok(Math.abs(numeric(text || '0') - value) <= drift, `${what}: ${text} shown, ${value} said`);
/** Until a look at both at about the same time agrees: what runs goes on between the two. */
const agree = (what, check) => until(`${what} to agree`, async () => ((await check()), true), 20);
const asked = (request) => {
  const portion = request.fraction;
  if (request.slice) return request.slice;
  if (portion?.request) return String(portion.request);
  return request.nodes > 1 ? `${request.nodes}x${request.gpus}` : String(request.gpus);
};

test('small amounts of GPU-hours, percentages, cost and waiting time match divvy report and are not rounded to zero', () => {
  assert.deepEqual([0, 0.003, 0.0194, 0.9949, 0.996, 12.34, 1234.56].map(hours), ['0', '0.003', '0.019', '0.995', '1.0', '12.3', '1,234.6']);
  assert.deepEqual([0, 0.0004, 0.0006, 0.034, 0.0994, 0.12, 1].map(share), ['0 %', '<0.1 %', '0.1 %', '3.4 %', '9.9 %', '12 %', '100 %']);
  assert.deepEqual([0, 0.004, 2.5].map(money), ['0.00', '0.00', '2.50']);
  assert.deepEqual([0, 0.0004, 0.0021, 0.14, 2, 6.98, 61].map(lasting), ['0 s', 'under 1 ms', '2 ms', '0.1 s', '2 s', '7 s', '1 min 1 s']);
  assert.deepEqual([1 / 3, 1234.5, null, undefined, NaN].map((value) => plain(value)), ['0.333333', '1234.5', '', '', '']);
});

test('the numbers of the overview match the command line', async () => {
  await agree('tiles and cells', async () => {
    const [status, gpus] = [daemon.json('status'), daemon.json('gpus')];
    const tile = async (name) => (await page.locator(`[data-tile="${name}"]`).innerText()).replace(/\s+/g, ' ');
    assert.ok((await tile('GPUs in use')).includes(`${gpus.filter((gpu) => gpu.state === 'allocated').length} of ${status.gpus} ${status.gpus_free} free`), await tile('GPUs in use'));
    assert.ok((await tile('Running')).includes(` ${status.jobs_running} `));
    assert.ok((await tile('Waiting')).includes(` ${status.jobs_queued} and ${status.jobs_held} held`), await tile('Waiting'));
    const sum = (key) => gpus.reduce((all, gpu) => all + Math.max(0, gpu[key]), 0);
    assert.ok((await tile('GPU memory')).includes(`${bytes(sum('memory_used_bytes'))} of ${bytes(sum('memory_total_bytes'))}`), await tile('GPU memory'));
    for (const gpu of gpus) {
      const cell = page.locator(`main .cells a[data-gpu="${gpu.node}:${gpu.index}"]`);
      const tenants = await cell.locator('[data-tenant]').evaluateAll((all) => all.map((one) => [one.dataset.tenant, Number(one.style.flexGrow)]));
      assert.deepEqual(tenants, gpu.tenants.map((one) => [one.display_id, Math.max(one.request, 0.05)]), `${gpu.node}:${gpu.index}`);
      const name = await cell.getAttribute('aria-label');
      for (const piece of [gpu.state, gpu.model, ...gpu.tenants.map((one) => `${one.display_id} ${one.share}`)]) assert.ok(name.includes(piece), `${piece} in ${name}`);
    }
    assert.ok(gpus.some((gpu) => gpu.tenants.length === 2 && gpu.tenants.every((one) => one.share.startsWith('slice'))), 'two instances on one GPU');
    assert.ok(gpus.some((gpu) => gpu.tenants.some((one) => one.share === '0.5')), 'a part of a GPU');
  });
});

test('active and ended jobs in the queue match the command line', async () => {
  await show('queue');
  await agree('the queue', async () => {
    const jobs = daemon.json('queue');
    const begun = Date.now() / 1000;
    const rows = await table('Jobs');
    const read = Date.now() / 1000;
    const reasons = Object.fromEntries(parsed(daemon.divvy('queue', '--csv', '--columns', 'id,reason')));
    assert.deepEqual(rows.map((row) => row.Job).sort(), jobs.map((job) => job.display_id).sort());
    for (const job of jobs) {
      const row = rows.find((one) => one.Job === job.display_id);
      assert.equal(row['#'], job.position ? String(job.position) : '');
      assert.deepEqual([row.Name, row.User, row.State, row.GPUs, row.Team, row.Reason.replace(/^\S+ %.*/, '')], [job.name, job.user, job.state, asked(job.request), job.team, reasons[job.display_id].replace(/^\S+%.*/, '')]);
      if (job.start_time) assert.ok(Number(row['Time (s)']) > begun - job.start_time - 5 && Number(row['Time (s)']) < read - job.start_time + 5, `${row['Time (s)']} of ${job.display_id}`);
    }
  });
  await page.click('[role=tab]:has-text("Ended")');
  await agree('what has ended', async () => {
    const jobs = daemon.json('queue', '--all').filter((job) => ['succeeded', 'failed', 'cancelled'].includes(job.state));
    const rows = await table('Jobs');
    assert.equal(rows.length, jobs.length);
    for (const job of jobs) {
      const row = rows.find((one) => one.Job === job.display_id);
      assert.deepEqual([row.Name, row.State, row.GPUs, row.Exit], [job.name, job.state, asked(job.request), String(job.exit_code)]);
      near(row['Ran (s)'], job.end_time - job.start_time, 0.51, 'ran');
      assert.equal(row.Ended, new Date(job.end_time * 1000).toISOString());
    }
  });
});

test("a job's details, blockers and last reported metrics match the command line", async () => {
  for (const name of ['talks', 'half', 'sliced', 'gang', 'waits', 'sweep']) {
    const id = String(daemon.json('queue').find((job) => job.name === name).id);
    await show(`job/${id}`);
    await page.waitForSelector(`h1:has-text("${name}")`);
    await agree(`the facts of ${name}`, async () => {
      const job = daemon.json('show', id);
      const facts = Object.fromEntries(await page.locator('section:has(h2:text-is("Facts")) dl').evaluate((list) => [...list.querySelectorAll('dt')].map((name) => [name.innerText, name.nextElementSibling.innerText])));
      assert.equal(facts.User, job.user);
      assert.equal(facts.Team ?? '', job.team);
      assert.equal(facts['Time limit'].split(',')[0], job.request.time_limit_s ? lasting(job.request.time_limit_s) : 'none');
      if (job.gpus.length && job.allocations.length < 2) assert.ok(facts.Has.includes(job.gpus.length > 1 ? `${job.gpus[0]}-${job.gpus.at(-1)}` : String(job.gpus[0])), facts.Has);
      for (const allocation of job.allocations.length > 1 ? job.allocations : []) assert.ok(facts.Has.includes(`${allocation.node}: ${allocation.gpus}`), facts.Has);
      if (job.share) assert.ok(facts.Share.startsWith(`${job.share.part}, ${job.share.state}`), facts.Share);
      if (job.priority) assert.equal(facts.Priority, String(job.priority));
      if (job.state === 'queued') {
        const why = await daemon.ask('GET', `/v1/jobs/${id}/why`);
        const text = await page.locator('.why').innerText();
        for (const piece of [why.summary, ...why.blockers.map((one) => one.text)]) assert.ok(text.includes(piece), `${piece} in ${text}`);
        if (why.position) assert.match(text, new RegExp(`Position\\s+${why.position}\\b`));
      }
    });
  }
  const talks = String(daemon.json('queue').find((job) => job.name === 'talks').id);
  await show(`job/${talks}`);
  await agree('its loss', async () => assert.match(await page.locator('[data-metric="own.loss"] .chart').getAttribute('aria-label'), /now 0\.5$/));
});

test('nodes and GPUs match the command line', async () => {
  await show('nodes');
  await agree('the machines', async () => {
    const rows = await table('Nodes');
    for (const node of daemon.json('nodes')) {
      const row = rows.find((one) => one.Node === node.name);
      assert.deepEqual([row.State, row.GPUs, row.Free, row.Jobs, row.CPUs, row['Memory (bytes)'], row.Reason], [node.state, ...[node.gpus, node.gpus_free, node.jobs, node.cpus, node.memory_bytes].map(String), node.reason], node.name);
    }
  });
  await agree('the GPUs', async () => {
    const gpus = daemon.json('gpus');
    const rows = await table('GPUs');
    assert.equal(rows.length, gpus.length);
    const own = daemon.json('nodes').find((node) => node.is_controller).name;
    for (const gpu of gpus) {
      const row = rows.find((one) => one.Node === (gpu.node || own) && one.GPU === String(gpu.index));
      const known = (value, unit) => (value < 0 ? '' : `${value}${unit}`);
      assert.deepEqual([row.Model, row.State, row.Job, row.NUMA, row.MIG, row.PCI], [gpu.model, gpu.state, gpu.job_display_ids.join(','), known(gpu.numa_node, ''), gpu.is_mig_enabled ? 'on' : gpu.slices.length ? 'off' : '', gpu.pci_address]);
      assert.equal(row['Total memory (bytes)'], String(gpu.memory_total_bytes));
      assert.deepEqual([row['Use (%)'], row['Temp (°C)'], row['Power (W)']], [gpu.utilisation_percent, gpu.temperature_celsius, gpu.power_watts].map((value) => known(value, '')));
      for (const tenant of gpu.tenants) assert.ok(row.Who.includes(`${tenant.display_id}: ${tenant.share}`), `${tenant.share} in ${row.Who}`);
    }
  });
});

test('GPU fractions and MIG instances match the command line', async () => {
  await agree('the tenants', async () => {
    const gpus = daemon.json('gpus');
    const said = gpus.flatMap((gpu) => gpu.tenants.map((tenant) => [gpu, tenant]));
    const rows = await table('GPU fractions');
    assert.equal(rows.length, said.length);
    for (const [gpu, tenant] of said) {
      const row = rows.find((one) => one.Job === tenant.display_id);
      assert.deepEqual([row.GPU, row.Name, row.User, row.State, row.Share], [String(gpu.index), tenant.name, tenant.user, tenant.state, tenant.share]);
      near(row['Time (%)'], tenant.is_compute_known ? 100 * tenant.compute : 0, 0.001, 'time');
      near(row['Guaranteed time (%)'], 100 * tenant.compute_request, 0.001, 'time of its own');
      assert.deepEqual([row['Memory (bytes)'], row['Memory limit (bytes)']], [tenant.used_bytes, tenant.limit_bytes].map(String));
      assert.ok(row['Enforced by'].includes(tenant.mechanism), row['Enforced by']);
    }
    // Its mode was switched on for the instances.
    assert.ok(gpus.some((gpu) => gpu.is_mig_enabled && gpu.tenants.every((one) => one.mechanism === 'enforced by MIG' || one.mechanism === 'MIG')), JSON.stringify(gpus.map((gpu) => gpu.tenants)));
  });
});

test('teams and users match the command line', async () => {
  await show('teams');
  await agree('the teams', async () => {
    const said = daemon.json('teams');
    const teams = await table('Teams');
    assert.equal(teams.length, said.teams.length);
    for (const team of said.teams) {
      const row = teams.find((one) => one.Team === team.name);
      near(row.GPUs, team.gpus, 0.0051, 'GPUs');
      // Of none: an empty cell.
      assert.equal(row.Quota, team.quota === null ? '' : String(team.quota));
      assert.equal(row.Limit, team.limit === null ? '' : String(team.limit));
      near(row['Fair share'], team.share, 0.0051, 'fair share');
      near(row.Over, Math.max(0, team.gpus - team.quota), 0.0051, 'over');
      near(row.Running, team.running, 0, 'running');
      near(row.Queued, team.queued, 0, 'queued');
      near(row['GPU-hours'], team.used_gpu_hours, 0.02, 'GPU-hours');
    }
    const users = await table('Users');
    for (const user of said.users) {
      const row = users.find((one) => one.User === user.name);
      near(row.Running, user.running, 0, 'running');
      near(row.GPUs, user.gpus, 0.0051, 'GPUs');
      near(row['GPU-hours'], user.used_gpu_hours, 0.02, 'GPU-hours');
      near(row.Cost, user.used_cost, 0.1, 'cost');
    }
  });
  // What is drawn over time is, in its sum, what the report says; and now what they hold.
  const since = Math.floor(Date.now() / 1000) - 3600;
  const shares = await daemon.ask('GET', `/v1/reports/shares?by=team&since=${since}&points=60`);
  const usage = daemon.json('report', 'usage', '--by', 'team', '--since', new Date(since * 1000).toISOString().slice(0, 19));
  for (const row of usage.rows.filter((one) => one.gpu_hours)) near(String(shares.rows.find((one) => one.group === row.group).gpu_hours), row.gpu_hours, 0.02, `shares of ${row.group}`);
  await agree('the curves', async () => {
    const label = await page.locator('[aria-label^="GPUs held over time"]').getAttribute('aria-label');
    for (const team of daemon.json('teams').teams.filter((one) => one.gpus)) assert.ok(new RegExp(`${team.name} \\d`).test(label), label);
  });
  await page.selectOption('[aria-label="Whose"]', 'speech');
  await agree('quota and fair share', async () => {
    const team = daemon.json('teams').teams.find((one) => one.name === 'speech');
    const label = await page.locator('[aria-label^="GPUs held over time"]').getAttribute('aria-label');
    assert.match(label, new RegExp(`quota ${team.quota}, fair share ${Number(team.share.toFixed(2))}, limit ${team.limit}`));
  });
});

test('usage, efficiency, waste, fairness and predictions match the command line', async () => {
  await show('usage');
  await page.waitForSelector('[aria-label="GPU-hours by user"] .rows [role=row]');
  for (const by of ['user', 'team', 'name', 'model', 'pool', 'node']) {
    await page.click(`[aria-label="By what"] button:text-is("${by}")`);
    await page.waitForSelector(`[role=table][aria-label="GPU-hours by ${by}"]`);
    const title = by[0].toUpperCase() + by.slice(1);
    await agree(`usage by ${by}`, async () => {
      const said = daemon.json('report', 'usage', '--by', by);
      const used = daemon.json('report', 'efficiency', '--by', by);
      const rows = await table(`GPU-hours by ${by}`);
      assert.equal(rows.length, said.rows.length);
      for (const group of said.rows) {
        const row = rows.find((one) => one[title] === (group.group || '—'));
        near(row['GPU-hours'], group.gpu_hours, 0.1, 'GPU-hours');
        near(row.Jobs, group.jobs, 0, 'jobs');
        near(row.Running, group.running, 0, 'running');
        near(row.Failed, group.failed, 0, 'failed');
        near(row['In failed jobs'], group.failed_gpu_hours, 0.01, 'in failed jobs');
        near(row['Share (%)'], 100 * group.share, 4, 'share');
        if (group.wait_median_s === null) assert.deepEqual([row['Wait, median (s)'], row['p95 (s)']], ['', ''], 'nobody began');
        else near(row['Wait, median (s)'], group.wait_median_s, 0.001, 'wait'), near(row['p95 (s)'], group.wait_p95_s, 0.001, 'p95');
        const seen = used.rows.find((one) => one.group === group.group);
        if (!seen) continue;
        near(row['Used (%)'], 100 * seen.utilization, 3, 'used');
        near(row.Cores, seen.cpu_cores, 0.3, 'cores');
        if (seen.cpu_use === null) assert.equal(row['CPU use (%)'], '');
        else near(row['CPU use (%)'], 100 * seen.cpu_use, 5, 'use of cores');
      }
    });
  }
  await agree('the tiles', async () => {
    // "... to ...: 0.019 GPU-hours, <0.1% of the 80.0 that ..."
    const said = /: ([\d.]+) GPU-hours, (\S+)% of the ([\d.]+)/.exec(daemon.divvy('report', 'usage').replace(/\s+/g, ' '));
    const tiles = (await page.locator('.tile').allInnerTexts()).map((text) => text.split('\n').map((one) => one.trim()).filter(Boolean));
    const [held, of] = [tiles.find((one) => one[0] === 'GPU-hours held'), tiles.find((one) => one[0] === 'Of capacity')];
    near(held[1], Number(said[1]), 0.1, 'held');
    assert.equal(of[1], `${said[2]} %`);
    near(/^[\d.,]+/.exec(of[2])[0], Number(said[3]), 0.1, 'there was');
  });
  // Of one user as of many.
  await agree('evenness', async () => {
    const said = /of GPU-hours ([\d.]+), of slowdowns ([\d.]+)\./.exec(daemon.divvy('report', 'fairness').replace(/\s+/g, ' '));
    const tile = async (name) => page.locator(`.tile:has-text("${name}") b`).innerText();
    assert.deepEqual([await tile('Evenness of shares'), await tile('Evenness of slowdowns')], [said[1], said[2]]);
  });
  await agree('the hours', async () => {
    await page.locator('section', { has: page.locator('.heat') }).locator('button:text-is("CSV")').click();
    const [titles, ...lines] = parsed(await page.evaluate(() => window.saved));
    assert.deepEqual(titles, ['Day', 'From', 'To', 'GPUs held', 'GPUs']);
    assert.ok(lines.length >= 7 * 24 && lines.every(([day, from, to]) => /^\d{4}-\d\d-\d\d$/.test(day) && /^\d\d:\d\d$/.test(from) && /^\d\d:\d\d$/.test(to)), lines[0].join());
    near(String(lines.reduce((sum, line) => sum + Number(line[3]), 0)), daemon.json('report', 'usage').gpu_hours, 0.1, 'all hours');
  });
  for (const by of ['user', 'team', 'name', 'model', 'pool', 'node', 'hour', 'job']) {
    await page.click(`[aria-label="Waste by what"] button:text-is("${by}")`);
    await page.waitForSelector(`[role=table][aria-label="GPU-hours lost by ${by}"]`);
    const title = by[0].toUpperCase() + by.slice(1);
    await agree(`waste by ${by}`, async () => {
      const said = daemon.json('report', 'waste', '--by', by);
      // People are shown what is worth telling, on the command line as here.
      said.rows = said.rows.filter((row) => !row.is_small);
      const rows = await table(`GPU-hours lost by ${by}`);
      assert.equal(rows.length, said.rows.length);
      for (const group of said.rows) {
        const row = rows.find((one) => one[title] === (group.group || '—'));
        assert.ok(row, `${group.group} is not among ${rows.map((one) => one[title])}`);
        if (by === 'job') assert.deepEqual([row.Name, row.User, row.State], [group.job.name, group.job.user, group.job.state]);
        near(row['GPU-hours'], group.gpu_hours, 0.1, 'GPU-hours');
        near(row.Lost, group.lost_gpu_hours, 0.1, 'lost');
        near(row['At 0 %'], group.idle_gpu_hours, 0.1, 'idle');
        if (group.lost_cost !== null) near(row.Cost, group.lost_cost, 0.25, 'cost');
      }
    });
  }
  await agree('fairness', async () => {
    const said = daemon.json('report', 'fairness');
    for (const row of await table('Waiting by user')) {
      const group = said.rows.find((one) => one.group === row.User);
      near(row.Starts, group.jobs, 0, 'starts');
      near(row['Wait, median (s)'], group.wait_median_s, 0.001, 'wait');
      near(row['Longest (s)'], group.wait_longest_s, 0.001, 'longest');
      near(row.Slowdown, group.slowdown_median, 0.2, 'slowdown');
    }
  });
  await agree('predictions', async () => {
    const said = daemon.json('report', 'predictions');
    const rows = await table('Predictions');
    assert.equal(rows.length, said.rows.length);
    for (const group of said.rows) {
      const row = rows.find((one) => one.User === (group.user || 'all'));
      near(row.Predicted, group.predicted, 0, 'predicted');
      near(row.Unpredicted, group.unpredicted, 0, 'not');
      if (group.predicted) near(row['Within factor 2 (%)'], 100 * group.within_factor_two, 0.001, 'within'), near(row['In the interval (%)'], 100 * group.inside_interval, 0.001, 'inside');
    }
  });
  await agree('hours in failed jobs', async () => {
    const said = daemon.json('report', 'usage', '--by', 'job');
    const rows = await table('Failed jobs');
    assert.ok(rows.length > 0);
    for (const row of rows) near(row['GPU-hours'], said.rows.find((one) => one.group === row.Job).failed_gpu_hours, 1e-6, `hours of ${row.Job}`);
  });
  await agree('failed jobs', async () => assert.deepEqual((await table('Failed jobs')).map((row) => row.Job), daemon.json('queue', '--all').filter((job) => job.state === 'failed').map((job) => job.display_id)));
});

test('wasted GPUs and wasting jobs match the command line', async () => {
  await until('somebody to waste', async () => (await daemon.ask('GET', '/v1/waste')).jobs.length >= 2, 60);
  await show('queue');
  await agree('who wastes', async () => {
    const said = await daemon.ask('GET', '/v1/waste');
    const rows = (await table('Jobs')).filter((row) => row['Waste (GPUs)']);
    assert.deepEqual(rows.map((row) => row.Job).sort(), said.jobs.map((job) => job.display_id).sort());
    for (const job of said.jobs) near(rows.find((row) => row.Job === job.display_id)['Waste (GPUs)'], job.wasted_gpus, 0.0051, job.display_id);
    assert.ok(Number(/waste ([0-9.]+)/.exec(await page.locator('[data-wasted]').innerText())[1]) - said.wasted_gpus < 0.01);
  });
});

test('forecasts of submit and what-if match the command line', async () => {
  await show('submit');
  await page.fill('[data-field=command]', 'true');
  await page.fill('[data-field=gpus]', '4');
  await page.fill('[data-field=hours]', '1');
  await page.waitForSelector('[data-preview] dd.big');
  // What stands there may be of what was typed before.
  await agree('the forecast', async () => {
    const shown = await page.locator('[data-preview] dd.big').innerText();
    const answer = await daemon.ask('POST', '/v1/jobs', { is_test: true, spec: { command: ['true'], directory: '/', request: { gpus: 4 }, time_limit: 3600 } });
    assert.ok((await page.locator('[data-preview] p').first().innerText()) === answer.summary, answer.summary);
    assert.equal(/^(in .*|now)$/.test(shown), answer.predicted_start !== null, `${shown} ${answer.predicted_start}`);
  });
  assert.deepEqual(page.troubles, []);
});

test('submitted fractions and MIG instances match the shown command line', async () => {
  const forms = [
    { part: 'slice', fields: { slice: '1g.10gb' } },
    { part: 'slice', fields: { slice: '>=16G' } },
    { part: 'part', fields: { portion: '0.25', 'portion-most': '0.75' } },
    { part: 'memory', fields: { memory: '10', 'memory-most': '30' } },
  ];
  for (const { part, fields } of forms) {
    await showFreshSubmit(page);
    await page.fill('[data-field=command]', 'sleep 1000');
    await page.fill('[data-field=name]', 'asked');
    await page.click('summary:has-text("More")');
    await page.check('text=Submit held');
    await page.selectOption('[data-field=part]', part);
    for (const [name, value] of Object.entries(fields)) await page.fill(`[data-field="${name}"]`, value);
    await page.waitForSelector('[data-preview] dd.big');
    await page.waitForSelector('[data-line=ready]');
    const line = await page.locator('[data-preview] pre').innerText();
    await page.click('[data-submit]');
    await page.waitForSelector('h2:has-text("Facts")');
    execFileSync('sh', ['-c', line.replace(/^divvy submit/, '"$DIVVY" submit --quiet')], { env: { ...daemon.environment, DIVVY: daemon.binary }, cwd: daemon.home });
    const [one, two] = daemon.json('queue').filter((job) => job.name === 'asked');
    assert.ok(two, line);
    assert.deepEqual(one.request, two.request, line);
    daemon.divvy('cancel', String(one.id), String(two.id));
  }
  assert.deepEqual(page.troubles, []);
});
