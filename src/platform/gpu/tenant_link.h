// The words between a process of a tenant and the keeper: fixed messages on a SOCK_SEQPACKET socket in the tenant's own
// folder (tenant_page.h), one connection for each process, which closes with it. A process that loses the keeper goes
// on with what it has, and dials again until one is there. The path may be longer than a socket's address takes:
// whoever dials does so by /proc/self/fd/N/link, N being the folder opened with O_PATH.
#pragma once

#include <cstdint>

namespace divvy::share {

enum class Word : std::uint32_t {
  // From the process.
  kHello = 1,    // First. `process` as it was given a slot by an earlier keeper (kNoSlot: none); `id`: its generation.
  kWant = 2,     // More of `device` than the ceiling: `bytes`. Answered by kGranted or kDenied with the same id.
  kDrained = 3,  // Its turn is over: nothing that it launched is still on `device`. `id` as kDrain had.
  kYield = 4,    // It has its turn and nothing to do: nobody waits at its gate, and the device has done all.
  kAsk = 5,      // Somebody waits at its shut gate.
  kWake = 6,     // Somebody waits at its parked gate.
  kDone = 7,  // The order of this id: `result` (0, or a CUresult), `bytes` moved, `nanoseconds`, `text` if it failed.
  kPin =
      8,  // A call that it holds will pin it to its GPUs (`bytes`: Flag bits that it has not set yet). Moved to where
          // it may stay for good and its loans collected, if that can be, it is told kGranted with the same id.
  // From the keeper.
  kWelcome = 20,   // Its slot: `process`, and its generation in `id`. `bytes`: the inode of the page that it is in.
  kGranted = 21,   // The ceiling is high enough for the `bytes`: try again.
  kDenied = 22,    // It is not, and will not be soon. `text` says why. To kHello: no slot, `result` is a Refusal.
  kDrain = 23,     // The gate of `device` is shut. Say kDrained when all that was launched is done.
  kEvacuate = 24,  // Gate is kMoving or kParked: bring the memory on `device` to the host and give it back. kDone.
  kReturn = 25,    // Bring it back, at the addresses where it was. kDone. The gate opens after. Where the ceiling was
                   // too low for it, kDone has the `bytes` that it needs beside `result`.
  kShrink = 26,    // Give back what is free in your own pools of `device`: `bytes` would help. kDone.
};

inline constexpr std::uint32_t kNoSlot = 0xffffffff;

/// Why there is no slot for a process.
enum Refusal : std::int32_t {
  kAllSlotsTaken = 0,
  kPageBroken = 1,  // Cut short or overwritten: this tenant gets none any more.
};

struct Message {
  Word word;
  std::uint32_t device;   // As the tenant numbers its own, from 0.
  std::uint32_t process;  // Slot.
  std::int32_t result;
  std::uint64_t id;
  std::uint64_t bytes;
  std::uint64_t nanoseconds;
  char text[120];
};

}  // namespace divvy::share
