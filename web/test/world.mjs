// What the tests of the page stand on: a daemon of their own on stand-in GPUs, a browser, and words for both.
import { execFile, execFileSync, spawn } from 'node:child_process';
import { existsSync, mkdtempSync, readFileSync, readdirSync, rmSync, writeFileSync } from 'node:fs';
import { Agent, request } from 'node:http';
import { tmpdir, userInfo } from 'node:os';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { chromium } from 'playwright-core';

const run = promisify(execFile);
/** Where a job without a directory runs. */
export const home = userInfo().homedir;

export class Daemon {
  constructor(binary, emulate = '8xH100-80GB', config = '') {
    this.binary = binary;
    this.emulate = emulate;
    this.home = mkdtempSync(join(tmpdir(), 'divvy-web-'));
    if (config) writeFileSync(join(this.home, 'divvy.toml'), config);
    this.environment = { ...process.env, DIVVY_HOME: this.home };
    for (const name of ['DISPLAY', 'WAYLAND_DISPLAY', 'DIVVY_JOB_ID', 'SLURM_JOB_ID', 'DIVVY_CONTROLLER']) delete this.environment[name];
  }
  divvy(...words) {
    return execFileSync(this.binary, words, { env: this.environment, cwd: this.home, encoding: 'utf8', maxBuffer: 1 << 28, stdio: ['ignore', 'pipe', 'pipe'] });
  }
  async divvyLater(...words) {
    return (await run(this.binary, words, { env: this.environment, cwd: this.home, encoding: 'utf8', maxBuffer: 1 << 28 })).stdout;
  }
  json(...words) {
    return JSON.parse(this.divvy(...words, '--json'));
  }
  /** As a unit whose service manager holds the page's port while the daemon is away, so that logins outlive restarts. */
  up() {
    const manager = new URL('../../tests/e2e/service_manager.py', import.meta.url).pathname;
    const start = (...words) => spawn('python3', [manager, ...words], { env: this.environment, cwd: this.home, stdio: 'ignore' });
    this.manager ??= start('keep', this.home);
    waitFor('the service manager', () => existsSync(join(this.home, 'start')));
    start('start', this.home, this.binary, 'up', '--foreground', '--emulate', this.emulate);
    waitFor('the daemon', () => this.json('status'));
    return this;
  }
  /** A further machine, with stand-in GPUs: the daemon has to listen (config). */
  addAgent(name, emulate) {
    this.agents ??= mkdtempSync(join(tmpdir(), 'divvy-web-'));
    const token = join(this.agents, `${name}.token`);
    writeFileSync(token, this.divvy('token', 'create', '--node'), { mode: 0o600 });
    const environment = { ...this.environment, DIVVY_HOME: join(this.agents, name) };
    execFileSync(this.binary, ['agent', '--join-file', token, '--name', name, '--emulate', emulate, '--detach'], { env: environment, stdio: ['ignore', 'ignore', 'pipe'] });
  }
  /** A command of one of these machines. */
  onAgent(name, ...words) {
    execFileSync(this.binary, words, { env: { ...this.environment, DIVVY_HOME: join(this.agents, name) }, stdio: ['ignore', 'ignore', 'pipe'] });
  }
  stopAgents() {
    for (const name of this.agents ? readdirSync(this.agents) : []) {
      if (name.endsWith('.token')) continue;
      try {
        this.onAgent(name, 'agent', '--stop');
      } catch {
        // It is gone already.
      }
    }
    if (this.agents) rmSync(this.agents, { recursive: true, force: true });
    this.agents = undefined;
  }
  /** The API itself, by the daemon's socket. */
  ask(method, path, body) {
    this.wire ??= new Agent({ keepAlive: true, maxSockets: 32 });
    return new Promise((resolve, reject) => {
      const asked = request({ socketPath: join(this.home, 'divvy.sock'), agent: this.wire, method, path, headers: { Host: 'divvy', 'Content-Type': 'application/json' } }, (answer) => {
        let text = '';
        answer.on('data', (piece) => (text += piece));
        answer.on('end', () => (answer.statusCode === 200 ? resolve(JSON.parse(text)) : reject(new Error(text))));
      });
      asked.on('error', reject);
      asked.end(body === undefined ? undefined : JSON.stringify(body));
    });
  }
  submit(...words) {
    return this.divvy('submit', '--quiet', ...words).trim();
  }
  link(...words) {
    return this.divvy('ui', '--no-open', ...words).trim();
  }
  async until(what, condition, seconds = 20) {
    await until(what, condition, seconds);
  }
  stop() {
    try {
      this.divvy('cancel', '--all', '--grace', '0');
    } catch {
      // Nothing was there.
    }
    const end = Date.now() + 10_000;
    try {
      while (Date.now() < end && this.json('queue').length) continue;
      this.stopAgents();
      this.divvy('down');
    } catch {
      // It is down already.
    }
    this.stopAgents();
    this.manager?.kill();
    this.wire?.destroy();
    rmSync(this.home, { recursive: true, force: true });
  }
}

/** Polls until `condition` gives something true, without giving up the thread; throws after 20 s. */
function waitFor(what, condition) {
  for (const end = Date.now() + 20_000; Date.now() < end; ) {
    try {
      if (condition()) return;
    } catch {
      // Not yet.
    }
  }
  throw new Error(`waited in vain for ${what}`);
}

/** Polls until `condition` gives something true; throws after `seconds`. */
export async function until(what, condition, seconds = 20) {
  const end = Date.now() + seconds * 1000;
  let last;
  for (;;) {
    try {
      last = await condition();
      if (last) return last;
    } catch (error) {
      last = error;
    }
    if (Date.now() > end) throw new Error(`waited in vain for ${what}: ${last instanceof Error ? last.message : JSON.stringify(last)}`);
    await new Promise((resolve) => setTimeout(resolve, 40));
  }
}

export async function openBrowser() {
  return chromium.launch({
    executablePath: process.env.CHROMIUM ?? '/usr/bin/chromium',
    args: ['--no-sandbox', '--disable-gpu', '--disable-dev-shm-usage'],
  });
}

/** A page that collects what goes wrong in it; `page.troubles` is to stay empty. */
export async function openPage(browser, options = {}) {
  const context = await browser.newContext({ viewport: { width: 1280, height: 800 }, ...options });
  // For work on the page: what web/dist has now, in place of what the binary carries.
  if (process.env.DIVVY_PAGE_FROM_DISK) {
    await context.route(/\/app\.(js|css)$/, async (route) => route.fulfill({ response: await route.fetch(), body: readFileSync(new URL(`../dist${new URL(route.request().url()).pathname}`, import.meta.url)), headers: { 'content-type': route.request().url().endsWith('js') ? 'text/javascript' : 'text/css' } }));
  }
  const page = await context.newPage();
  page.troubles = [];
  page.expects = [/\/v1\/jobs .*429|429.*\/v1\/jobs$/];
  const say = (text) => {
    if (!page.expects.some((pattern) => pattern.test(text))) page.troubles.push(text);
  };
  page.on('console', (message) => ['error', 'warning'].includes(message.type()) && say(`${message.type()}: ${message.text()} ${message.location().url}`));
  page.on('pageerror', (error) => say(`thrown: ${error.message}`));
  page.on('dialog', (dialog) => {
    say(`dialog: ${dialog.message()}`);
    void dialog.dismiss();
  });
  page.on('request', (request) => {
    const host = new URL(request.url()).hostname;
    if (!['127.0.0.1', 'localhost', ''].includes(host)) say(`asked another host: ${request.url()}`);
  });
  return page;
}

/** A browser that is let in at the daemon: { browser, page }. `prepare`: what is done with the page before. */
export async function enter(daemon, options = {}, prepare = async () => {}) {
  const browser = await openBrowser();
  const page = await openPage(browser, options);
  await prepare(page);
  await page.goto(daemon.link());
  await page.waitForSelector('[data-tile="Running"]');
  return { browser, page };
}
export async function leave(browser, daemon) {
  await browser?.close();
  daemon?.stop();
}
/** Shows a view by its address, as the menu does. */
export async function showView(page, view) {
  await page.evaluate((name) => (location.hash = '#/' + name), view);
  await page.waitForSelector('main h1, main .tiles');
}
/** A browser saves ten files in a row and then asks: what would be saved is taken as it is made, as `window.saved`. */
export const keepFiles = (page) =>
  page.addInitScript(() => {
    URL.createObjectURL = (blob) => ((window.saved = blob.text()), 'data:,');
    HTMLAnchorElement.prototype.click = () => {};
  });

/** Lines of a CSV file as lists. */
export function parsed(text) {
  const rows = [[]];
  for (const found of text.matchAll(/("(?:[^"]|"")*"|[^,\r\n]*)(,|\r?\n|$)/g)) {
    if (found.index === text.length && !found[2] && !found[1]) break;
    rows.at(-1).push(found[1].startsWith('"') ? found[1].slice(1, -1).replaceAll('""', '"') : found[1].replace(/^'/, ''));
    if (found[2].endsWith('\n')) rows.push([]);
  }
  return rows.filter((row) => row.length > 1 || row[0]);
}

/** Submit as it is at first: what was typed before is kept. */
export async function showFreshSubmit(page) {
  await showView(page, 'overview');
  await showView(page, 'submit');
  await page.waitForSelector('h1:text-is("Submit")');
  if (await page.locator('[data-clear]').count()) await page.click('[data-clear]');
}
