// A valohai.yaml on the Submit view, VH_GPUS, and the environment of a job.
import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import { mkdirSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { after, before, test } from 'node:test';
import { Daemon, enter, home, leave, openPage, showFreshSubmit, showView, until } from './world.mjs';

const kYaml = `
- step:
    name: train
    image: pytorch/pytorch:2.0.0
    description: trains it
    command: echo trained {parameters} with $VH_GPUS and $SEED; sleep 1000
    environment-variables:
      - {name: VH_GPUS, default: 2}
      - {name: SEED, default: "7"}
    parameters:
      - {name: lr, type: float, default: 0.001, min: 0, max: 1}
      - {name: optimiser, choices: [adam, sgd], default: adam}
      - {name: verbose, type: flag, default: false}
      - {name: layers, type: integer, default: [64, 32], multiple: separate}
- step:
    name: evaluate
    image: pytorch/pytorch:2.0.0
    command: echo evaluated
`;
let daemon, browser, page;
before(async () => {
  const port = 20000 + ((process.pid * 13) % 20000);
  daemon = new Daemon(process.env.DIVVY, '4xH100-80GB', `[controller]\nlisten = "127.0.0.1:${port}"\n`).up();
  ({ browser, page } = await enter(daemon));
});
after(() => leave(browser, daemon));
const show = (view) => showView(page, view);
const field = (label) => page.locator(`[data-parameters] label:has-text("${label}") :is(input, select, textarea)`);

test('a step is shown as a form, and the resulting job is the one that vh submits', async () => {
  const project = join(daemon.home, 'project');
  mkdirSync(project);
  writeFileSync(join(project, 'valohai.yaml'), kYaml);
  await showFreshSubmit(page);
  await page.check('input[value=valohai]');
  await page.setInputFiles('[data-field=file]', join(project, 'valohai.yaml'));
  await page.waitForSelector('[data-parameters]');
  assert.deepEqual(await page.locator('[data-field=step] option').allInnerTexts(), ['train', 'evaluate']);
  await until('its own GPUs', async () => (await page.locator('[data-made=gpus]').innerText()) === '2');
  await page.waitForSelector('[data-preview] >> text=/2 GPUs/');
  await page.fill('[data-field=project]', project);
  await page.fill('[data-field=vh-gpus]', '3');
  await field('lr').fill('0.25');
  await field('optimiser').selectOption('sgd');
  await field('verbose').check();
  await field('layers').fill('16\n8');
  await until('its script', async () => (await page.locator('[data-made=script]').textContent()).includes('--lr=0.25 --optimiser=sgd --verbose --layers=16,8'));
  await until('its GPUs', async () => (await page.locator('[data-made=gpus]').innerText()) === '3');
  await page.waitForSelector('[data-preview] dd.big:has-text("now")');
  const line = await page.locator('[data-preview] pre.line').last().innerText();
  await page.click('[data-submit]');
  await page.waitForSelector('h2:has-text("Facts")');
  await page.waitForSelector('pre >> text=trained --lr=0.25 --optimiser=sgd --verbose --layers=16,8 with 3 and 7');
  const made = daemon.json('queue').find((job) => job.name === 'train');
  assert.equal(made.request.gpus, 3);
  assert.equal(made.dialect, 'valohai');
  // The command line that it named makes the same job.
  daemon.divvy('cancel', String(made.id), '--grace', '0');
  execFileSync('sh', ['-c', line.replace(/^divvy /, '"$DIVVY" ')], { env: { ...daemon.environment, DIVVY: daemon.binary, USER: made.user }, cwd: project, encoding: 'utf8' });
  const other = await until('the other', () => daemon.json('queue').find((job) => job.name === 'train' && job.id !== made.id));
  const [one, two] = [daemon.json('show', String(made.id)), daemon.json('show', String(other.id))];
  assert.deepEqual(two.request, one.request);
  assert.equal(two.directory, one.directory);
  assert.equal(two.labels['valohai.parameters'], one.labels['valohai.parameters']);
  const without = (script) => script.replaceAll(/[0-9a-f]{8}-[0-9a-f-]{27}/g, 'ID').replaceAll(/"valohai\.execution-[cq]time": [0-9.]+/g, 'TIME');
  assert.equal(without(two.script), without(one.script));
  daemon.divvy('cancel', String(other.id), '--grace', '0');
});

test('tasks of the file are shown beside its steps, with the command that runs them', async () => {
  const project = join(daemon.home, 'sweeps');
  mkdirSync(project);
  const yaml = kYaml + '- task:\n    name: sweep of lr\n    step: train\n    type: grid_search\n    parameters:\n      - name: lr\n        style: multiple\n        rules: {items: [0.1, 0.2]}\n';
  writeFileSync(join(project, 'valohai.yaml'), yaml);
  await showFreshSubmit(page);
  await page.check('input[value=valohai]');
  await page.fill('[data-field=yaml]', yaml);
  const line = await page.locator('[data-tasks] pre').innerText();
  assert.equal(line, "divvy vh task run 'sweep of lr' --adhoc");
  assert.match(await page.locator('[data-tasks]').innerText(), /step train, grid search, of lr/);
  const before = daemon.json('queue', '--all').length;
  execFileSync('sh', ['-c', line.replace(/^divvy/, '"$DIVVY_BINARY"')], { cwd: project, env: { ...daemon.environment, DIVVY_BINARY: daemon.binary }, stdio: 'pipe' });
  assert.equal(daemon.json('queue', '--all').length, before + 2);
  daemon.divvy('cancel', '--all', '--grace', '0');
});

test('errors name their line or parameter, and nothing is submitted', async () => {
  await showFreshSubmit(page);
  await page.check('input[value=valohai]');
  await page.fill('[data-field=yaml]', '- step:\n    name: train\n    imge: x\n    command: true\n');
  await page.waitForSelector('[data-problems] >> text=/line 3.*imge.*did you mean/');
  assert.ok(await page.locator('[data-submit]').isDisabled());
  // One step that cannot be blocks the others: which it is, and what it lacks, is said first.
  await page.fill('[data-field=yaml]', kYaml + '- step:\n    name: bad\n    image: b\n');
  const line = kYaml.split('\n').length + 1;
  await page.waitForSelector(`[data-mend] >> text=/Fix line ${line} to choose a step/`);
  await page.waitForSelector(`[data-problems] >> text=/line ${line} *step 'bad': needs the key 'command'/`);
  await page.fill('[data-field=yaml]', kYaml);
  await page.waitForSelector('[data-parameters]');
  assert.equal(await page.locator('[data-mend]').count(), 0);
  await field('lr').fill('7');
  await page.waitForSelector('[data-preview] .notice.bad >> text=/lr/');
  assert.ok(await page.locator('[data-submit]').isDisabled());
  await field('lr').fill('0.5');
  await page.fill('[data-field=vh-gpus]', '99');
  await page.waitForSelector('[data-preview] .notice.bad >> text=/99 GPUs/');
  await page.fill('[data-field=project]', 'relative/path');
  await page.waitForSelector('[data-preview] >> text=/write a whole path/');
  await page.selectOption('[data-field=step]', 'evaluate');
  await page.fill('[data-field=project]', '');
  await until('the other step', async () => (await page.locator('[data-made=gpus]').innerText()) === '1');
  assert.equal(daemon.json('queue').length, 0);
});

test('VH_GPUS among the variables requests GPUs if nothing else does', async () => {
  await showFreshSubmit(page);
  await page.fill('[data-field=command]', 'sleep 1000');
  await page.click('summary:has-text("More")');
  const environment = page.locator('label:has-text("Environment") textarea');
  await environment.fill('VH_GPUS=4');
  await page.waitForSelector('[data-preview] >> text=/asks for 4 GPUs/');
  await page.waitForSelector('[data-preview] >> text=/^4 GPUs/');
  await page.waitForSelector('[data-line=ready]');
  assert.equal(await page.locator('[data-preview] pre').innerText(), `divvy submit --gpus 4 --chdir ${home} --env VH_GPUS=4 -- sleep 1000`);
  await environment.fill('VH_GPUS=many');
  await page.waitForSelector('[data-preview] .notice.bad >> text=/VH_GPUS: expected a whole number/');
  await environment.fill('');
  await page.fill('[data-field=gpus]', '1');
  await environment.fill('VH_GPUS=4');
  await until('what is said to win', async () => (await page.locator('[data-preview] pre').innerText()) === `divvy submit --gpus 1 --chdir ${home} --env VH_GPUS=4 -- sleep 1000`);
  await page.click('[data-submit]');
  await page.waitForSelector('h2:has-text("Facts")');
  assert.equal(daemon.json('queue')[0].request.gpus, 1);
  daemon.divvy('cancel', '--all', '--grace', '0');
});

test("a job's environment is folded, filterable, masks secrets and is shown to its owner only", async () => {
  const id = daemon.submit('--gpus', '0', '--env', 'API_TOKEN=very-secret', '--env', 'PLAIN=seen', '--env', 'DB=postgres://ada:hush@db/x', '--', 'sleep', '1000');
  await show(`job/${id}`);
  const panel = page.locator('[data-environment]');
  await panel.waitFor();
  assert.equal(await panel.locator('[role=row]').count(), 0, 'nothing is asked for before it is opened');
  await panel.locator('summary').click();
  await panel.locator('[data-filter]').fill('the job');
  await until('what it asked for itself', async () => (await panel.locator('.rows [role=row]').count()) === 3);
  const text = await panel.innerText();
  assert.ok(text.includes('seen'));
  assert.ok(!text.includes('very-secret') && !text.includes('hush'), text);
  await panel.locator('.cover').first().click();
  await until('the one that was clicked', async () => (await panel.innerText()).includes('very-secret'));
  assert.ok(!(await panel.innerText()).includes('hush'));
  // Once more, with what it brought.
  await page.click('a:has-text("Submit a copy")');
  await until('its variables', async () => (await page.locator('label:has-text("Environment") textarea').inputValue()).includes('PLAIN=seen'));
  // Somebody else sees that there is such a job, and not what it brings.
  const other = await openPage(browser);
  other.expects.push(/403/);
  await other.goto(daemon.link().replace(/#.*/, ''));
  await other.fill('#token', daemon.divvy('token', 'create', '--user', 'nobody', '--role', 'user').trim());
  await other.click('button:has-text("Log in")');
  await other.waitForSelector('[data-tile="Running"]');
  await other.evaluate((job) => (location.hash = '#/job/' + job), id);
  await other.waitForSelector('h2:has-text("Facts")');
  assert.equal(await other.locator('[data-environment]').count(), 0);
  const refused = await other.evaluate(async (job) => {
    const answer = await fetch(`/v1/jobs/${job}/environment`, { headers: { 'Divvy-Page': sessionStorage.getItem('divvy-page') } });
    return [answer.status, await answer.text()];
  }, id);
  assert.equal(refused[0], 403, refused[1]);
  assert.match(refused[1], /who alone may see its environment/);
  assert.deepEqual(other.troubles, []);
  const mine = await daemon.ask('GET', `/v1/jobs/${id}/environment`);
  assert.ok(mine.variables.some((one) => one.name === 'API_TOKEN' && one.is_asked));
  assert.ok(mine.variables.some((one) => one.name === 'PATH' && !one.is_asked));
  assert.deepEqual(page.troubles, []);
});
