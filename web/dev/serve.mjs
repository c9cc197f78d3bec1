// For work on the page: serves web/dist as it is on disk, and passes everything else to a daemon that runs.
//
//   node web/dev/serve.mjs http://127.0.0.1:8642 9642     # then: http://127.0.0.1:9642/#login=... of divvy ui
import { readFileSync } from 'node:fs';
import { createServer, request } from 'node:http';
import { dirname, join } from 'node:path';
import { fileURLToPath } from 'node:url';

const dist = join(dirname(fileURLToPath(import.meta.url)), '../dist');
const daemon = new URL(process.argv[2] ?? 'http://127.0.0.1:8642');
const port = Number(process.argv[3] ?? 9642);
const files = { '/': ['index.html', 'text/html'], '/app.js': ['app.js', 'text/javascript'], '/app.css': ['app.css', 'text/css'], '/icon.svg': ['icon.svg', 'image/svg+xml'] };

createServer((asked, answer) => {
  const path = asked.url.split('?')[0];
  if (asked.method === 'GET' && path in files) {
    const [name, type] = files[path];
    answer.writeHead(200, { 'Content-Type': `${type}; charset=utf-8`, 'Cache-Control': 'no-store' });
    return answer.end(readFileSync(join(dist, name)));
  }
  const headers = { ...asked.headers, host: daemon.host };
  if (headers.origin) headers.origin = daemon.origin;
  const passed = request({ host: daemon.hostname, port: daemon.port, method: asked.method, path: asked.url, headers }, (got) => {
    answer.writeHead(got.statusCode, got.headers);
    got.pipe(answer);
  });
  passed.on('error', () => answer.destroy());
  answer.on('close', () => passed.destroy());
  asked.pipe(passed);
}).listen(port, '127.0.0.1', () => console.log(`http://127.0.0.1:${port}/`));
