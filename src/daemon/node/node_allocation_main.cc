#include "daemon/node/node_allocation_main.h"

#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>

#include "dialect/valohai/valohai_members.h"
#include "model/steps/gang_environment.h"
#include "platform/supervisor/node_allocation_start.h"

namespace divvy {
namespace {

/// Writes the configuration to the folder in which the execution's own script puts the rest of it.
void WriteConfiguration(const std::string& folder, const std::string& text) {
  std::error_code error;
  std::filesystem::create_directories(folder, error);
  for (const char* end : {".json", ".yaml"}) {
    const std::string path = folder + "/distributed" + end, fresh = path + ".new." + std::to_string(::getpid());
    std::ofstream(fresh) << text;
    if (std::rename(fresh.c_str(), path.c_str()) != 0)
      std::fprintf(stderr, "divvy: cannot write %s: %s\n", path.c_str(), std::strerror(errno));
  }
}

std::vector<std::string> ParseContext(const GangFile& gang, const std::string& steps) {
  std::vector<std::string> out = GangEnvironment(gang, steps);
  const char* folder = ::getenv("VH_CONFIG_DIR");
  const char* execution = ::getenv("VH_EXECUTION_ID");
  if (folder == nullptr || execution == nullptr || *folder == '\0') return out;
  dialect::ValohaiMembers members;
  members.group = "job-" + std::to_string(gang.job);
  members.execution = execution;
  members.announced = WentAt(steps).value_or(kNoTime);
  members.own = gang.own;
  for (const GangMember& member : gang.members) members.members.push_back({member.name(), member.address.host});
  WriteConfiguration(folder, dialect::DistributedJson(members));
  for (std::string& entry : dialect::DistributedEnvironment(members)) out.push_back(std::move(entry));
  return out;
}

}  // namespace

int NodeAllocationMain(const std::vector<std::string>& words, const GangStepsMain& steps) {
  return RunNodeAllocation(words, ParseContext, steps);
}

}  // namespace divvy
