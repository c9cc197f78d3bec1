// The words with the keeper: one thread for each process that keeps the connection, hands on the keeper's orders
// (orders.h) and wakes who waits for an answer. It never waits for the GPU, and no signal is ever handled on it.
#pragma once

#include <cstdint>

#include "platform/gpu/tenant_link.h"

namespace divvy::interpose {

/// Before the driver is started: says hello, so that the keeper knows of this process when it moves the tenant.
void JoinTenant();

/// True when this process is a tenant's, from the first call on: starts the thread, waits for a slot (10 s at most,
/// after which it goes on without: then what it allocates waits). False: nothing is shared. Requires: no lock held.
bool IsShared();

/// Asks the keeper for `bytes` more of the device and waits. True: try again. False: denied; or the keeper is gone for
/// 10 s; or it is a minute since `started_ns`.
bool AskForMore(unsigned device, std::uint64_t bytes, std::uint64_t started_ns);

/// A call that will set these flags (share::Flag) has not been made yet. The first of a process that pins it to its
/// GPUs waits here until the keeper has it where it may stay, a minute at most; not where there is no keeper. Requires:
/// no lock held, and not inside the gate: it may be moved meanwhile.
void BeforePinning(std::uint32_t flags);

/// Sends a word about a device, from any thread; lost when there is no keeper.
void Tell(share::Word word, unsigned device);
bool Send(const share::Message& message);
/// Counts connections. What a keeper was to be told is not told to its successor, which has numbers of its own for what
/// it asks.
std::uint64_t LinkNumber();
bool SendOn(std::uint64_t link, const share::Message& message);
share::Message MessageOf(share::Word word, unsigned device);

/// How long the keeper has been gone; 0: it is there.
std::uint64_t LinkDownNs();

}  // namespace divvy::interpose
