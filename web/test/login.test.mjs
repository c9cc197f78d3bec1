// How a browser is let in, and what it may then.
import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';
import { Daemon, openBrowser, openPage, showView, until } from './world.mjs';

let daemon, browser;
before(async () => {
  const port = 20000 + ((process.pid * 7) % 20000);
  daemon = new Daemon(process.env.DIVVY, '2xH100-80GB', `[controller]\nlisten = "127.0.0.1:${port}"\n[ui]\nremote = true\n`).up();
  browser = await openBrowser();
});
after(async () => {
  await browser?.close();
  daemon?.stop();
});

test('a login link works once and leaves no trace in the address', async () => {
  const link = daemon.link();
  assert.match(link, /^http:\/\/127\.0\.0\.1:\d+\/#login=[0-9a-f]{64}$/);
  const page = await openPage(browser);
  await page.goto(link);
  await page.waitForSelector('[data-tile="Running"]');
  assert.ok(!page.url().includes('login='), page.url());
  const said = await page.locator('main').innerText();
  assert.ok(!said.includes('There is no view') && !said.includes(link.split('=')[1]), said);
  assert.equal(await page.evaluate(() => history.length), await page.evaluate(() => history.length));
  const cookies = await page.context().cookies();
  assert.equal(cookies.length, 1);
  assert.equal(cookies[0].httpOnly, true);
  assert.equal(cookies[0].sameSite, 'Strict');
  assert.equal(await page.evaluate(() => document.cookie), '');
  // Reloaded, it is still in.
  await page.reload();
  await page.waitForSelector('nav');
  assert.deepEqual(page.troubles, []);

  // A further link, opened where the page is there already.
  await page.evaluate(() => (location.hash = '#/queue'));
  await page.waitForSelector('h1:text-is("Queue")');
  const further = daemon.link();
  await page.evaluate((hash) => (location.hash = hash), further.replace(/^[^#]*/, ''));
  await page.waitForSelector('[data-tile="Running"]');
  assert.ok(!page.url().includes('login='), page.url());
  assert.ok(!(await page.locator('body').innerText()).includes(further.split('=')[1]));
  assert.deepEqual(page.troubles, []);

  const second = await openPage(browser);
  second.expects = [/401/];
  await second.goto(link);
  await second.waitForSelector('text=this login link is invalid');
  assert.equal(await second.locator('nav').count(), 0);
  assert.deepEqual(second.troubles, []);
});

test('without a login only the login page is shown, and no data', async () => {
  const page = await openPage(browser);
  const answers = [];
  page.on('response', (response) => answers.push(new URL(response.url()).pathname));
  await page.goto(daemon.link().replace(/#.*/, ''));
  await page.waitForSelector('text=Log in to divvy');
  assert.deepEqual(answers.filter((path) => path.startsWith('/v1/')), []);
  assert.deepEqual(page.troubles, []);
});

test('a cookie without the secret of the page does not log in', async () => {
  const link = daemon.link();
  const page = await openPage(browser);
  await page.goto(link);
  await page.waitForSelector('nav');
  const status = await page.evaluate(async () => (await fetch('/v1/status')).status);
  assert.equal(status, 401);
  const other = await page.evaluate(async () => (await fetch('/v1/status', { headers: { 'Divvy-Page': '0'.repeat(64) } })).status);
  assert.equal(other, 401);
  const own = await page.evaluate(async () => (await fetch('/v1/status', { headers: { 'Divvy-Page': sessionStorage.getItem('divvy-page') } })).status);
  assert.equal(own, 200);
});

test('logging out ends the session', async () => {
  const page = await openPage(browser);
  page.expects = [/401/];
  await page.goto(daemon.link());
  await page.waitForSelector('nav');
  const secret = await page.evaluate(() => sessionStorage.getItem('divvy-page'));
  const cookies = await page.context().cookies();
  await page.click('[aria-label="Log out"]');
  await page.waitForSelector('text=Log in to divvy');
  await page.context().addCookies(cookies);
  const status = await page.evaluate(async (key) => (await fetch('/v1/status', { headers: { 'Divvy-Page': key } })).status, secret);
  assert.equal(status, 401);
  assert.deepEqual(page.troubles, []);
});

test('a read-only token shows data and offers no actions', async () => {
  const id = daemon.submit('--gpus', '1', '--name', 'kept', '--', 'sleep', '1000');
  const token = daemon.divvy('token', 'create', '--role', 'viewer').trim();
  const page = await openPage(browser);
  page.expects = [/401/, /403/];
  await page.goto(daemon.link().replace(/#.*/, ''));
  await page.fill('#token', 'nonsense');
  await page.click('text=Log in >> nth=-1');
  await page.waitForSelector('[role=alert]');
  await page.fill('#token', token);
  await page.click('button.primary');
  await page.waitForSelector('nav');
  await page.waitForSelector('text=read-only');
  await page.goto(page.url().replace(/#.*/, '') + `#/job/${id}`);
  await page.waitForSelector('text=kept');
  assert.equal(await page.locator('button:has-text("Cancel")').count(), 0);
  // What is refused is not asked for: the console stays free of it.
  const refused = [];
  page.on('response', (answer) => answer.status() === 403 && refused.push(`${answer.request().method()} ${answer.url()}`));
  await page.goto(page.url().replace(/#.*/, '') + `#/submit?from=${id}`);
  await page.waitForSelector('text=Your token is read-only');
  await page.fill('[data-field=command]', 'true');
  await page.waitForSelector('[data-line=ready]');
  for (const view of ['overview', 'queue', 'nodes', 'providers', 'services', 'sweeps', 'teams', 'usage', 'whatif', 'events', 'notifications']) {
    await showView(page, view);
    await page.waitForTimeout(300);
  }
  assert.deepEqual(refused, []);
  await showView(page, `job/${id}`);
  // Whatever the page shows: the daemon refuses.
  const status = await page.evaluate(
    async (job) =>
      (await fetch('/v1/jobs/cancel', { method: 'POST', headers: { 'Divvy-Page': sessionStorage.getItem('divvy-page'), 'Content-Type': 'application/json' }, body: JSON.stringify({ select: { ids: [job], user: 'all' } }) })).status,
    id,
  );
  assert.ok(status === 401 || status === 403, String(status));
  assert.equal(daemon.json('show', id).state, 'running');
  // Removed, it is worth nothing at once.
  daemon.divvy('token', 'remove', /#([0-9a-f]+)\./.exec(token)[1]);
  await page.waitForSelector('text=Log in to divvy');
  assert.deepEqual(page.troubles, []);
});

test("the page requests no private data of another user's job", async () => {
  const id = daemon.submit('--gpus', '0', '--name', 'not-theirs', '--', 'sh', '-c', 'echo hidden; sleep 1000');
  await until('it to run', () => daemon.json('show', id).state === 'running');
  const page = await openPage(browser);
  await page.goto(daemon.link().replace(/#.*/, ''));
  await page.fill('#token', daemon.divvy('token', 'create', '--user', 'nobody', '--role', 'viewer').trim());
  await page.click('button.primary');
  await page.waitForSelector('[data-tile="Running"]');
  await showView(page, `job/${id}`);
  await page.waitForSelector('.log >> text=/Only the owner, .*, may read this log/');
  daemon.divvy('cancel', id, '--grace', '0');
  await page.waitForTimeout(1500);
  await page.waitForSelector('.log >> text=/Only the owner, .*, may read this log/');
  assert.deepEqual(page.troubles, []);
});

test('the page works over TLS', async () => {
  const link = daemon.link('--remote');
  assert.match(link, /^https:\/\/127\.0\.0\.1:\d+\/#login=/);
  const page = await openPage(browser, { ignoreHTTPSErrors: true });
  await page.goto(link);
  await page.waitForSelector('nav');
  await page.waitForSelector('[data-tile="GPUs in use"]');
  const [cookie] = await page.context().cookies();
  assert.ok(cookie.secure && cookie.name.startsWith('__Host-'), JSON.stringify(cookie));
  // A link of one door is nothing at the other.
  const other = await openPage(browser);
  other.expects = [/401/];
  await other.goto(daemon.link('--remote').replace(/^https:\/\/[^/]*/, daemon.link().replace(/\/#.*/, '')));
  await other.waitForSelector('text=this login link is invalid or was already used');
  assert.deepEqual([...page.troubles, ...other.troubles], []);
});

test('a session survives a restart of the daemon on the same port, and the page reconnects by itself', async () => {
  const page = await openPage(browser);
  page.expects = [/ERR_CONNECTION_REFUSED/, /ERR_EMPTY_RESPONSE/, /ERR_CONNECTION_RESET/, /ERR_INCOMPLETE_CHUNKED_ENCODING/, /ERR_SOCKET_NOT_CONNECTED/];
  await page.goto(daemon.link());
  await page.waitForSelector('[data-tile="Running"]');
  process.kill(daemon.json('status').pid, 'SIGKILL');
  await page.waitForSelector('text=Disconnected');
  await until('the old daemon to go', () => {
    try {
      daemon.json('status');
      return false;
    } catch {
      return true;
    }
  });
  // What was known is still shown.
  assert.equal(await page.locator('[data-tile="Running"]').count(), 1);
  daemon.up();
  const id = daemon.submit('--gpus', '1', '--name', 'after-restart', '--', 'sleep', '1000');
  await page.waitForSelector('text=Disconnected', { state: 'detached', timeout: 20_000 });
  await page.waitForSelector('text=after-restart');
  daemon.divvy('cancel', id, '--grace', '0');
  assert.deepEqual(page.troubles, []);
});

test('a page whose controller no longer leads has a link to the one that does', async () => {
  const page = await openPage(browser, { ignoreHTTPSErrors: true });
  page.expects.push(/ERR_|\/leader|50[0-9]/);
  const link = daemon.link('--remote');
  const own = new URL(link).host;
  const controllers = [own, 'gpu2.lab:7433', 'gpu3.lab:7433', 'x"onclick="alert(1)'];
  let answer = { leads: true, name: own, address: own, epoch: 3, controllers };
  await page.route('**/leader', (route) => (answer ? route.fulfill({ status: answer.leads ? 200 : 503, json: answer }) : route.abort()));
  await page.goto(link);
  await page.waitForSelector('[data-tile="Running"]');
  assert.equal(await page.locator('[data-controller]').count(), 0);
  // It stands by: it says who leads, and has nothing else for the page.
  answer = { leads: false, name: 'gpu2.lab:7433', address: 'gpu2.lab:7433', epoch: 4, controllers };
  daemon.divvy('down');
  await page.waitForSelector('text=Another controller leads: gpu2.lab:7433');
  assert.deepEqual(await page.locator('[data-controller]').evaluateAll((all) => all.map((one) => one.href)), ['https://gpu2.lab:7433/']);
  // Its machine is gone: all others are named.
  answer = null;
  await page.waitForSelector('text=Other controllers: gpu2.lab:7433 gpu3.lab:7433');
  assert.equal(await page.locator('[data-controller]').count(), 2);
  answer = { leads: true, name: own, address: own, epoch: 5, controllers };
  daemon.up();
  await page.waitForSelector('text=Disconnected', { state: 'detached' });
  assert.deepEqual(page.troubles, []);
});
