// Charts' data: GET /v1/series (docs/api.md).
import { get, query } from './api.js';
import { plainNumber } from './numbers.js';
import { seriesOf } from './shape.js';
import { throttleText } from './throttle.js';

/** Where the daemon keeps no samples there is nothing to draw: null. */
let isKept = true;
export async function readSeries(asked) {
  if (!isKept) return null;
  try {
    return seriesOf(await get('/v1/series' + query(asked)));
  } catch (error) {
    if (error.code !== 'not_found' || !/there is no GET/.test(error.message)) throw error;
    isKept = false;
    return null;
  }
}
export const timesOf = (answer, length) => Array.from({ length }, (_, i) => answer.begin + i * answer.step_s);

// Looked up by what a daemon says: without a prototype there is no 'constructor' in them.
const kByUnit = {
  __proto__: null,
  ratio: (value) => `${Math.round(value * 100)} %`,
  bytes: (value) => byteText(value),
  'bytes/s': (value) => `${byteText(value)}/s`,
  bytes_per_second: (value) => `${byteText(value)}/s`,
  watts: (value) => `${Math.round(value)} W`,
  celsius: (value) => `${Math.round(value)} °C`,
  hertz: (value) => `${(value / 1e6).toFixed(0)} MHz`,
  bits: throttleText,
};
function byteText(value) {
  const units = ['B', 'KiB', 'MiB', 'GiB', 'TiB'];
  let unit = 0;
  while (value >= 1024 && unit < 4) {
    value /= 1024;
    ++unit;
  }
  return `${value >= 100 ? Math.round(value) : Number(value.toFixed(1))} ${units[unit]}`;
}
export const textOfUnit = (unit) => kByUnit[unit] ?? plainNumber;
// Bits stand for throttle reasons, which have no scale.
export const axisOfUnit = (unit) => (unit === 'bits' ? () => '' : textOfUnit(unit));
