// The views, in the order of the menu; `key`: after g. Without one: reached from others.
import Overview from './views/Overview.svelte';
import Job from './views/Job.svelte';
import Queue from './views/Queue.svelte';

export const kViews = [
  { name: 'overview', title: 'Overview', key: 'o', component: Overview, icon: 'M2 2h5v5H2zM9 2h5v5H9zM2 9h5v5H2zM9 9h5v5H9z' },
  { name: 'queue', title: 'Queue', key: 'q', component: Queue, icon: 'M2 4h12M2 8h12M2 12h8' },
  { name: 'job', title: 'Job', component: Job },
];
