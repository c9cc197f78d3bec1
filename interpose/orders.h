// Carries out the keeper's orders for a device, on one thread per device. That thread may wait for the GPU as long as
// the program's work takes. The link's thread, which hands over the orders, never waits.
#pragma once

#include "platform/gpu/tenant_link.h"

namespace divvy::interpose {

/// Queues an order of the keeper for the thread of its device. An order to move memory that cannot start in time is
/// answered with a failure and dropped.
void Hand(const share::Message& order);
/// Queues a call of YieldIfIdle (gate.h), which gives up this process's turn on the GPU, for the thread of the device.
void HandYield(unsigned device);

/// Call this periodically on the thread that is connected to the keeper. Answers orders that took too long, and counts
/// memory that the program's pools have released.
void StartWorkers();

/// Forgets the keeper's orders that this process has queued (Hand, HandYield). Call this in the child of a fork, which
/// does not have the threads that carry them out.
void ForgetQueuedTasks();

}  // namespace divvy::interpose
