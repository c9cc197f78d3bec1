// Jobs in containers: the parts of the machine that they get, and how a job's launch becomes that of a container.
#include <algorithm>
#include <string>
#include <utility>

#include "base/text.h"
#include "daemon/node/launch_builder.h"
#include "dialect/options/container_options.h"

namespace divvy {
namespace {

/// Returns the value of NAME=value; empty if there is none.
std::string ValueOf(const std::vector<std::string>& environment, std::string_view name) {
  for (const std::string& entry : environment) {
    if (entry.size() > name.size() && entry.starts_with(name) && entry[name.size()] == '=')
      return entry.substr(name.size() + 1);
  }
  return "";
}

}  // namespace

ContainerNeeds LaunchBuilder::NeedsInside(const ShareGrant* grant) const {
  constexpr std::string_view kPreload = "LD_PRELOAD";
  ContainerNeeds needs;
  // The emulated drivers and, next to them, the file that all programs share; it is created by the first program.
  if (!options_.gpu_libraries.empty()) {
    needs.mounts.push_back({options_.gpu_libraries, options_.gpu_libraries, false});
    needs.environment.push_back("LD_LIBRARY_PATH=" + options_.gpu_libraries);
  }
  if (grant == nullptr) return needs;
  if (!grant->folder.empty()) needs.mounts.push_back({grant->folder, grant->folder, false});
  if (const std::string library = ValueOf(grant->environment, kPreload); !library.empty()) {
    needs.mounts.push_back({library, library, true});
    // Replaces the job's LD_PRELOAD, since the other libraries in it do not exist inside the container.
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

/// The first process starts the container, and the job's program runs inside.
void LaunchBuilder::IntoContainer(const JobSpec& spec, const ShareGrant* grant, LaunchRequest& request) const {
  const ContainerSettings& settings = options_.container;
  std::erase_if(request.environment, [](const std::string& entry) { return entry.starts_with(kContainerVariable); });
  const auto set = [&](std::string_view name, const std::string& value) {
    request.environment =
        MergeEnvironment(std::vector<std::vector<std::string>>{request.environment, {std::string(name) + "=" + value}});
  };
  const ContainerNeeds needs = NeedsInside(grant);
  if (!needs.empty()) set(kContainerNeedsVariable, FormatContainerNeeds(needs));
  // Set in the job's environment, because steps of the job also start containers with this engine.
  if (settings.engine != "auto") set(kContainerEngineVariable, settings.engine);
  if (!settings.options.empty()) set(kContainerOptionsVariable, divvy::Join(settings.options, "\n"));
  const bool is_whole_tenant = grant != nullptr && grant->is_whole;
  if (request.isolation.lock != DeviceLock::kNone && !is_whole_tenant) set(kContainerGpusVariable, "own");
  auto plan = dialect::ContainerOf(spec, settings.runs_valohai_images);
  if (plan && !*plan) return;
  // The container has more GPUs than the job is on, and finds its own by their UUIDs, which replace the node's indices.
  if (is_whole_tenant) set("CUDA_VISIBLE_DEVICES", ValueOf(request.environment, "DIVVY_GPUS"));
  // The engine gives the container its own /tmp. The other GPUs stay closed to the job, because the job chooses the
  // engine and its options. A daemon without root closes them in a user namespace, in which rootless engines cannot
  // start. All its jobs belong to its own user, so the lock is dropped there, unless isolation is required.
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
  // Divvy's own commands never send a value that its option would refuse. Without a valid plan nothing is started.
  set(kContainerVariable, plan ? FormatContainerPlan(**plan) : "");
}

}  // namespace divvy
