// Carries out the keeper's orders for a device, on one thread per device. That thread may wait for the GPU as long as
// the program's work takes. The link's thread, which hands over the orders, never waits.
#pragma once

#include "platform/gpu/tenant_link.h"

namespace divvy::interpose {

/// Queues an order of the keeper for the thread of its device. An order to move memory that cannot start in time is
/// answered with a failure and dropped.
void Hand(const share::Message& order);
/// Queues a call of YieldIfIdle (gate.h).
void HandYield(unsigned device);

/// Called periodically on the link's thread: answers overdue orders and measures memory released by the program's
/// pools.
void StartWorkers();

/// Forgets all queued orders. Call this in the child of a fork.
void ForgetQueuedTasks();

}  // namespace divvy::interpose
