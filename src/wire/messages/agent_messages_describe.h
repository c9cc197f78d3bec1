// The fields of the messages between controller and agent; see messages_describe.h.
#pragma once

#include <boost/describe/class.hpp>
#include <boost/describe/enum.hpp>

#include "wire/json/json.h"
#include "wire/messages/agent_messages.h"
#include "wire/messages/messages_describe.h"
#include "wire/messages/share_messages_describe.h"

namespace divvy {

BOOST_DESCRIBE_ENUM(StopIntent, kNone, kCancel, kRequeue)

BOOST_DESCRIBE_STRUCT(SliceProfile, (), (name, compute, size, memory))
BOOST_DESCRIBE_STRUCT(GpuFacts, (),
                      (index, uuid, model, memory_total, pci_address, numa_node, compute_capability, is_mig_capable,
                       is_mig_enabled, slices, is_only_sliced, links))
BOOST_DESCRIBE_STRUCT(ProcessIdentity, (), (pid, start_ticks))
BOOST_DESCRIBE_STRUCT(GpuProcess, (),
                      (identity, uid, user, command, memory_used, started, is_graphics, gpu_instance, supervisor_pid,
                       job))
BOOST_DESCRIBE_STRUCT(GpuObservation, (),
                      (index, is_present, fault, memory_used, utilisation_percent, memory_utilisation_percent,
                       temperature_celsius, power_watts, processes, cut_by_others))
BOOST_DESCRIBE_STRUCT(AllocationAddress, (), (host, port))
BOOST_DESCRIBE_STRUCT(MachineFacts, (),
                      (hostname, boot_id, agent_version, gpu_source, gpus, cpus, memory, labels, logs))

namespace wire {

/// The fields of a job record that its node needs. The others are only for the controller and its store.
struct RecordMessage {
  JobId id;
  JobId spec_of;
  JobState state = JobState::kQueued;
  User user;
  std::string name;
  Request request;
  int priority = 0;
  Time submitted = kNoTime;
  Time started = kNoTime;
  Duration time_limit{0};
  std::string node;
  GpuSet gpus;
  std::vector<NodeAllocation> gang;
  bool was_let_go = false;
  std::string gpu_model;
  GpuSlice gpu_slice;
  bool takes_resizes = false;
  GpuSet gpus_asked_back;
  GpuSet gpus_used;
  std::uint32_t attempt = 0;
  std::uint32_t restarts = 0;
  std::uint32_t retries_used = 0;
  std::string project;
  std::string team;
  std::string pool;
  std::string comment;
  std::string group;
  Dialect dialect = Dialect::kNative;
  StopIntent stop_intent = StopIntent::kNone;
  bool is_foreground = false;
  bool wants_pty = false;
  int retries = 0;
  JobId array;
  std::uint32_t array_index = 0;
  std::uint32_t array_ordinal = 0;
  std::uint32_t array_count = 0;
  IndexRanges array_indices;
};
RecordMessage MessageOf(const JobRecord& record);
JobRecord RecordOf(RecordMessage message);

BOOST_DESCRIBE_STRUCT(RecordMessage, (),
                      (id, spec_of, state, user, name, request, priority, submitted, started, time_limit, node, gpus,
                       gang, was_let_go, gpu_model, gpu_slice, takes_resizes, gpus_asked_back, gpus_used, attempt,
                       restarts, retries_used, project, team, pool, comment, group, dialect, stop_intent, is_foreground,
                       wants_pty, retries, array, array_index, array_ordinal, array_count, array_indices))

}  // namespace wire

template <>
struct JsonForm<JobRecord> {
  using Json = wire::RecordMessage;
  static constexpr std::string_view kMeaning = "what a node needs of a job's record";
  static Json Encode(const JobRecord& record) { return wire::MessageOf(record); }
  static Result<JobRecord> Decode(Json json) { return wire::RecordOf(std::move(json)); }
};

BOOST_DESCRIBE_STRUCT(RunDescription, (), (record, spec, gpu_parts, exit, ended, reason, runs_again))

}  // namespace divvy

namespace divvy::wire {

BOOST_DESCRIBE_STRUCT(AgentHello, (), (versions, name, session, epoch, received, now, facts, logs, has_channels))
BOOST_DESCRIBE_STRUCT(AgentRun, (), (record, stop_signal, resize_signal, grace, right))
BOOST_DESCRIBE_STRUCT(AgentWelcome, (),
                      (version, epoch, is_resumed, received, heartbeat, lease, stops_when_lost, was_rebooted, now, runs,
                       has_channels, takes_samples, takes_found, controllers))
BOOST_DESCRIBE_STRUCT(AgentRefused, (), (reason, is_final))
BOOST_DESCRIBE_STRUCT(LaunchMessage, (), (record, spec, seat, gang_key, right, is_parkable))
BOOST_DESCRIBE_STRUCT(GoMessage, (), (job, attempt, addresses))
BOOST_DESCRIBE_STRUCT(StopMessage, (), (job, signal, grace))
BOOST_DESCRIBE_STRUCT(SignalMessage, (), (job, signal, reach))
BOOST_DESCRIBE_STRUCT(PauseMessage, (), (job, is_paused))
BOOST_DESCRIBE_STRUCT(TimeLimitMessage, (), (job, limit))
BOOST_DESCRIBE_STRUCT(ForgetMessage, (), (job, attempt))
BOOST_DESCRIBE_STRUCT(ResizeMessage, (), (job, gpus, is_signalled))
BOOST_DESCRIBE_STRUCT(WithheldGpu, (), (gpu, why))
BOOST_DESCRIBE_STRUCT(WithholdMessage, (), (gpus))
BOOST_DESCRIBE_STRUCT(PortionMessage, (), (job, portion, gpus))
BOOST_DESCRIBE_STRUCT(DisplaceMessage, (), (job, attempt, is_displaced, gpus))
BOOST_DESCRIBE_STRUCT(LookMessage, (), (gpus))
BOOST_DESCRIBE_STRUCT(RenewedMessage, (), (fingerprint))
BOOST_DESCRIBE_STRUCT(ControllersMessage, (), (addresses))
BOOST_DESCRIBE_STRUCT(AgentCommand, (),
                      (epoch, launch, stop, signal, pause, time_limit, forget, resize, go, look, renewed, portion,
                       withhold, controllers, adopt, displace))
BOOST_DESCRIBE_STRUCT(PreparedMessage, (), (job, attempt, port))
BOOST_DESCRIBE_STRUCT(DelayedMessage, (), (job, attempt, why))
BOOST_DESCRIBE_STRUCT(StartedMessage, (), (job, attempt, at))
BOOST_DESCRIBE_STRUCT(ExitedMessage, (), (job, attempt, exit, at))
BOOST_DESCRIBE_STRUCT(VanishedMessage, (), (job, attempt, how))
BOOST_DESCRIBE_STRUCT(GpusMessage, (), (gpus))
BOOST_DESCRIBE_STRUCT(AdoptedMessage, (), (boot_id))
BOOST_DESCRIBE_STRUCT(RenewMessage, (), (fingerprint))
BOOST_DESCRIBE_STRUCT(TroubleMessage, (), (what))
BOOST_DESCRIBE_STRUCT(ChannelPurpose, (), (kind, user, job, stream, rows, columns, goes_on, received, stops_only))
BOOST_DESCRIBE_STRUCT(AgentQuestion, (),
                      (record, output, error, directory, is_foreground, is_error, at, last, wants_steps, share_action,
                       share_to, right))
BOOST_DESCRIBE_STRUCT(AgentAnswer, (), (path, next, size, error, is_running, are_steps, is_share_done, share_error))
BOOST_DESCRIBE_STRUCT(SharesMessage, (), (state))
BOOST_DESCRIBE_STRUCT(RepayMessage, (), (job, attempt, why))
BOOST_DESCRIBE_STRUCT(PresenceMessage, (), (job, attempt, presence, gpus, can_park, why))
BOOST_DESCRIBE_STRUCT(AgentReport, (),
                      (prepared, delayed, started, exited, vanished, gpus, adopted, renew, trouble, shares, repay,
                       found, presence))

}  // namespace divvy::wire
