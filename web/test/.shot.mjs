import { openBrowser, openPage } from '/tmp/web6/web/test/world.mjs';
import { execFileSync } from 'node:child_process';
const home = execFileSync('cat',['/tmp/web6.home'],{encoding:'utf8'}).trim();
const link = execFileSync('/tmp/web6/build/divvy',['ui','--no-open'],{env:{...process.env,DIVVY_HOME:home},encoding:'utf8'}).trim();
const [,, ...views] = process.argv;
const b = await openBrowser();
const scheme = process.env.SCHEME ?? 'light';
const p = await openPage(b, { colorScheme: scheme, viewport: { width: Number(process.env.W ?? 1280), height: Number(process.env.HH ?? 800) } });
await p.goto(link);
await p.waitForSelector('main');
for (const v of views.length ? views : ['overview','queue']) {
  await p.evaluate((v) => { location.hash = '#/' + v; }, v);
  await p.waitForTimeout(Number(process.env.WAIT ?? 1800));
  await p.screenshot({ path: `/tmp/shot-${v.replace(/[^a-z0-9]/g,'_')}-${scheme}.png` });
}
console.log(p.troubles.join('\n') || 'no trouble');
await b.close();
