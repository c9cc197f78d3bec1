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
