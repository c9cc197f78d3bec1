// What happened to a job, and its elements, as lists to draw (GET /v1/jobs/ID).

// What stands before a colon or semicolon; without one all of a line that is not long. Never a part of a phrase.
const kHead = /^(.{1,90}?)([:;]\s.*)$/s;
const kShort = 90;

/** [{ time, what, text }]: `what` stands out. */
export const timelineOf = (lines) =>
  lines.map((line) => {
    const text = line.text.replace(/^timed_out\b/, 'timed out');
    const found = kHead.exec(text);
    const [what, rest] = found ? [found[1], found[2]] : text.length <= kShort ? [text, ''] : ['', text];
    return { time: line.time, what, text: rest };
  });

/** Each that begins a day which the one before was not in is given that day's first moment: { ..., day }. */
export function withDays(lines, dayOf) {
  let last = null;
  return lines.map((line) => {
    const day = dayOf(line.time);
    const isNew = day !== last;
    last = day;
    return { ...line, day: isNew ? day : '' };
  });
}

/** When each run began, the first first. */
export const startsOf = (lines) => lines.filter((line) => /^(?:run \d+ )?started\b/.test(line.text)).map((line) => line.time);

// As divvy logs reads them (src/model/run_line.h): a line names GPUs of the controller's own machine, or a machine first.
const kRun = /^run (\d+) started(?: on (.*))?/s;
const kOwnMachine = "the controller's machine";
/** Runs of a job that has more than one, the first first: [{ run, node }]; `node` '': the controller's machine. */
export const runsOf = (lines) =>
  lines
    .map((line) => kRun.exec(line.text))
    .filter(Boolean)
    .map(([, run, place = '']) => ({ run: Number(run), node: /^GPUs? \d/.test(place) || place.startsWith(kOwnMachine) ? '' : place.split(/[ ,:]/)[0] }));

/**
 * Where output of a job lies, a machine each, what is shown at first before the others: [{ node, runs, asked, name }].
 * `asked`: the run to ask for there; 0: that which it is in, or was in last. Nothing where it ran on one machine.
 */
export function logPlacesOf(job) {
  const runs = runsOf(job.timeline);
  const last = runs.at(-1);
  // It waits to run again, or was cancelled while it did.
  const isBetween = last && (!job.start_time || last.node !== job.node);
  const own = isBetween ? last.node : job.node;
  const places = new Map([[own, []]]);
  for (const { run, node } of runs) places.set(node, [...(places.get(node) ?? []), run]);
  if (places.size < 2) return [];
  return [...places].map(([node, all]) => ({ node, runs: all, asked: node === own && !isBetween ? 0 : all.at(-1), name: `run${all.length > 1 ? 's' : ''} ${all.join(', ')}, on ${node || kOwnMachine}` }));
}

/** "0-4,7" -> [0, 1, 2, 3, 4, 7], no more than `most`. */
export function expand(text, most) {
  const numbers = [];
  for (const part of text.split(',')) {
    const found = /^(\d+)(?:-(\d+))?$/.exec(part.trim());
    if (!found) continue;
    for (let i = Number(found[1]); i <= Number(found[2] ?? found[1]) && numbers.length < most; ++i) numbers.push(i);
  }
  return numbers;
}
