// What a distributed Valohai execution finds about its members.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/time.h"

namespace divvy::dialect {

struct ValohaiMember {
  std::string identity;  // Of its machine, for people.
  std::string host;      // A name or address that the others reach it by.
};

struct ValohaiMembers {
  std::string group;      // Of them all.
  std::string execution;  // The execution's id.
  Time announced = kNoTime;
  std::vector<ValohaiMember> members;  // By rank, which is their member id.
  std::size_t own = 0;
};

/// distributed.json in the execution's configuration directory. Rank is the position by member id; 0 is the master.
std::string DistributedJson(const ValohaiMembers& members);
/// VH_DIST_MEMBER_ID, VH_DIST_MEMBER_INDEX, VH_DIST_MEMBER_COUNT and VH_LOCAL_IP as NAME=value.
std::vector<std::string> DistributedEnvironment(const ValohaiMembers& members);

}  // namespace divvy::dialect
