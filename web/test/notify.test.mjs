// Receivers of notifications: listed, added, tested and removed on the page, in the words and with the rights of divvy notify.
import assert from 'node:assert/strict';
import { existsSync, readFileSync } from 'node:fs';
import { createServer } from 'node:http';
import { after, before, test } from 'node:test';
import { Daemon, enter, leave, openPage, showView, until } from './world.mjs';

let daemon, browser, page, hooks;
const posted = [];
before(async () => {
  hooks = createServer((request, response) => {
    let body = '';
    request.on('data', (piece) => (body += piece));
    request.on('end', () => {
      posted.push({ path: request.url, signature: request.headers['webhook-signature'], ...JSON.parse(body) });
      response.writeHead(request.url.startsWith('/broken') ? 404 : 204).end();
    });
  });
  await new Promise((ready) => hooks.listen(0, '127.0.0.1', ready));
  const port = 20000 + ((process.pid * 13) % 20000);
  daemon = new Daemon(process.env.DIVVY, '2xH100-80GB', `[controller]\nlisten = "127.0.0.1:${port}"\n[notify.ops]\nevents = "gpu_fenced"\nwebhook = "http://127.0.0.1:${hooks.address().port}/ops?key=hidden"\n`).up();
  ({ browser, page } = await enter(daemon));
  await showView(page, 'notifications');
});
after(async () => {
  await leave(browser, daemon);
  hooks?.close();
});
const url = (path) => `http://127.0.0.1:${hooks.address().port}${path}`;
const row = (name) => page.locator('.rows [role=row]', { has: page.locator(`[role=cell]:text-is("${name}")`) });
const receiver = (name) => daemon.json('notify').receivers.find((one) => one.name === name);
async function add(name, channel, target, events = ['end'], secret = '') {
  await page.fill('[data-field=name]', name);
  await page.selectOption('[data-field=channel]', channel);
  await page.fill('[data-field=target]', target);
  if (channel === 'webhook') await page.fill('[data-field=secret]', secret);
  for (const event of ['start', 'end', 'fail', 'requeue', 'waste']) await page.setChecked(`form input[value=${event}]`, events.includes(event));
  await page.click('form button:text-is("Add")');
}

test('a webhook can be added and tested, shows its secret once and receives a notice of a job', async () => {
  await add('phone', 'webhook', url('/hook?token=hidden'), ['start', 'end']);
  await page.waitForSelector('[data-secret]');
  const secret = await page.locator('[data-secret] code').innerText();
  assert.match(secret, /^whsec_/);
  await row('phone').waitFor();
  await row('phone').locator('button:text-is("Test")').click();
  await page.waitForSelector('text=/phone: delivered: .*204/');
  assert.deepEqual(posted.map((one) => [one.path, one.event]), [['/hook?token=hidden', 'test']]);
  assert.ok(posted[0].signature.startsWith('v1,'));
  daemon.submit('--gpus', '0', '--name', 'told', '--', 'true');
  await until('its start and its end', () => posted.length === 3);
  assert.deepEqual(posted.slice(1).map((one) => one.event), ['start', 'end']);
  await page.click('[data-secret] button');
  await until('what was sent to be counted', async () => (await row('phone').innerText()).split('\n').includes('2'));
  const said = receiver('phone');
  const cells = await row('phone').locator('[role=cell]').allInnerTexts();
  for (const piece of [said.user, said.events, 'webhook (signed)', said.target]) assert.ok(cells.includes(piece), `${piece} in ${cells}`);
  const shown = await page.content();
  for (const hidden of ['token=hidden', 'key=hidden', secret]) assert.ok(!shown.includes(hidden), hidden);
});

test('commands and mail receivers show their last error', async () => {
  await add('desk', 'command', `cat >${daemon.home}/said`, ['fail', 'waste']);
  await row('desk').waitFor();
  assert.equal(await page.locator('[data-secret]').count(), 0);
  await row('desk').locator('button:text-is("Test")').click();
  await page.waitForSelector('text=/desk: delivered: /');
  assert.equal(JSON.parse(readFileSync(`${daemon.home}/said`, 'utf8')).event, 'test');
  assert.equal(receiver('desk').events, 'fail,waste');
  await add('me', 'mail', 'ada@example.org');
  await row('me').waitFor();
  assert.equal(receiver('me').target, 'ada@example.org');
  await add('broken', 'webhook', url('/broken'), ['end']);
  await row('broken').waitFor();
  await row('broken').locator('button:text-is("Test")').click();
  await page.waitForSelector('text=/broken: not delivered: .*404/');
  daemon.submit('--gpus', '0', '--', 'true');
  await until('its loss', () => receiver('broken').lost === 1);
  await until('its trouble to be shown', async () => (await row('broken').innerText()).includes(receiver('broken').failure));
});

test('invalid receivers are refused with the messages of the command line', async () => {
  const refused = [
    ['webhook', 'ftp://example.org/x'],
    ['mail', 'nobody at all'],
  ];
  for (const [channel, target] of refused) {
    let said = '';
    try {
      daemon.divvy('notify', 'add', 'wrong', `--${channel}`, target);
    } catch (error) {
      said = String(error.stderr).replace(/^divvy: (error: )?/, '').trim();
    }
    assert.ok(said, 'the command line takes it');
    await add('wrong', channel, target);
    await until('the same words', async () => said.includes((await page.locator('form [role=alert]').innerText()).trim()));
  }
  await add('never', 'mail', 'ada@example.org', []);
  await page.waitForSelector("text=with events 'none' it would never receive anything");
  assert.equal(receiver('wrong'), undefined);
  page.troubles = page.troubles.filter((one) => !one.includes('400'));
});

test('replacing a receiver of the same name asks for confirmation', async () => {
  await add('me', 'mail', 'grace@example.org', ['fail']);
  await page.click('dialog button:text-is("Keep it")');
  assert.equal(receiver('me').target, 'ada@example.org');
  assert.equal(await page.inputValue('[data-field=target]'), 'grace@example.org', 'what was typed stays');
  await page.click('form button:text-is("Add")');
  await page.click('dialog button:text-is("Replace it")');
  await until('the other', () => receiver('me').target === 'grace@example.org' && receiver('me').events === 'fail');
  page.troubles = page.troubles.filter((one) => !one.includes('409'));
});

test('an administrator sees and tests receivers of divvy.toml but cannot remove them here', async () => {
  assert.equal(await row('ops').locator('button:text-is("Remove")').count(), 0);
  assert.ok((await row('ops').locator('[role=cell]').allInnerTexts()).includes('divvy.toml'));
  await row('ops').locator('button:text-is("Test")').click();
  await page.waitForSelector('text=/ops: delivered: .*204/');
});

test('a removed receiver is gone on the page and the command line', async () => {
  await row('desk').locator('button:text-is("Remove")').click();
  await page.click('dialog button:text-is("Keep it")');
  assert.ok(receiver('desk'));
  await row('desk').locator('button:text-is("Remove")').click();
  await page.click('dialog button:text-is("Remove it")');
  await row('desk').waitFor({ state: 'detached' });
  assert.equal(receiver('desk'), undefined);
  assert.deepEqual(page.troubles, []);
});

test('neither a read-only user nor another site can add a receiver', async () => {
  const token = daemon.divvy('token', 'create', '--role', 'viewer').trim();
  const looks = await openPage(browser);
  looks.expects = [/403|401/];
  await looks.goto(daemon.link().replace(/#.*/, ''));
  await looks.fill('#token', token);
  await looks.click('button.primary');
  await looks.waitForSelector('text=read-only');
  await showView(looks, 'notifications');
  await looks.waitForSelector('[role=table]');
  assert.equal(await looks.locator('main form, main button:text-is("Test"), main button:text-is("Remove")').count(), 0);
  const post = (headers) =>
    looks.evaluate(
      async (more) => (await fetch('/v1/notify', { method: 'POST', headers: { 'Content-Type': 'application/json', ...more }, body: '{"name":"sly","command":"touch sly"}' })).status,
      headers,
    );
  const status = await post({ 'Divvy-Page': await looks.evaluate(() => sessionStorage.getItem('divvy-page')) });
  assert.ok(status === 401 || status === 403, String(status));
  // The administrator's own browser, asked by something that has the cookie and not the page's secret.
  const sly = await page.evaluate(async () => (await fetch('/v1/notify', { method: 'POST', body: '{"name":"sly","command":"touch sly"}' })).status);
  assert.equal(sly, 401);
  assert.equal(receiver('sly'), undefined);
  assert.ok(!existsSync(`${daemon.home}/sly`));
});
