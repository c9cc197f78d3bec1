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

void Fleet::Execute(const Order& order, std::shared_ptr<const JobSpec> spec) {
  const std::string& node = NodeOf(order);
  OrderPort* port = &own_;
  if (!node.empty()) port = ports_.find ? ports_.find(node) : nullptr;
  if (port == nullptr) return;  // The node was removed meanwhile, and none of our runs is there.
  const auto* launch = std::get_if<LaunchOrder>(&order);
  if (launch != nullptr && node.empty() && launch->seat == 0 && ports_.before_own) ports_.before_own(launch->record.id);
  if (launch != nullptr && node.empty() && !launch->record.gang.empty()) return LaunchOwn(*launch, std::move(spec));
  const auto* go = std::get_if<GoOrder>(&order);
  if (go == nullptr) return port->Execute(order, std::move(spec));
  const JobRecord* record = core_->controller().Find(go->job);
  if (record == nullptr) return;
  GoOrder sent = *go;
  sent.addresses = WithHosts(*record, std::move(sent.addresses));
  port->Execute(sent, nullptr);
}

// Adds what RemoteNode adds to an agent's launch: the key, and the name of this node.
void Fleet::LaunchOwn(LaunchOrder launch, std::shared_ptr<const JobSpec> spec) {
  for (Seat& seat : launch.record.gang) {
    if (seat.node.empty()) seat.node = ports_.own_name;
  }
  if (ports_.set_own_key)
    ports_.set_own_key(launch.record.id, launch.record.attempt, GangKey(launch.record.id, launch.record.attempt));
  own_.Execute(launch, std::move(spec));
}

// An agent is reached at the address that it connected from. An agent that connected over the loopback interface is on
// the controller's machine. Other nodes reach it at the address that this machine has towards them.
std::vector<SeatAddress> Fleet::WithHosts(const JobRecord& record, std::vector<SeatAddress> addresses) const {
  std::string other;
  for (std::size_t i = 0; i < addresses.size() && i < record.gang.size(); ++i) {
    const std::string& node = record.gang[i].node;
    if (!node.empty() && ports_.address) addresses[i].host = HostOf(ports_.address(node));
    if (!addresses[i].host.empty() && !IsLoopback(addresses[i].host)) other = addresses[i].host;
  }
  const std::string own = other.empty() ? "127.0.0.1" : AddressTowards(other);
  for (SeatAddress& address : addresses) {
    if (address.host.empty() || (IsLoopback(address.host) && !other.empty())) address.host = own;
  }
  return addresses;
}

std::vector<wire::AgentRun> Fleet::RunsOn(const std::string& node) {
  std::vector<wire::AgentRun> runs;
  for (const JobId job : core_->controller().RunsOn(node)) {
    wire::AgentRun run;
    run.record = PartOn(*core_->controller().Find(job), node);
    if (const auto spec = core_->SpecOf(run.record)) {
      run.stop_signal = (*spec)->stop_signal;
      run.resize_signal = (*spec)->resize_signal;
      run.grace = (*spec)->grace;
    }
    runs.push_back(std::move(run));
  }
  return runs;
}

void Fleet::Join(ControllerDriver& core) {
  core_ = &core;
  core.Subscribe([this](const std::vector<Change>& changes, Time) {
    if (std::ranges::any_of(changes, [](const Change& change) { return change.job == JobId(); })) TellWithheld();
  });
}

std::vector<wire::WithheldGpu> Fleet::WithheldOn(NodeIndex node) const {
  std::vector<wire::WithheldGpu> withheld;
  const std::vector<GpuAvailability>& gpus = core_->controller().scheduler().node(node).availability;
  for (std::size_t i = 0; i < gpus.size(); ++i) {
    std::string why;
    // The keeper knows runs that the store does not, from the node itself; their tenants stay where they are.
    if (!gpus[i].unmanaged.empty() && !gpus[i].is_kept_by_found_runs)
      why = "is used by others (" + gpus[i].unmanaged + ")";
    else if (gpus[i].is_restricted) why = "is restricted (divvy gpus restrict)";
    if (!why.empty()) withheld.push_back({static_cast<GpuIndex>(i), std::move(why)});
  }
  return withheld;
}

void Fleet::TellWithheld() {
  if (!ports_.withhold) return;
  const Controller& controller = core_->controller();
  for (NodeIndex node = kOwnNode; node < controller.scheduler().nodes().size(); ++node) {
    const std::string name = controller.NodeName(node);
    std::vector<wire::WithheldGpu> withheld = WithheldOn(node);
    if (told_withheld_[name] == withheld) continue;
    if (ports_.withhold(name, withheld)) told_withheld_[name] = std::move(withheld);
  }
}

void Fleet::OnAccounted(const std::string& node) {
  core_->controller().OnNodeReconciled(node);
  // The node may have restarted, and then does not know which GPUs are withheld.
  if (const auto index = core_->controller().IndexOf(node); index && ports_.withhold) {
    told_withheld_[node] = WithheldOn(*index);
    ports_.withhold(node, told_withheld_[node]);
  }
  core_->Touch();
}

bool Fleet::OnFound(RunDescription run) {
  const auto found = core_->controller().OnFound(std::move(run), core_->Now(), core_->Outcomes());
  core_->Touch();
  return found == Controller::Found::kUnknown;
}

void Fleet::OnPrepared(const std::string& node, JobId job, std::uint32_t attempt, std::uint16_t port) {
  core_->controller().OnPrepared(job, attempt, node, port, core_->Now());
  core_->Touch();
}

void Fleet::OnDelayed(const std::string& node, JobId job, std::uint32_t attempt, const std::string& why) {
  core_->controller().OnDelayed(job, attempt, why, node);
  core_->Touch();
}

void Fleet::OnStarted(const std::string& node, JobId job, std::uint32_t attempt, Time at) {
  core_->controller().OnStarted(job, attempt, at, node);
  core_->Touch();
}

void Fleet::OnExited(const std::string& node, JobId job, std::uint32_t attempt, const Exit& exit, Time at) {
  core_->controller().OnExited(job, attempt, exit, at, core_->Now(), node);
  core_->Touch();
}

void Fleet::OnVanished(const std::string& node, JobId job, std::uint32_t attempt, RunVanished how) {
  core_->controller().OnVanished(job, attempt, VanishedOf(how), core_->Now(), node);
  core_->Touch();
}

void Fleet::OnGpusObserved(const std::string& node, const std::vector<GpuObservation>& seen) {
  core_->controller().OnGpusObserved(node, seen);
  core_->Touch();
}

void Fleet::OnTrouble(const std::string& node, const std::string& what) {
  core_->controller().OnNodeTrouble(node, what);
  core_->Touch();
}

void Fleet::OnShares(const std::string& node, const wire::KeeperState& state) {
  TakeShares(*core_, ports_.shares.get(), node, state);
}

void Fleet::OnRepay(const std::string&, JobId job, std::uint32_t attempt, const std::string& why) {
  core_->controller().OnRepay(job, attempt, why, core_->Now());
  core_->Touch();
}

void Fleet::OnRow(const NodeRow& row) {
  core_->controller().OnNodeRow(row);
  core_->Touch();
}

void Fleet::OnRemoved(const std::string& node) {
  if (ports_.shares) ports_.shares->Forget(node);
  core_->controller().OnNodeRemoved(node);
  core_->Touch();
}

void Fleet::OnLost(const std::string& node) {
  core_->controller().OnNodeLost(node, core_->Now());
  core_->Touch();
}

void Fleet::OnAway(const std::string& node) {
  if (ports_.on_presence) ports_.on_presence(node, false);
  core_->controller().OnNodeDisconnected(node);
  core_->Touch();
}

void Fleet::OnFenced(const std::string& node) {
  core_->controller().OnNodeFenced(node, core_->Now());
  core_->Touch();
}

void Fleet::OnGone(const std::string& node) {
  core_->controller().OnNodeGone(node, core_->Now());
  core_->Touch();
}

void Fleet::OnBack(const std::string& node) {
  if (ports_.on_presence) ports_.on_presence(node, true);
  core_->controller().OnNodeBack(node);
  core_->Touch();
}

}  // namespace divvy
