// What the keeper tells this process to do with a device: done on a thread for each device, which may have to wait for
// the GPU as long as the program's work takes; the link's thread, which hands the orders over, never does.
#pragma once

#include "platform/gpu/tenant_link.h"

namespace divvy::interpose {

/// Carries it out behind what was handed over before. A move that cannot begin in time is answered, and not made any
/// more.
void Hand(const share::Message& order);
/// Has YieldIfIdle (gate.h) called.
void HandYield(unsigned device);

/// Now and then, on the link's thread: orders that are late; what the program's pools have given back.
void LookAfterOrders();

/// In the child of a fork.
void ForgetOrders();

}  // namespace divvy::interpose
