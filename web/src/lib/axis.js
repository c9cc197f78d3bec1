// Steps of a chart's axes, and their top.

const kBinary = Array.from({ length: 50 }, (_, i) => 2 ** i);
const kDecimal = Array.from({ length: 30 }, (_, i) => [1, 2, 5].map((digit) => Number(`${digit}e${i - 12}`))).flat();

/** Of values: of bytes 1, 2, 4, ... of KiB, MiB, GiB; of all else 1, 2, 5; of whole things none between. */
export const valueSteps = ({ isBinary = false, isWhole = false }) => (isBinary ? kBinary : isWhole ? kDecimal.filter((step) => step >= 1) : kDecimal);

/** Of time, in seconds: none more than twice the one before, so that no axis is without two labels. */
export const kTimeSteps = [1, 2, 3, 5, 10, 15, 20, 30, 60, 120, 180, 300, 600, 900, 1200, 1800, 3600, 7200, 10_800, 21_600, 43_200, ...[1, 2, 3, 5, 10, 15, 30, 60, 90, 180, 365, 730].map((days) => days * 86_400)];

/** Pixels from label to label where so many seconds take so many pixels: with seconds they are longer, and on a narrow axis nearer. */
export const timeSpace = (seconds, pixels) => Math.min((52 / pixels) * seconds < 60 ? 70 : 52, Math.max(30, pixels / 4));

const kOfGpuMemory = ['gpu_memory_used_bytes', 'gpu_memory_most_bytes'];
/** The top of a chart, null: that of its curves. GPU memory of which nothing is used is drawn under the size of a GPU; `sizes` in bytes. */
export const mostOfUnit = (unit, metric, series, sizes) =>
  unit === 'ratio' ? 1 : kOfGpuMemory.includes(metric) && sizes.length && series.every((one) => one.mean.every((value) => !value)) ? Math.max(...sizes) : null;
