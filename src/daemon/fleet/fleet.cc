#include "daemon/fleet/fleet.h"

#include <algorithm>
#include <utility>
#include <variant>

#include "base/host_port.h"
#include "control/books/record_parts.h"
#include "daemon/fleet/local_controller.h"
#include "platform/net/tcp.h"
#include "platform/net/tls.h"

namespace divvy {
namespace {

bool IsLoopback(const std::string& host) { return host.starts_with("127.") || host == "::1"; }

std::string HostOf(const std::string& address) {
  const auto parsed = ParseHostPort(address, 1);  // The address may have no port.
  return parsed ? parsed->host : std::string();
}

}  // namespace

std::string Fleet::GangKey(JobId job, std::uint32_t attempt) const {
  return Sha256Hex(key_seed_ + "/" + ToString(job) + "/" + std::to_string(attempt));
}

void Fleet::Execute(const NodeCommand& command, std::shared_ptr<const JobSpec> spec) {
  const std::string& node = NodeOf(command);
  NodeCommandPort* port = &own_;
  if (!node.empty()) port = ports_.find ? ports_.find(node) : nullptr;
  if (port == nullptr) return;  // The node was removed meanwhile, and none of our runs is there.
  const auto* launch = std::get_if<LaunchCommand>(&command);
  if (launch != nullptr && node.empty() && launch->allocation_index == 0 && ports_.before_own)
    ports_.before_own(launch->record.id);
  if (launch != nullptr && node.empty() && !launch->record.gang.empty()) return LaunchOwn(*launch, std::move(spec));
  const auto* go = std::get_if<GoCommand>(&command);
  if (go == nullptr) return port->Execute(command, std::move(spec));
  const JobRecord* record = driver_->controller().Find(go->job);
  if (record == nullptr) return;
  GoCommand sent = *go;
  sent.addresses = WithHosts(*record, std::move(sent.addresses));
  port->Execute(sent, nullptr);
}

// Adds what RemoteNode adds to an agent's launch: the key, and the name of this node.
void Fleet::LaunchOwn(LaunchCommand launch, std::shared_ptr<const JobSpec> spec) {
  for (NodeAllocation& allocation : launch.record.gang) {
    if (allocation.node.empty()) allocation.node = ports_.own_name;
  }
  if (ports_.set_own_key)
    ports_.set_own_key(launch.record.id, launch.record.attempt, GangKey(launch.record.id, launch.record.attempt));
  own_.Execute(launch, std::move(spec));
}

// An agent is reached at the address that it connected from. An agent that connected over the loopback interface is on
// the controller's machine. Other nodes reach it at the address that this machine has towards them.
std::vector<AllocationAddress> Fleet::WithHosts(const JobRecord& record,
                                                std::vector<AllocationAddress> addresses) const {
  std::string other;
  for (std::size_t i = 0; i < addresses.size() && i < record.gang.size(); ++i) {
    const std::string& node = record.gang[i].node;
    if (!node.empty() && ports_.address) addresses[i].host = HostOf(ports_.address(node));
    if (!addresses[i].host.empty() && !IsLoopback(addresses[i].host)) other = addresses[i].host;
  }
  const std::string own = other.empty() ? "127.0.0.1" : AddressTowards(other);
  for (AllocationAddress& address : addresses) {
    if (address.host.empty() || (IsLoopback(address.host) && !other.empty())) address.host = own;
  }
  return addresses;
}

std::vector<wire::AgentRun> Fleet::RunsOn(const std::string& node) {
  std::vector<wire::AgentRun> runs;
  for (const JobId job : driver_->controller().RunsOn(node)) {
    wire::AgentRun run;
    run.record = PartOn(*driver_->controller().Find(job), node);
    if (const auto spec = driver_->SpecOf(run.record)) {
      run.stop_signal = (*spec)->stop_signal;
      run.resize_signal = (*spec)->resize_signal;
      run.grace = (*spec)->grace;
    }
    runs.push_back(std::move(run));
  }
  return runs;
}

void Fleet::Join(ControllerDriver& driver) {
  driver_ = &driver;
  driver.Subscribe([this](const std::vector<Change>& changes, Time) {
    if (std::ranges::any_of(changes, [](const Change& change) { return change.job == JobId(); })) TellWithheld();
  });
}

std::vector<wire::WithheldGpu> Fleet::WithheldOn(NodeIndex node) const {
  std::vector<wire::WithheldGpu> withheld;
  const std::vector<GpuAvailability>& gpus = driver_->controller().scheduler().node(node).availability;
  for (std::size_t i = 0; i < gpus.size(); ++i) {
    std::string why;
    // GPUs of runs that are not in the store are not withheld: their jobs are tenants of the keeper and stay there.
    if (!gpus[i].unmanaged.empty() && !gpus[i].is_kept_by_found_runs)
      why = "is used by others (" + gpus[i].unmanaged + ")";
    else if (gpus[i].is_restricted) why = "is restricted (divvy gpus restrict)";
    if (!why.empty()) withheld.push_back({static_cast<GpuIndex>(i), std::move(why)});
  }
  return withheld;
}

void Fleet::TellWithheld() {
  if (!ports_.withhold) return;
  const Controller& controller = driver_->controller();
  for (NodeIndex node = kOwnNode; node < controller.scheduler().nodes().size(); ++node) {
    std::vector<wire::WithheldGpu> withheld = WithheldOn(node);
    const auto told = told_withheld_.find(node);
    if (told == told_withheld_.end() ? withheld.empty() : told->second == withheld) continue;
    if (ports_.withhold(controller.NodeName(node), withheld)) told_withheld_[node] = std::move(withheld);
  }
}

void Fleet::OnAccounted(const std::string& node) {
  driver_->controller().OnNodeReconciled(node);
  // The node may have restarted, and then does not know which GPUs are withheld.
  if (const auto index = driver_->controller().IndexOf(node); index && ports_.withhold) {
    told_withheld_[*index] = WithheldOn(*index);
    ports_.withhold(node, told_withheld_[*index]);
  }
  driver_->Touch();
}

bool Fleet::OnFound(RunDescription run) {
  const auto found = driver_->controller().OnFound(std::move(run), driver_->Now(), driver_->Outcomes());
  driver_->Touch();
  return found == Controller::Found::kUnknown;
}

void Fleet::OnPrepared(const std::string& node, JobId job, std::uint32_t attempt, std::uint16_t port) {
  driver_->controller().OnPrepared(job, attempt, node, port, driver_->Now());
  driver_->Touch();
}

void Fleet::OnDelayed(const std::string& node, JobId job, std::uint32_t attempt, const std::string& why) {
  driver_->controller().OnDelayed(job, attempt, why, node);
  driver_->Touch();
}

void Fleet::OnStarted(const std::string& node, JobId job, std::uint32_t attempt, Time at) {
  driver_->controller().OnStarted(job, attempt, at, node);
  driver_->Touch();
}

void Fleet::OnExited(const std::string& node, JobId job, std::uint32_t attempt, const Exit& exit, Time at) {
  driver_->controller().OnExited(job, attempt, exit, at, driver_->Now(), node);
  driver_->Touch();
}

void Fleet::OnVanished(const std::string& node, JobId job, std::uint32_t attempt, RunVanished how) {
  driver_->controller().OnVanished(job, attempt, VanishedOf(how), driver_->Now(), node);
  driver_->Touch();
}

void Fleet::OnGpusObserved(const std::string& node, const std::vector<GpuObservation>& seen) {
  driver_->controller().OnGpusObserved(node, seen);
  driver_->Touch();
}

void Fleet::OnTrouble(const std::string& node, const std::string& what) {
  driver_->controller().OnNodeTrouble(node, what);
  driver_->Touch();
}

void Fleet::OnShares(const std::string& node, const wire::KeeperState& state) {
  TakeShares(*driver_, ports_.shares.get(), node, state);
}

void Fleet::OnPresence(const std::string& node, const PresenceReport& report) {
  driver_->controller().OnPresence(report, driver_->Now(), node);
  driver_->Touch();
}

void Fleet::OnRepay(const std::string&, JobId job, std::uint32_t attempt, const std::string& why) {
  driver_->controller().OnRepay(job, attempt, why, driver_->Now());
  driver_->Touch();
}

void Fleet::OnRow(const NodeRow& row) {
  driver_->controller().OnNodeRow(row);
  driver_->Touch();
}

void Fleet::OnRemoved(const std::string& node) {
  if (ports_.shares) ports_.shares->Forget(node);
  driver_->controller().OnNodeRemoved(node);
  driver_->Touch();
}

void Fleet::OnLost(const std::string& node) {
  driver_->controller().OnNodeLost(node, driver_->Now());
  driver_->Touch();
}

void Fleet::OnAway(const std::string& node) {
  if (ports_.on_presence) ports_.on_presence(node, false);
  driver_->controller().OnNodeDisconnected(node);
  driver_->Touch();
}

void Fleet::OnFenced(const std::string& node) {
  driver_->controller().OnNodeFenced(node, driver_->Now());
  driver_->Touch();
}

void Fleet::OnGone(const std::string& node) {
  driver_->controller().OnNodeGone(node, driver_->Now());
  driver_->Touch();
}

void Fleet::OnBack(const std::string& node) {
  if (ports_.on_presence) ports_.on_presence(node, true);
  driver_->controller().OnNodeBack(node);
  driver_->Touch();
}

}  // namespace divvy
