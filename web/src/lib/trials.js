// The trials of a sweep as lines: parallel coordinates, and curves by training progress.
import { plainNumber } from './numbers.js';

/** More lines than this are neither drawn nor read. */
export const kMostDrawn = 500;

/** Places values from 0 to 1; on a logarithmic scale if all are above 0 and the greatest is over 50 times the least. */
export function spanOf(values) {
  const least = Math.min(...values);
  const most = Math.max(...values);
  const isLog = least > 0 && most / least > 50;
  const scale = (value) => (isLog ? Math.log(value) : value);
  const placeOf = (value) => (most > least ? (scale(value) - scale(least)) / (scale(most) - scale(least)) : 0.5);
  return { least, most, isLog, placeOf };
}

/** An axis for each parameter, and one for the metric: numbers on a scale, other texts in their order. */
export function axesOf(trials, parameters, metric) {
  const numeric = (name, values, valueOf) => {
    const span = spanOf(values);
    const marks = [span.least, span.most].map((value) => ({ text: plainNumber(value), place: span.placeOf(value) }));
    return { name, marks: span.most > span.least ? marks : marks.slice(1), placeOf: (trial) => span.placeOf(valueOf(trial)) };
  };
  const axes = parameters.map((name) => {
    const texts = trials.map((one) => one.parameters[name] ?? '');
    if (texts.every((text) => text.trim() !== '' && Number.isFinite(Number(text)))) return numeric(name, texts.map(Number), (trial) => Number(trial.parameters[name]));
    const kinds = [...new Set(texts)].sort();
    const place = (text) => (kinds.length > 1 ? kinds.indexOf(text) / (kinds.length - 1) : 0.5);
    return { name, marks: kinds.slice(0, 12).map((text) => ({ text: text || '(none)', place: place(text) })), placeOf: (trial) => place(trial.parameters[name] ?? '') };
  });
  return trials.length ? [...axes, numeric(metric || 'metric', trials.map((one) => one.best), (trial) => trial.best)] : [];
}

/** The known points of each trial in their order: { trial, points: [{ at, value }] }. Rung k is at min x eta^k. */
export function curvesOf(trials, { min, eta, max }) {
  return trials
    .map((one) => {
      const known = new Map();
      one.rungs.forEach((value, k) => value !== null && min > 0 && eta > 1 && known.set(max > 0 ? Math.min(min * eta ** k, max) : min * eta ** k, value));
      if (one.best !== null) known.set(one.best_at, one.best);
      if (one.last !== null) known.set(one.last_at, one.last);
      return { trial: one.trial, points: [...known].map(([at, value]) => ({ at, value })).sort((a, b) => a.at - b.at) };
    })
    .filter((one) => one.points.length > 0);
}
