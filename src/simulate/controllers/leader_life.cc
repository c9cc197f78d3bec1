#include "simulate/controllers/leader_life.h"

#include <algorithm>
#include <variant>

#include "control/books/record_parts.h"

namespace divvy::simulate {
namespace {

Controller::Vanished HowOf(RunVanished how) {
  switch (how) {
    case RunVanished::kNeverStarted:
      return Controller::Vanished::kNeverStarted;
    case RunVanished::kRebooted:
      return Controller::Vanished::kRebooted;
    case RunVanished::kCutOff:
      return Controller::Vanished::kFenced;
    case RunVanished::kUnseen:
      break;
  }
  return Controller::Vanished::kUnseen;
}

}  // namespace

LeaderLife::LeaderLife(std::int64_t epoch, Store& store, const Clock& clock, const ChaosClock& true_clock,
                       ChaosTrace& trace, std::uint64_t seed, Ports ports)
    : epoch_(epoch),
      store_(store),
      clock_(clock),
      true_clock_(true_clock),
      trace_(trace),
      ports_(std::move(ports)),
      controller_(Policy(), Limits(), seed),
      driver_(controller_, store_, clock_, *this, PortsOfDriver()) {}

ControllerDriver::Ports LeaderLife::PortsOfDriver() {
  ControllerDriver::Ports ports;
  ports.post = [this](std::function<void()> task) { tasks_.push_back(std::move(task)); };
  ports.commit = ports_.commit;
  ports.after = [this](Duration delay, std::function<void()> task) {
    timers_.emplace_back(AddSaturating(true_clock_.true_time, delay), std::move(task));
  };
  ports.give_up = [this](const Error&) {
    trace_.Note("a controller gives up, and starts again");
    ports_.give_up();
  };
  ports.may_act = ports_.may_act;
  return ports;
}

// Loads the state that the new leader has read from the store, as Daemon::Recover does with several controllers.
void LeaderLife::Load(Store::Loaded loaded, const std::vector<NodeRow>& rows) {
  controller_.SetCapacity({});
  controller_.SetOwnName("(controllers)");
  for (const NodeRow& row : rows) {
    controller_.OnNodeRow(row);
    nodes_[row.name];
  }
  controller_.Load(std::move(loaded.live), loaded.settings, loaded.next_id, loaded.jobs_total, driver_.Outcomes());
  controller_.OnNodeTrouble("", "one of several controllers, which run no jobs themselves");
  // A node may report about these runs, because the store says that they are on it.
  for (const auto& [id, record] : controller_.live()) {
    if (IsActive(record.state) && record.array_count == 0) nodes_[record.node].known[id] = record.attempt;
  }
  driver_.Touch();
}

void LeaderLife::RunTask() {
  const auto task = std::move(tasks_.front());
  tasks_.erase(tasks_.begin());
  task();
}

Time LeaderLife::next_timer() const {
  Time next = kNever;
  for (const auto& [at, task] : timers_) next = std::min(next, at);
  return next;
}

void LeaderLife::FireTimer() {
  const auto next = std::ranges::min_element(timers_, {}, [](const auto& timer) { return timer.first; });
  const auto task = std::move(next->second);
  timers_.erase(next);
  task();
}

// --- Commands -------------------------------------------------------------------------------------------------------

void LeaderLife::Execute(const NodeCommand& command, std::shared_ptr<const JobSpec> spec) {
  const std::string& name = NodeOf(command);
  const auto at = nodes_.find(name);
  if (at == nodes_.end()) return;
  Node& node = at->second;
  if (const auto* launch = std::get_if<LaunchCommand>(&command)) {
    if (spec == nullptr) {
      Exit exit;
      exit.code = 127;
      exit.failure = "its specification could not be read from the store";
      controller_.OnExited(launch->record.id, launch->record.attempt, exit, Now(), Now(), name);
      return driver_.Touch();
    }
    node.known[launch->record.id] = launch->record.attempt;
  }
  if (const auto* adopt = std::get_if<AdoptCommand>(&command)) node.known[adopt->record.id] = adopt->record.attempt;
  if (const auto* forget = std::get_if<ForgetCommand>(&command)) {
    const auto known = node.known.find(forget->job);
    if (known != node.known.end() && known->second == forget->attempt) node.known.erase(known);
  }
  Send(node, command, std::move(spec));
}

void LeaderLife::Send(Node& node, const NodeCommand& command, std::shared_ptr<const JobSpec> spec) {
  if (!node.link || !ports_.may_act()) return;
  node.link->down.emplace_back([epoch = static_cast<std::uint64_t>(epoch_), command,
                                spec = std::move(spec)](AgentEnd& agent) { agent.OnCommand(epoch, command, spec); });
}

// --- Messages of agents ---------------------------------------------------------------------------------------------

LeaderLife::Node* LeaderLife::NodeOfLink(const Link& link, std::string* name) {
  for (auto& [known, node] : nodes_) {
    if (node.link != link) continue;
    if (name != nullptr) *name = known;
    return &node;
  }
  return nullptr;
}

void LeaderLife::OnGreeting(const std::string& name, const Link& link) {
  if (!ports_.may_act()) {
    link->is_closed_by_controller = true;
    return;
  }
  Node& node = nodes_[name];
  if (node.link) node.link->is_closed_by_controller = true;
  node.link = link;
  ModelledWelcome welcome;
  welcome.epoch = static_cast<std::uint64_t>(epoch_);
  for (const JobId job : controller_.RunsOn(name)) {
    const JobRecord& record = *controller_.Find(job);
    const auto known = node.known.find(job);
    if (known == node.known.end() || known->second != record.attempt) continue;
    auto spec = driver_.SpecOf(record);
    welcome.runs.push_back({record, spec ? *std::move(spec) : std::make_shared<const JobSpec>()});
  }
  link->down.emplace_back(
      [welcome = std::move(welcome)](AgentEnd& agent) mutable { agent.OnWelcome(std::move(welcome)); });
}

void LeaderLife::OnBeat(const Link& link) {
  if (NodeOfLink(link) == nullptr || !ports_.may_act()) return;
  link->down.emplace_back([](AgentEnd& agent) { agent.OnBeatAnswer(); });
}

void LeaderLife::OnAdopted(const Link& link) {
  std::string name;
  if (NodeOfLink(link, &name) == nullptr) return;
  controller_.OnNodeReconciled(name);
  driver_.Touch();
}

const std::string* LeaderLife::Admit(const Link& link, JobId job, std::uint32_t attempt) {
  for (auto& [name, node] : nodes_) {
    if (node.link != link) continue;
    const auto known = node.known.find(job);
    if (known != node.known.end() && known->second == attempt) return &name;
  }
  return nullptr;
}

void LeaderLife::OnStarted(const Link& link, JobId job, std::uint32_t attempt) {
  const std::string* node = Admit(link, job, attempt);
  if (node == nullptr) return;
  controller_.OnStarted(job, attempt, Now(), *node);
  driver_.Touch();
}

void LeaderLife::OnExited(const Link& link, JobId job, std::uint32_t attempt, const Exit& exit) {
  if (const std::string* node = Admit(link, job, attempt)) {
    controller_.OnExited(job, attempt, exit, Now(), Now(), *node);
    driver_.Touch();
  } else if (Node* known = NodeOfLink(link)) {
    Send(*known, ForgetCommand{job, attempt, ""}, nullptr);
  }
}

void LeaderLife::OnVanished(const Link& link, JobId job, std::uint32_t attempt, RunVanished how) {
  if (const std::string* node = Admit(link, job, attempt)) {
    controller_.OnVanished(job, attempt, HowOf(how), Now(), *node);
    driver_.Touch();
  } else if (Node* known = NodeOfLink(link)) {
    Send(*known, ForgetCommand{job, attempt, ""}, nullptr);
  }
}

void LeaderLife::OnFound(const Link& link, const RunDescription& run) {
  if (NodeOfLink(link) == nullptr) return;
  controller_.OnFound(run, Now(), driver_.Outcomes());
  driver_.Touch();
}

void LeaderLife::OnLinkLost(const Link& link) {
  std::string name;
  Node* node = NodeOfLink(link, &name);
  if (node == nullptr) return;
  node->link->is_closed_by_controller = true;
  node->link.reset();
  controller_.OnNodeDisconnected(name);
  driver_.Touch();
}

}  // namespace divvy::simulate
