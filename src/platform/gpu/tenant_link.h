// The messages between a process of a tenant and the keeper: fixed-size messages on a SOCK_SEQPACKET socket in the
// tenant's own folder (tenant_shm.h). Each process has one connection, which closes when the process ends. A process
// that loses the keeper continues with what it has, and redials until a keeper is there. The path may be longer than a
// socket address allows, so processes connect to /proc/self/fd/N/link, where N is the folder opened with O_PATH.
#pragma once

#include <cstdint>

namespace divvy::share {

enum class Word : std::uint32_t {
  // Sent by the process.
  kHello = 1,  // The first message. `process`: the slot from an earlier keeper (kNoSlot: none); `id`: its generation.
  // Needs `bytes` more of `device` than the ceiling allows. Answered by kGranted or kDenied with the same id.
  kWant = 2,
  kDrained = 3,  // Its time slice is over: none of its launches is left on `device`. `id`: as in kDrain.
  // It has the time slice but nothing to do: no thread waits at its gate, and the device has finished all its work.
  kYield = 4,
  kAsk = 5,   // A thread waits at its shut gate.
  kWake = 6,  // A thread waits at its parked gate.
  // The command with this id is done: `result` (0, or a CUresult), `bytes` moved, `nanoseconds`, `text` on failure.
  kDone = 7,
  // A call that it holds back will pin it to its GPUs. `bytes`: the Flag bits that are not set yet. If possible, the
  // keeper moves it to where it can stay and collects its loans; then it answers kGranted with the same id.
  kPin = 8,
  // Sent by the keeper.
  kWelcome = 20,   // The slot is `process`, its generation `id`. `bytes`: the inode of the page that contains it.
  kGranted = 21,   // The ceiling is high enough for `bytes`: try again.
  kDenied = 22,    // It is not, and will not be soon; `text` says why. To kHello: no slot, `result` is a Refusal.
  kDrain = 23,     // The gate of `device` is shut. Send kDrained when all launches are done.
  kEvacuate = 24,  // The gate is kMoving or kParked: copy the memory on `device` to the host and free it. Answer kDone.
  // Copy it back to the same addresses and answer kDone; the gate opens then. If the ceiling was too low, kDone has the
  // needed `bytes` besides `result`.
  kReturn = 25,
  kShrink = 26,  // Free unused memory in your own pools of `device`: `bytes` would help. Answer kDone.
};

inline constexpr std::uint32_t kNoSlot = 0xffffffff;

/// The reason why a process got no slot.
enum Refusal : std::int32_t {
  kAllSlotsTaken = 0,
  kPageBroken = 1,  // The page was truncated or overwritten: this tenant gets no more slots.
};

struct Message {
  Word word;
  std::uint32_t device;   // The tenant's own number of the device, from 0.
  std::uint32_t process;  // Slot.
  std::int32_t result;
  std::uint64_t id;
  std::uint64_t bytes;
  std::uint64_t nanoseconds;
  char text[120];
};

}  // namespace divvy::share
