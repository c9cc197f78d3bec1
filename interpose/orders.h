// What the keeper tells this process to do, on the link's thread.
#pragma once

#include "platform/tenant_link.h"

namespace divvy::interpose {

void CarryOut(const share::Message& order);

/// Now and then: what its pools have given back.
void LookAround();

}  // namespace divvy::interpose
