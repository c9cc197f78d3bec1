#include "daemon/agent/agent_commands.h"

#include <algorithm>
#include <array>

#include "control/books/record_parts.h"

namespace divvy {
namespace {

constexpr std::array<std::string_view, 4> kVanished = {"never_started", "unseen", "rebooted", "cut_off"};

struct ToMessage {
  wire::AgentCommand& message;
  const JobSpec* spec;
  const JobRecord* live;

  void operator()(const LaunchCommand& command) const {
    message.launch = wire::LaunchMessage{
        command.record, spec == nullptr ? JobSpec() : *spec, command.allocation_index, "", "", command.is_parkable};
  }
  void operator()(const GoCommand& command) const {
    message.go = wire::GoMessage{command.job, command.attempt, command.addresses};
  }
  void operator()(const StopCommand& command) const {
    message.stop = wire::StopMessage{command.job, command.signal, command.grace};
  }
  void operator()(const SignalCommand& command) const {
    message.signal = wire::SignalMessage{command.job, command.signal, static_cast<int>(command.reach)};
  }
  void operator()(const PauseCommand& command) const {
    message.pause = wire::PauseMessage{command.job, command.is_paused};
  }
  void operator()(const TimeLimitCommand& command) const {
    message.time_limit = wire::TimeLimitMessage{command.job, live == nullptr ? Duration(0) : LimitOnNode(*live)};
  }
  void operator()(const ForgetCommand& command) const {
    message.forget = wire::ForgetMessage{command.job, command.attempt};
  }
  void operator()(const ResizeCommand& command) const {
    message.resize = wire::ResizeMessage{command.job, command.gpus, command.is_signalled};
  }
  void operator()(const PortionCommand& command) const {
    message.portion = wire::PortionMessage{command.job, command.portion, command.gpus};
  }
  void operator()(const DisplaceCommand& command) const {
    message.displace = wire::DisplaceMessage{command.job, command.attempt, command.is_displaced, command.gpus};
  }
  void operator()(const AdoptCommand& command) const {
    message.adopt = wire::AgentRun{command.record};
    if (spec == nullptr) return;
    message.adopt->stop_signal = spec->stop_signal;
    message.adopt->resize_signal = spec->resize_signal;
    message.adopt->grace = spec->grace;
  }
};

}  // namespace

wire::AgentCommand MessageOf(const NodeCommand& command, const JobSpec* spec, const JobRecord* live) {
  wire::AgentCommand message;
  std::visit(ToMessage{message, spec, live}, command);
  return message;
}

std::optional<ReceivedCommand> CommandOf(wire::AgentCommand message) {
  if (message.launch) {
    auto spec = std::make_shared<const JobSpec>(std::move(message.launch->spec));
    return ReceivedCommand{
        LaunchCommand{std::move(message.launch->record), "", message.launch->seat, message.launch->is_parkable},
        std::move(spec)};
  }
  if (auto& go = message.go)
    return ReceivedCommand{GoCommand{go->job, go->attempt, std::move(go->addresses), ""}, nullptr};
  if (const auto& stop = message.stop)
    return ReceivedCommand{StopCommand{stop->job, stop->signal, stop->grace, ""}, nullptr};
  if (const auto& signal = message.signal) {
    const int most = static_cast<int>(SignalReach::kOthers);
    const auto reach = static_cast<SignalReach>(std::clamp(signal->reach, 0, most));
    return ReceivedCommand{SignalCommand{signal->job, signal->signal, reach, ""}, nullptr};
  }
  if (const auto& pause = message.pause)
    return ReceivedCommand{PauseCommand{pause->job, pause->is_paused, ""}, nullptr};
  if (const auto& limit = message.time_limit) return ReceivedCommand{TimeLimitCommand{limit->job, kNever, ""}, nullptr};
  if (const auto& forget = message.forget)
    return ReceivedCommand{ForgetCommand{forget->job, forget->attempt, ""}, nullptr};
  if (const auto& resize = message.resize)
    return ReceivedCommand{ResizeCommand{resize->job, resize->gpus, resize->is_signalled, ""}, nullptr};
  if (const auto& portion = message.portion)
    return ReceivedCommand{PortionCommand{portion->job, portion->portion, portion->gpus, ""}, nullptr};
  if (const auto& displace = message.displace) {
    return ReceivedCommand{
        DisplaceCommand{displace->job, displace->attempt, displace->is_displaced, displace->gpus, ""}, nullptr};
  }
  if (auto& adopt = message.adopt) {
    JobSpec terms = TermsOf(*adopt);
    return ReceivedCommand{AdoptCommand{std::move(adopt->record), ""},
                           std::make_shared<const JobSpec>(std::move(terms))};
  }
  return std::nullopt;
}

JobSpec TermsOf(const wire::AgentRun& run) {
  JobSpec terms;
  terms.stop_signal = run.stop_signal;
  terms.resize_signal = run.resize_signal;
  terms.grace = run.grace;
  return terms;
}

std::string_view WordOf(RunVanished how) { return kVanished[static_cast<std::size_t>(how)]; }

Result<RunVanished> VanishedOf(std::string_view word) {
  for (std::size_t i = 0; i < kVanished.size(); ++i) {
    if (kVanished[i] == word) return static_cast<RunVanished>(i);
  }
  return InvalidArgument("'" + std::string(word.substr(0, 64)) + "' is not a known reason for a lost run");
}

}  // namespace divvy
