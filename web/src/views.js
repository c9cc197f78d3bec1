// The views, in the order of the menu; `key`: after g. Without one: reached from others.
import Events from './views/Events.svelte';
import Job from './views/Job.svelte';
import Nodes from './views/Nodes.svelte';
import Notifications from './views/Notifications.svelte';
import Overview from './views/Overview.svelte';
import Providers from './views/Providers.svelte';
import Queue from './views/Queue.svelte';
import Services from './views/Services.svelte';
import Submit from './views/Submit.svelte';
import Sweeps from './views/Sweeps.svelte';
import Teams from './views/Teams.svelte';
import Usage from './views/Usage.svelte';
import WhatIf from './views/WhatIf.svelte';

export const kViews = [
  { name: 'overview', title: 'Overview', key: 'o', component: Overview, icon: 'M2 2h5v5H2zM9 2h5v5H9zM2 9h5v5H2zM9 9h5v5H9z' },
  { name: 'queue', title: 'Queue', key: 'q', component: Queue, icon: 'M2 4h12M2 8h12M2 12h8' },
  { name: 'nodes', title: 'Nodes and GPUs', key: 'n', component: Nodes, icon: 'M2 3h12v4H2zM2 9h12v4H2zM4.500 5h.01M4.500 11h.01' },
  { name: 'providers', title: 'Providers', key: 'r', component: Providers, icon: 'M4 12a3 3 0 0 1 .3-6 4 4 0 0 1 7.600 1A2.600 2.600 0 0 1 11.500 12zM8 14V9M6 11l2-2 2 2' },
  { name: 'services', title: 'Services', key: 'v', component: Services, icon: 'M2 3h12v3H2zM2 10h12v3H2zM8 6v4M4.500 4.500h.01M4.500 11.500h.01' },
  { name: 'sweeps', title: 'Sweeps', key: 'p', component: Sweeps, icon: 'M3 2v12M8 2v12M13 2v12M3 4l5 6 5-5M3 11l5-6 5 7' },
  { name: 'teams', title: 'Teams', key: 't', component: Teams, icon: 'M6 7a2.500 2.500 0 1 0 0-5 2.500 2.500 0 0 0 0 5zM1.500 14c0-3 2-4.500 4.500-4.500s4.500 1.500 4.500 4.500M11 2.300a2.300 2.300 0 0 1 0 4.500M12 9.700c1.700.5 2.700 2 2.700 4.300' },
  { name: 'usage', title: 'Usage and waste', key: 'u', component: Usage, icon: 'M2 14V2M2 14h12M5 11V8M8 11V5M11 11V3.500' },
  { name: 'whatif', title: 'What if', key: 'w', component: WhatIf, icon: 'M3 13l4-5 2.500 2.500L13.500 4M10 4h3.500v3.500' },
  { name: 'submit', title: 'Submit', key: 's', component: Submit, icon: 'M8 11V2M4.500 5.500L8 2l3.500 3.500M2 11v3h12v-3' },
  { name: 'events', title: 'Events', key: 'e', component: Events, icon: 'M1 8h3l2-5 3 10 2-5h4' },
  { name: 'notifications', title: 'Notifications', key: 'm', component: Notifications, icon: 'M3.500 11.500h9L11.500 9.500V6.500a3.500 3.500 0 0 0-7 0v3zM6.500 13.500h3' },
  { name: 'job', title: 'Job', component: Job },
];
