// What somebody has begun to fill in on Submit, while they look at another view: in memory, of this login, until it is sent.
let kept = null;

/** `user`: whose it is, `from`: the job that it began from, if any. */
export const keepDraft = (user, from, form) => (kept = { user, from, form });
export const dropDraft = () => (kept = null);
/** What was kept: not of another user, nor where another job is to be submitted again. */
export const draftOf = (user, from) => (kept !== null && kept.user === user && (!from || kept.from === from) ? kept.form : null);
