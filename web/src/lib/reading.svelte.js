// Reads again and again while a view, or a part of one, is shown.
import { untrack } from 'svelte';
import { live } from './live.svelte.js';

/**
 * To be called while a component is made. Calls `read` at once, whenever what `depends` reads changes, whenever a stream of
 * events is opened (the daemon is back, or the page is looked at again), and between these every `seconds()`; with 0 not.
 * Never while nobody looks at the page or the daemon is away.
 * `error`: what the last one failed with, or ''. `again()`: reads now, for who has just changed something.
 */
export function useReading(read, { seconds = () => 4, depends = () => {} } = {}) {
  let error = $state('');
  async function again() {
    if (document.hidden || live.phase === 'away') return;
    try {
      await read();
      error = '';
    } catch (cause) {
      error = cause.message;
    }
  }
  $effect(() => {
    depends();
    void live.opened;
    void untrack(again);
    const pause = seconds();
    if (!pause) return;
    const timer = setInterval(again, pause * 1000);
    return () => clearInterval(timer);
  });
  return {
    get error() {
      return error;
    },
    again,
  };
}
