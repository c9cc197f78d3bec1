// Every view, light and dark, large and on a phone, through axe: nothing serious or moderate.
import assert from 'node:assert/strict';
import { createRequire } from 'node:module';
import { after, before, test } from 'node:test';
import { Daemon, leave, openBrowser, openPage, until } from './world.mjs';
import { kTeams, work } from './scene.mjs';

const axe = createRequire(import.meta.url).resolve('axe-core/axe.min.js');
let daemon, browser;
before(async () => {
  daemon = new Daemon(process.env.DIVVY, '8xH100-80GB', kTeams).up();
  await work(daemon);
  await until('somebody who wastes GPUs', async () => (await daemon.ask('GET', '/v1/waste')).jobs.length > 0, 60);
  browser = await openBrowser();
});
after(() => leave(browser, daemon));

async function check(page, where) {
  // Into the page by the debugger: its policy lets no other script in.
  await page.addScriptTag({ path: axe }).catch(() => page.evaluate(() => {}));
  const found = await page.evaluate(async () => {
    const result = await window.axe.run(document, { resultTypes: ['violations'] });
    return result.violations.filter((one) => ['moderate', 'serious', 'critical'].includes(one.impact)).map((one) => `${one.id}: ${one.help} at ${one.nodes.map((node) => node.target.join(' ')).slice(0, 4).join('; ')} (${one.nodes[0].failureSummary?.replace(/\s+/g, ' ').slice(0, 160)})`);
  });
  return found.map((one) => `${where}: ${one}`);
}

for (const scheme of ['light', 'dark']) {
  for (const viewport of [{ width: 1280, height: 800 }, { width: 390, height: 844 }]) {
    test(`${scheme}, ${viewport.width} wide`, async () => {
      const found = [];
      const page = await openPage(browser, { colorScheme: scheme, viewport, bypassCSP: true });
      // A line of a machine among the events, which is of no job.
      await page.route(/\/v1\/history/, async (route) => {
        const response = await route.fetch();
        await route.fulfill({ response, json: [{ time: Date.now() / 1000, id: null, text: 'node n1 is away' }, ...(await response.json())] });
      });
      await page.goto(daemon.link().replace(/#.*/, ''));
      await page.waitForSelector('#token');
      found.push(...(await check(page, 'login')));
      await page.goto(daemon.link());
      await page.waitForSelector('[data-tile="Running"]');
      for (const view of ['overview', 'queue', 'job/31', 'job/34', 'nodes', 'providers', 'services', 'sweeps', 'teams', 'usage', 'whatif', 'submit', 'events', 'notifications']) {
        await page.evaluate((name) => (location.hash = '#/' + name), view);
        await page.waitForSelector('main h1, main .tiles');
        await page.waitForTimeout(700);
        if (await page.locator('[data-environment] summary').count()) {
          await page.click('[data-environment] summary');
          await page.waitForSelector('[data-environment] .rows [role=row]');
        }
        if (view === 'events') await page.waitForSelector('.rows [role=row] .badge:has-text("node")');
        if (view === 'submit') {
          found.push(...(await check(page, view)));
          await page.check('input[value=valohai]');
          await page.fill('[data-field=yaml]', '- step:\n    name: a\n    image: b\n    command: c {parameters}\n    parameters: [{name: p, default: "1", choices: ["1"]}, {name: f, type: flag}, {name: m, type: integer, multiple: separate, default: [1, 2]}]\n    inputs: [{name: i, default: x}]\n    environment-variables: [{name: V, default: w}]\n');
          await page.waitForSelector('[data-made=gpus]');
        }
        found.push(...(await check(page, view)));
        const over = await page.evaluate(() => document.documentElement.scrollWidth - document.documentElement.clientWidth);
        if (over > 0) found.push(`${view} is ${over} px wider than the screen of ${viewport.width}`);
      }
      await page.close();
      assert.deepEqual(found, []);
    });
  }
}
