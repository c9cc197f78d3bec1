// Submit: a job once more with all that it asked for, a shell's signs, a script's own lines, and a command line that says the same.
import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import { readFileSync, writeFileSync } from 'node:fs';
import { after, before, test } from 'node:test';
import { Daemon, enter, home, leave, showFreshSubmit, showView, until } from './world.mjs';

let daemon, browser, page;
before(async () => {
  daemon = new Daemon(process.env.DIVVY, '8xH100-80GB').up();
  ({ browser, page } = await enter(daemon));
});
after(() => leave(browser, daemon));
const show = (view) => showView(page, view);

const kAll = '--gpus 2 --gpu-type h100 --gpu-memory 40G --cpus 2 --memory 1536M --topology nvlink:required --placement spread --exclude nx --preemptible requeue --retries 3 --retry-delay 1m --priority -4 --begin now+5h --deadline now+9h --time 90s --group g --comment'.split(' ').concat('a comment', '--output', 'o-%j.log', '--error', 'e.log', '--account', 'acc', '--array', '1-9:2%2', '--env', 'A=two words', '--notify', 'fail', '--signal', 'USR1@30s', '--grace', '5s', '--pool', 'label');
/** What was asked for, of divvy show. */
const asked = (id) => {
  const { request, retries_left, priority, group, comment, account, array_indices, array_at_once, labels, preemptible, eligible_time, output, pool, command, script, name, directory, dependencies } = daemon.json('show', id);
  return { request, retries_left, priority, group, comment, account, array_indices, array_at_once, labels, preemptible, eligible_time, output: output.replace(id, ''), pool, command, script, name, directory, dependencies };
};
async function likeIt(id) {
  await show(`job/${id}`);
  await page.click('a:has-text("Submit a copy")');
  await page.waitForSelector('[data-also] >> text=/Copied from/');
  await page.waitForSelector('[data-submit]:not([disabled])');
  await page.waitForSelector('[data-line=ready]');
}
async function submitted() {
  await page.click('[data-submit]');
  await page.waitForSelector('h2:has-text("Facts")');
  return (await page.evaluate(() => location.hash)).split('/').pop();
}

test('submitting a similar job keeps the whole request, also settings without a form field', async () => {
  const id = daemon.submit(...kAll, '--', 'sh', '-c', 'echo "$A" > it; true');
  await likeIt(id);
  const also = await page.locator('[data-also]').innerText();
  for (const piece of ['--gpu-memory 40G', '--placement spread', '--exclude nx', '--retry-delay 1m', '--begin ', '--deadline ', '--group g', "--comment 'a comment'", '--error e.log', '--account acc', '--notify fail', '--signal SIGUSR1@30s', '--grace 5s', '--pool label', 'the variables of where it was submitted']) assert.ok(also.includes(piece), `${piece} in ${also}`);
  assert.ok(!/--gpus|--retries|--output|--array/.test(also), also);
  const line = await page.locator('[data-preview] pre').innerText();
  const other = await submitted();
  assert.notEqual(other, id);
  assert.deepEqual(asked(other), asked(id));
  const bring = async (of) => (await daemon.ask('GET', `/v1/jobs/${of}/environment`)).variables;
  assert.deepEqual(await bring(other), await bring(id));
  // And the line that it offers says the same again.
  const third = execFileSync('sh', ['-c', line.replace(/^divvy submit/, '"$DIVVY" submit --quiet')], { env: { ...daemon.environment, DIVVY: daemon.binary }, cwd: daemon.home, encoding: 'utf8' }).trim();
  const whole = (of) => ({ ...asked(of), eligible_time: Math.floor(asked(of).eligible_time), request: { ...asked(of).request, end_by: Math.floor(asked(of).request.end_by) } });
  assert.deepEqual(whole(third), whole(id));
  // What is left out is gone, and nothing else.
  await likeIt(id);
  await page.click('[data-also] button[aria-label^="Leave out --exclude"]');
  await page.click('[data-also] button[aria-label^="Leave out --begin"]');
  await until('them to go', async () => !/--exclude|--begin/.test(await page.locator('[data-also]').innerText()));
  const fourth = asked(await submitted());
  assert.deepEqual(fourth.request, { ...asked(id).request, excluded_nodes: [] });
  assert.ok(fourth.eligible_time < Date.now() / 1000 + 5);
  assert.equal(fourth.comment, 'a comment');
  daemon.divvy('cancel', '--all', '--grace', '0');
});

test('submitting a similar job works for scripts, components, one array element and past times', async () => {
  writeFileSync(`${daemon.home}/scr.sh`, '#!/bin/bash\n# DIVVY --comment "by a line"\necho "$2"\n');
  const script = daemon.submit('--hold', 'scr.sh', 'alpha', 'beta gamma');
  await likeIt(script);
  assert.equal(await page.inputValue('[data-field=arguments]'), "alpha 'beta gamma'");
  assert.match(await page.locator('[data-also]').innerText(), /Also from the script's own lines: --comment 'by a line'/);
  const like = await submitted();
  assert.deepEqual(asked(like), asked(script));
  assert.match(asked(like).command, /alpha 'beta gamma'/);
  const parts = daemon.submit('--hold', '--gpus', '1', ':', '--cpus', '1', '--', 'true');
  await likeIt(parts);
  assert.match(await page.locator('[data-also]').innerText(), /: --cpus 1/);
  assert.deepEqual(asked(await submitted()), asked(parts));
  const many = daemon.submit('--gpus', '0', '--param', 'lr=0.1,0.2', '--begin', 'now+1s', '--', 'sh', '-c', 'echo {lr}');
  await until('its elements', () => daemon.json('show', many).state === 'succeeded');
  const element = String(Number(many) + 2);
  await likeIt(element);
  assert.match(await page.locator('[data-also]').innerText(), /--param lr=0\.2/);
  assert.match(await page.locator('[data-also]').innerText(), /Left out: --begin: the time has passed/);
  const again = await submitted();
  await until('its end', () => daemon.json('show', again).state === 'succeeded');
  assert.equal(daemon.divvy('logs', again).trim().split('\n').pop().replace(/^.*\| ?/, ''), '0.2');
  daemon.divvy('cancel', '--all', '--grace', '0');
});

test('a command with shell syntax visibly runs in a shell, and the shown line is what is sent', async () => {
  await showFreshSubmit(page);
  const pre = async () => {
    await page.waitForSelector('[data-line=ready]');
    return page.locator('[data-preview] pre').innerText();
  };
  await page.fill('[data-field=gpus]', '0');
  await page.fill('[data-field=hours]', '0.005');
  await page.fill('[data-field=command]', 'echo a && echo b > file');
  await page.waitForSelector('[data-shell] >> text=/&& > need a shell/');
  await until('a shell', async () => (await pre()) === `divvy submit --time 18s --chdir ${home} -- sh -c 'echo a && echo b > file'`);
  await page.check('[data-plain]');
  await until('words', async () => (await pre()) === `divvy submit --time 18s --chdir ${home} -- echo a '&&' echo b '>' file`);
  await page.check('[data-shell] input >> nth=0');
  await until('a shell again', async () => (await pre()).includes('sh -c'));
  await page.fill('[data-field=directory]', daemon.home);
  await until('that directory', async () => (await pre()).includes(`--chdir ${daemon.home} `));
  const id = await submitted();
  await until('its end', () => daemon.json('show', id).state === 'succeeded');
  assert.equal(daemon.json('show', id).request.time_limit_s, 18);
  assert.equal(readFileSync(`${daemon.home}/file`, 'utf8'), 'b\n');
});

test('option lines of a script fill the form as on the command line', async () => {
  await showFreshSubmit(page);
  await page.check('input[value=script]');
  await page.fill('[data-field=script]', '#!/bin/bash\n#SBATCH --gres=gpu:3 --time=1:30:00 --qos=normal\n#SBATCH --job-name=from-lines\ntrue\n');
  await until('its GPUs', async () => (await page.inputValue('[data-field=gpus]')) === '3');
  assert.equal(await page.inputValue('[data-field=hours]'), '1.5');
  assert.equal(await page.inputValue('[data-field=name]'), 'from-lines');
  await page.waitForSelector('[data-preview] >> text=/3 GPUs/');
  await page.waitForSelector('[data-line=ready]');
  assert.equal(await page.locator('[data-preview] pre').innerText(), `divvy submit --chdir ${home} script.sh`);
  await page.fill('[data-field=hours]', '2');
  await until('the words that win', async () => (await page.locator('[data-line=ready]').innerText({ timeout: 500 })) === `divvy submit --time 2h --chdir ${home} script.sh`);
  const job = daemon.json('show', await submitted());
  assert.deepEqual([job.request.gpus, job.request.time_limit_s, job.dialect, job.qos, job.name], [3, 7200, 'slurm', 'normal', 'from-lines']);
  await showFreshSubmit(page);
  await page.check('input[value=script]');
  await page.fill('[data-field=script]', '#!/bin/bash\n# DIVVY --gpus many\ntrue\n');
  await page.waitForSelector('[data-preview] .notice.bad >> text=/script.sh line 2: --gpus/');
  assert.ok(await page.locator('[data-submit]').isDisabled());
  daemon.divvy('cancel', '--all', '--grace', '0');
});

test('typed text is kept while visiting other views, until it is sent or cleared', async () => {
  await showFreshSubmit(page);
  assert.equal(await page.locator('[data-clear]').count(), 0);
  await page.fill('[data-field=command]', 'sleep 1');
  await page.fill('[data-field=gpus]', '3');
  await show('queue');
  await show('submit');
  assert.equal(await page.inputValue('[data-field=command]'), 'sleep 1');
  assert.equal(await page.inputValue('[data-field=gpus]'), '3');
  await page.check('input[value=valohai]');
  await page.fill('[data-field=yaml]', '- step:\n    name: train\n    image: x\n    command: echo {parameters}\n    parameters: [{name: lr, type: float, default: 0.5}]\n');
  await page.waitForSelector('[data-parameters] input');
  await page.fill('[data-parameters] input', '0.7');
  await show('queue');
  await show('submit');
  await page.waitForSelector('[data-parameters] input');
  assert.equal(await page.inputValue('[data-parameters] input'), '0.7');
  await page.check('input[value=command]');
  await submitted();
  await show('submit');
  assert.equal(await page.inputValue('[data-field=command]'), '');
  await page.fill('[data-field=command]', 'x');
  await page.click('[data-clear]');
  assert.equal(await page.inputValue('[data-field=command]'), '');
  assert.equal(await page.inputValue('[data-field=gpus]'), '1');
});

test('the forecast of a submission names the GPUs', async () => {
  daemon.divvy('cancel', '--all', '--grace', '0');
  await until('room', () => daemon.json('queue').length === 0);
  const first = daemon.submit('--gpus', '2', '--', 'sleep', '1000');
  await until('its start', () => daemon.json('show', first).state === 'running');
  await showFreshSubmit(page);
  await page.fill('[data-field=gpus]', '3');
  await until('its place', async () => (await page.locator('[data-place]').innerText({ timeout: 500 })) === 'GPUs 2-4');
  await page.fill('[data-field=command]', 'sleep 1000');
  const id = await submitted();
  assert.deepEqual(daemon.json('show', id).gpus, [2, 3, 4]);
  daemon.divvy('cancel', '--all', '--grace', '0');
});

test('the page reports no errors', () => assert.deepEqual(page.troubles, []));
