#include "dialect/valohai/valohai_members.h"

#include <ctime>

#include "dialect/valohai/valohai_script.h"

namespace divvy::dialect {
namespace {

std::string Utc(Time time) {
  const std::time_t seconds = std::chrono::duration_cast<std::chrono::seconds>(time.time_since_epoch()).count();
  std::tm parts{};
  ::gmtime_r(&seconds, &parts);
  char text[32];
  std::strftime(text, sizeof text, "%Y-%m-%dT%H:%M:%SZ", &parts);
  return text;
}

std::string MemberJson(const ValohaiMembers& all, std::size_t rank) {
  const ValohaiMember& member = all.members[rank];
  return "{\"announce_time\": " + JsonText(Utc(all.announced)) + ", \"identity\": " + JsonText(member.identity) +
         ", \"job_id\": " + JsonText("exec-" + all.execution) + ", \"member_id\": " + JsonText(std::to_string(rank)) +
         ", \"network\": {\"exposed_ports\": {}, \"local_ips\": [" + JsonText(member.host) + "], \"public_ips\": [" +
         JsonText(member.host) + "]}}";
}

}  // namespace

std::string DistributedJson(const ValohaiMembers& members) {
  std::string list;
  for (std::size_t rank = 0; rank < members.members.size(); ++rank)
    list += (rank == 0 ? "" : ", ") + MemberJson(members, rank);
  return "{\"config\": {\"group_name\": " + JsonText(members.group) +
         ", \"member_id\": " + JsonText(std::to_string(members.own)) +
         ", \"required_count\": " + std::to_string(members.members.size()) + "}, \"members\": [" + list +
         "], \"self\": " + MemberJson(members, members.own) + "}\n";
}

std::vector<std::string> DistributedEnvironment(const ValohaiMembers& members) {
  const std::string own = std::to_string(members.own);
  return {"VH_DIST_MEMBER_ID=" + own, "VH_DIST_MEMBER_INDEX=" + own,
          "VH_DIST_MEMBER_COUNT=" + std::to_string(members.members.size()),
          "VH_LOCAL_IP=" + members.members[members.own].host};
}

}  // namespace divvy::dialect
