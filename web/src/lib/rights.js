// What may be done with jobs, as the daemon will allow it: to its owner and administrators, by its state.
import { isFinal } from './live.svelte.js';

/** `me`: of GET /v1/ui/me. */
export const mayChange = (job, me) => me.may_change && (me.is_admin || job.user === me.user);

/** Its output, script and environment. */
export const mayRead = (job, me) => me.is_admin || job.user === me.user;

const kFits = {
  hold: (job) => job.state === 'queued',
  release: (job) => job.state === 'held',
  priority: (job) => !isFinal(job.state),
  cancel: (job) => !isFinal(job.state),
  requeue: (job) => isFinal(job.state),
};
/** Those of `jobs` with which this person may do `what` ('hold', 'release', 'priority', 'cancel', 'requeue') now. */
export const fitting = (what, jobs, me) => jobs.filter((job) => mayChange(job, me) && kFits[what](job));
