#include "daemon/fleet/machine_events.h"

#include <utility>

namespace divvy {
namespace {

using Machine = MachineEvents::Machine;

/// Adds the differences of one GPU between two looks. That a foreign process still uses it is no difference.
void AddGpu(const std::string& gpu, const GpuAvailability& before, const GpuAvailability& now,
            std::vector<std::string>& news) {
  if (now.fault != before.fault)
    news.push_back(gpu + (now.fault.empty() ? " works again" : " is fenced and takes no new jobs: " + now.fault));
  if (now.unmanaged.empty() != before.unmanaged.empty())
    news.push_back(gpu + (now.unmanaged.empty() ? " is no longer used outside divvy"
                                                : " is used outside divvy, by " + now.unmanaged));
  if (now.stuck.empty() != before.stuck.empty())
    news.push_back(gpu + (now.stuck.empty() ? " takes jobs again" : " takes no jobs: " + now.stuck));
  if (now.is_restricted != before.is_restricted)
    news.push_back(gpu +
                   (now.is_restricted ? " is restricted: divvy does not use it" : " is available to divvy again"));
}

Machine OwnMachine(const Controller& controller) {
  return {"up", "", controller.scheduler().node(kOwnNode).availability};
}

}  // namespace

std::vector<std::string> MachineEvents::News(const std::map<std::string, Machine>& before,
                                             const std::map<std::string, Machine>& now) {
  std::vector<std::string> news;
  const bool is_one = now.size() <= 1;
  for (const auto& [name, machine] : now) {
    const auto was = before.find(name);
    if (was == before.end()) {
      news.push_back("node " + name + " has joined");
      continue;
    }
    if (machine.state != was->second.state)
      news.push_back("node " + name + " is " + machine.state + (machine.reason.empty() ? "" : ": " + machine.reason));
    for (std::size_t i = 0; i < machine.gpus.size(); ++i) {
      const std::string gpu = "GPU " + std::to_string(i) + (is_one ? "" : " of " + name);
      AddGpu(gpu, i < was->second.gpus.size() ? was->second.gpus[i] : GpuAvailability(), machine.gpus[i], news);
    }
  }
  for (const auto& [name, machine] : before) {
    if (!now.contains(name)) news.push_back("node " + name + " was removed");
  }
  return news;
}

void MachineEvents::Look(ControllerDriver& driver, const AgentListener& listener, const std::string& own_name) {
  Controller& controller = driver.controller();
  std::map<std::string, Machine> now;
  now.emplace(own_name, OwnMachine(controller));
  for (const auto& [name, row] : listener.registry().nodes()) {
    const auto index = controller.IndexOf(name);
    now.insert_or_assign(
        name, Machine{listener.StateOf(row), row.reason,
                      index ? controller.scheduler().node(*index).availability : std::vector<GpuAvailability>()});
  }
  if (std::exchange(has_looked_, true)) {
    const std::vector<std::string> news = News(known_, now);
    for (const std::string& text : news) controller.OnMachineEvent(text, driver.Now());
    if (!news.empty()) driver.Touch();
  }
  known_ = std::move(now);
}

}  // namespace divvy
