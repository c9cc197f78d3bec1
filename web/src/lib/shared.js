// One stream of events for all windows of a browser. A browser has six connections to a host; would each window keep one, the
// seventh question of all of them would wait for ever.
//
// One window has the stream, by a lock that the browser gives to the next when it is closed, hidden or cut off; what comes
// in there it tells the others. Where a browser has neither locks nor channels each window has a stream of its own.
const kName = 'divvy-events';
const isThere = typeof BroadcastChannel === 'function' && !!globalThis.navigator?.locks;

/**
 * Follows until the stream ends or `signal` is aborted: `read({ onOpen, onEvent })` where this window is the one that reads.
 * `onOpen()` when a stream is there, of whichever window, perhaps again and again; `onEvent(name, data)` for what comes.
 */
export async function follow(signal, read, { onOpen, onEvent }) {
  if (!isThere) return read({ onOpen, onEvent });
  const channel = new BroadcastChannel(kName);
  let isOpen = false;
  let reads = false;
  let hasHeard = false;
  channel.onmessage = ({ data: told }) => {
    if (told.asks) {
      if (isOpen) channel.postMessage({ isNew: false });
    } else if (!reads) {
      if (told.name) return onEvent(told.name, told.data);
      // An answer to another window's question needs no action. A new stream does, because events in between were lost.
      if (told.isNew || !hasHeard) onOpen();
      hasHeard = true;
    }
  };
  // The window that has the event stream answers this message.
  channel.postMessage({ asks: true });
  try {
    return await navigator.locks.request(kName, { signal }, () => {
      reads = true;
      return read({
        onOpen: () => {
          isOpen = true;
          channel.postMessage({ isNew: true });
          onOpen();
        },
        onEvent: (name, data) => {
          channel.postMessage({ name, data });
          onEvent(name, data);
        },
      });
    });
  } finally {
    channel.close();
  }
}
