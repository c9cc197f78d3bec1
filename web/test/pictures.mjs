// Screenshots of every view, light and dark, into docs/pictures/web.
import { mkdirSync } from 'node:fs';
import { createServer } from 'node:http';
import { join } from 'node:path';
import { kTeams, work } from './scene.mjs';
import { Daemon, openBrowser, openPage } from './world.mjs';

const kYaml = `- step:
    name: full-training
    image: pytorch/pytorch:2.0.0-cuda11.7-cudnn8-runtime
    description: trains the whole model
    command: python train.py {parameters}
    environment-variables:
      - {name: VH_GPUS, default: 2}
    parameters:
      - {name: lr, type: float, default: 0.001, min: 0, max: 1}
      - {name: optimiser, choices: [adam, sgd], default: adam}
      - {name: epochs, type: integer, default: 10}
      - {name: mixed-precision, type: flag, default: true}
    inputs:
      - {name: dataset, default: data/train.csv, optional: true}
`;
const folder = process.argv[2];
mkdirSync(folder, { recursive: true });
const daemon = new Daemon(process.env.DIVVY, '8xH100-80GB', `${kTeams}[notify.oncall]\ncommand = "true"\nevents = ["fail", "gpu_fenced", "gpu_unmanaged"]\n`).up();
// Who hears of what happens: one that takes it, and one that is not there.
const hooks = createServer((asked, answer) => asked.resume().on('end', () => answer.end('ok'))).listen(0, '127.0.0.1');
const browser = await openBrowser();
try {
  await new Promise((resolve) => (hooks.listening ? resolve() : hooks.once('listening', resolve)));
  daemon.divvy('notify', 'add', 'team-channel', '--webhook', `http://127.0.0.1:${hooks.address().port}/gpus`, '--on', 'start,fail,waste');
  daemon.divvy('notify', 'add', 'desk', '--command', 'send-to-desk "$DIVVY_TEXT"', '--on', 'fail');
  const first = await work(daemon);
  const seconds = Number(process.env.PICTURE_SECONDS ?? 45);
  // For curves with something in them.
  for (let i = 0; i < seconds / 3; ++i) {
    for (const gpu of [0, 1, 2, 4, 5]) daemon.divvy('emulate', 'utilisation', String(gpu), String(Math.round(70 + 25 * Math.sin(i / 2 + gpu))), '40');
    await new Promise((resolve) => setTimeout(resolve, 3000));
  }
  const waiting = daemon.json('queue').find((job) => job.name === 'pretrain-7b').id;
  const views = { overview: 'overview', queue: 'queue', job: `job/${first}`, waiting: `job/${waiting}`, nodes: 'nodes', teams: 'teams', notifications: 'notifications', usage: 'usage', submit: 'submit', valohai: 'submit', events: 'events', 'what-if': 'whatif' };
  for (const colorScheme of ['light', 'dark']) {
    const page = await openPage(browser, { colorScheme, viewport: { width: 1280, height: 800 } });
    await page.goto(daemon.link());
    await page.waitForSelector('[data-tile="Running"]');
    for (const [name, view] of Object.entries(views)) {
      await page.evaluate((hash) => (location.hash = '#/' + hash), view);
      await page.waitForTimeout(1800);
      if (name === 'submit') {
        await page.fill('[data-field=command]', 'python train.py --epochs 10');
        await page.fill('[data-field=gpus]', '2');
        await page.fill('[data-field=hours]', '4');
        await page.waitForTimeout(900);
      }
      if (name === 'valohai') {
        await page.check('input[value=valohai]');
        await page.fill('[data-field=yaml]', kYaml);
        await page.waitForSelector('[data-made=gpus]');
        await page.click('summary:has-text("Script")');
        await page.waitForTimeout(900);
      }
      if (name === 'what-if') {
        await page.fill('[data-field=more]', '8');
        await page.click('[data-run]');
        await page.waitForSelector('[aria-label=Policies] .rows [role=row]');
        await page.waitForTimeout(400);
      }
      await page.screenshot({ path: join(folder, `${name}-${colorScheme}.png`) });
    }
    await page.close();
  }
  const phone = await openPage(browser, { viewport: { width: 390, height: 844 }, deviceScaleFactor: 1 });
  await phone.goto(daemon.link());
  await phone.waitForSelector('[data-tile="Running"]');
  await phone.waitForTimeout(1500);
  await phone.screenshot({ path: join(folder, 'phone-overview.png') });
  await phone.evaluate(() => (location.hash = '#/queue'));
  await phone.waitForTimeout(1200);
  await phone.screenshot({ path: join(folder, 'phone-queue.png') });
  await phone.evaluate((id) => (location.hash = '#/job/' + id), first);
  await phone.waitForTimeout(1500);
  await phone.screenshot({ path: join(folder, 'phone-job.png') });
} finally {
  await browser.close();
  daemon.stop();
  hooks.close();
}
