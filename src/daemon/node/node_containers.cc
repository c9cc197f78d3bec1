// A node's jobs in containers: what they are given of the machine, and how their launch becomes that of a container.
#include <algorithm>
#include <string>
#include <utility>

#include "base/text.h"
#include "daemon/node/node.h"
#include "dialect/options/container_options.h"

namespace divvy {
namespace {

/// The value of NAME=value; empty where there is none.
std::string ValueOf(const std::vector<std::string>& environment, std::string_view name) {
  for (const std::string& entry : environment) {
    if (entry.size() > name.size() && entry.starts_with(name) && entry[name.size()] == '=')
      return entry.substr(name.size() + 1);
  }
  return "";
}

}  // namespace

ContainerNeeds Node::NeedsInside(const ShareGrant* grant) const {
  constexpr std::string_view kPreload = "LD_PRELOAD";
  ContainerNeeds needs;
  // Stand-in drivers, and beside them the file by which all programs know of each other; it is made with the first.
  if (!options_.gpu_libraries.empty()) {
    needs.mounts.push_back({options_.gpu_libraries, options_.gpu_libraries, false});
    needs.environment.push_back("LD_LIBRARY_PATH=" + options_.gpu_libraries);
  }
  if (grant == nullptr) return needs;
  if (!grant->folder.empty()) needs.mounts.push_back({grant->folder, grant->folder, false});
  if (const std::string library = ValueOf(grant->environment, kPreload); !library.empty()) {
    needs.mounts.push_back({library, library, true});
    // Without what else is preloaded outside: that is the machine's own.
    needs.environment.push_back(std::string(kPreload) + "=" + library);
  }
  if (const std::string pipes = ValueOf(grant->environment, "CUDA_MPS_PIPE_DIRECTORY"); !pipes.empty())
    needs.mounts.push_back({pipes, pipes, false});
  const GpuSet open = GpuSet::Of(grant->gpus) | grant->reachable;
  for (const GpuFacts& gpu : gpus_) {
    if (!open.Contains(gpu.index)) continue;
    needs.gpu_indices.push_back(std::to_string(gpu.index));
    needs.gpu_uuids.push_back(gpu.uuid);
  }
  return needs;
}

/// The first process starts the container, and what was to be started is run inside.
void Node::IntoContainer(const JobSpec& spec, const ShareGrant* grant, LaunchRequest& request) const {
  const ContainerSettings& settings = options_.container;
  std::erase_if(request.environment, [](const std::string& entry) { return entry.starts_with(kContainerVariable); });
  const auto set = [&](std::string_view name, const std::string& value) {
    request.environment.push_back(std::string(name) + "=" + value);
  };
  const ContainerNeeds needs = NeedsInside(grant);
  if (!needs.empty()) set(kContainerNeedsVariable, FormatContainerNeeds(needs));
  // Steps inside the job start containers as well.
  if (settings.engine != "auto") set(kContainerEngineVariable, settings.engine);
  if (!settings.options.empty()) set(kContainerOptionsVariable, divvy::Join(settings.options, "\n"));
  if (request.isolation.lock != DeviceLock::kNone) set(kContainerGpusVariable, "own");
  auto plan = dialect::ContainerOf(spec, settings.runs_valohai_images);
  if (plan && !*plan) return;
  // The engine gives the container a /tmp. What closes the other GPUs to the job stays: which engine runs, and what it
  // does, is the job's to say. A daemon without root closes them in a user namespace, where rootless engines cannot
  // start; its jobs are all its own user's.
  request.isolation.has_own_tmp = request.isolation.has_own_shm = false;
  if (request.isolation.lock == DeviceLock::kMounts && !options_.may_change_user &&
      !options_.isolation.wishes.is_required) {
    request.isolation.lock = DeviceLock::kNone;
    request.isolation.closed_devices.clear();
  }
  if (!request.script.empty()) {
    ContainerScript script = WrapScript(request.script, options_.divvy);
    request.script = std::move(script.text);
    if (plan) (*plan)->interpreter = std::move(script.interpreter);
  } else {
    request.argv.insert(request.argv.begin(), {options_.divvy, "internal-container", "--"});
  }
  // A value that its option would have refused comes from no command of divvy's; without a plan nothing is started.
  set(kContainerVariable, plan ? FormatContainerPlan(**plan) : "");
}

}  // namespace divvy
