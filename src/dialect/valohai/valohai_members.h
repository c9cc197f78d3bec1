// The data about its nodes that a distributed Valohai execution gets. Valohai calls each node of such an execution a
// member.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/time.h"

namespace divvy::dialect {

struct ValohaiMember {
  std::string identity;  // Identity of its machine, for users.
  std::string host;      // A name or address at which the other members reach this one.
};

struct ValohaiMembers {
  std::string group;      // The id of the group of members.
  std::string execution;  // The execution's id.
  Time announced = kNoTime;
  std::vector<ValohaiMember> members;  // By rank, which is also the member id.
  std::size_t own = 0;
};

/// The content of distributed.json in the execution's configuration directory. A member's rank is its position in the
/// order of member ids. The member with rank 0 is the master.
std::string DistributedJson(const ValohaiMembers& members);
/// VH_DIST_MEMBER_ID, VH_DIST_MEMBER_INDEX, VH_DIST_MEMBER_COUNT and VH_LOCAL_IP as NAME=value.
std::vector<std::string> DistributedEnvironment(const ValohaiMembers& members);

}  // namespace divvy::dialect
