// Numbers and names of metrics, as curves show them.

/** Four digits; very small and very large ones with their power of ten: 5.64e-6. */
export function plainNumber(value) {
  const size = Math.abs(value);
  return size !== 0 && (size < 1e-3 || size >= 1e7) ? value.toExponential(2).replace(/\.?0+e/, 'e').replace('e+', 'e') : String(Number(value.toPrecision(4)));
}

const kWords = { __proto__: null, cpu: 'CPU', gpu: 'GPU', io: 'I/O', sm: 'SM', utilization: 'use' };
/** Of a metric that has no name of its own in a view: "cpu_utilization" -> "CPU use". */
export const metricName = (metric) => {
  const text = metric.split('_').map((word) => kWords[word] ?? word).join(' ');
  return text.slice(0, 1).toUpperCase() + text.slice(1);
};
