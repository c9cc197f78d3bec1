// The connection to the keeper: one thread per process keeps it open, forwards the keeper's orders (orders.h) and wakes
// threads that wait for an answer. It never waits for the GPU and handles no signals.
#pragma once

#include <cstdint>

#include "platform/gpu/tenant_link.h"

namespace divvy::interpose {

/// Registers this process with the keeper, so that the keeper includes it when it moves the tenant. Call this before
/// the CUDA driver starts.
void JoinTenant();

/// Returns true if this process belongs to a tenant. The first call connects to the keeper and waits up to 10 s until
/// the keeper has given this process an entry (slot) in the shared page. Without one, the program continues, and waits
/// when it allocates memory. Returns false if nothing is shared. Requires: no lock held.
bool IsShared();

/// Asks the keeper for `bytes` more memory on the device, and waits for the answer. Returns true if the caller shall
/// try to count the memory again. Returns false if denied, if the keeper is unreachable for 10 s, or one minute after
/// `started_ns`.
bool AskForMore(unsigned device, std::uint64_t bytes, std::uint64_t started_ns);

/// Call this before a driver call after which the process cannot be moved to another GPU any more, for the reasons
/// `flags` (share::Flag). The first such call waits here, for up to a minute, until the keeper has moved the process to
/// the GPUs where it may stay. Without a keeper it does not wait. Requires: no lock held and not inside the gate,
/// because the process may be moved meanwhile.
void BeforePinning(std::uint32_t flags);

/// Sends a message about a device to the keeper. May be called on any thread. If no keeper is connected, the message is
/// lost.
void Tell(share::Word word, unsigned device);
bool Send(const share::Message& message);
/// Returns the number of the current connection to the keeper. A caller compares it to find out whether the keeper has
/// restarted, because a message meant for one keeper must not go to the next.
std::uint64_t LinkNumber();
bool SendOn(std::uint64_t link, const share::Message& message);
share::Message MessageOf(share::Word word, unsigned device);

/// Returns for how many nanoseconds the keeper has been unreachable; 0 if it is connected.
std::uint64_t LinkDownNs();

}  // namespace divvy::interpose
