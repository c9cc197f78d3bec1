// The messages between a controller and the agent of a node: JSON inside the frames of wire/http/frame.h. Their fields
// are described like those of all messages (agent_messages_describe.h). docs/agents.md explains the protocol.
//
// Within one protocol version fields are added and never renamed, and unknown fields are ignored. An agent offers the
// versions that it speaks; the controller chooses the newest one that it speaks as well. All times are by the sender's
// clock. The two clocks are only compared through `now` in Hello and Welcome.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "model/job_record.h"
#include "model/machine_facts.h"
#include "model/run_description.h"
#include "wire/messages/share_messages.h"

namespace divvy::wire {

inline constexpr std::string_view kAgentPath = "/v1/agents/connect";  // The path at which an agent requests the
                                                                      // protocol.
inline constexpr std::string_view kAgentProtocol = "divvy-agent/1";
/// The newest and the oldest version that this build speaks. A controller speaks its own version and the one before.
inline constexpr int kAgentVersion = 1;
inline constexpr int kOldestAgentVersion = 1;

// --- Opening a connection ----------------------------------------------------------------------------------------

struct AgentHello {
  std::vector<int> versions;
  std::string name;            // The node's name.
  std::string session;         // Random id of this agent process.
  std::uint64_t epoch = 0;     // Epoch of the controller that it last talked to in this session. 0: none.
  std::uint64_t received = 0;  // Number of messages that it has received in that session.
  Time now = kNoTime;          // By the agent's clock.
  MachineFacts facts;
  std::string logs;           // The folder in which it stores job logs.
  bool has_channels = false;  // It supports streams (wire/http/channels.h) inside the session.
};

/// A run that the controller believes active on the node, and how to stop it.
struct AgentRun {
  JobRecord record;
  int stop_signal = 15;
  int resize_signal = 10;
  Duration grace{-1};
  /// The launch right of the job's user (platform/users/user_right.h, RightText). Empty if the controller's machine has
  /// no launcher, or if that user has never called divvy there.
  std::string right;
};

struct AgentWelcome {
  int version = 0;
  std::uint64_t epoch = 0;       // Number of controller starts. Orders with an older epoch are ignored.
  bool is_resumed = false;       // The session continues. False: `runs` is the initial state of a new one.
  std::uint64_t received = 0;    // Number of messages received in the session that is resumed.
  Duration heartbeat{0};         // Interval of the agent's heartbeats.
  Duration lease{0};             // The lease ends after this time without an answer.
  bool stops_when_lost = false;  // When the lease ends, the agent stops its jobs. False: they continue.
  bool was_rebooted = false;     // The machine was rebooted since its runs were last reconciled.
  Time now = kNoTime;
  std::vector<AgentRun> runs;
  bool has_channels = false;  // Streams are used if both Hello and Welcome set this.
  bool takes_samples = false;
  bool takes_found = false;  // The controller decides about runs that it did not list in `runs` (AgentReport::found).
  std::vector<std::string> controllers;  // See ControllersMessage. Empty: this controller has no standbys.
};

struct AgentRefused {
  std::string reason;
  bool is_final = false;  // Retrying is useless until an administrator changes something.
};

// --- Orders, to the agent: exactly one of the fields is set -------------------------------------------------------

struct LaunchMessage {
  JobRecord record;
  JobSpec spec;
  std::uint32_t seat = 0;  // Index in record.gang. The agent prepares this part and waits for GoMessage.
  std::string gang_key;    // Secret by which the parts of a gang recognize each other: 64 hexadecimal digits. Empty: no
                           // gang.
  std::string right;       // See AgentRun::right.
  bool is_parkable = false;  // See LaunchCommand. An older agent starts the job as one that cannot be parked.
};
/// All parts of the gang are prepared, so this part starts.
struct GoMessage {
  JobId job;
  std::uint32_t attempt = 0;
  std::vector<AllocationAddress> addresses;  // One for each node allocation.
};
struct StopMessage {
  JobId job;
  int signal = 0;
  Duration grace{-1};
};
struct SignalMessage {
  JobId job;
  int signal = 0;
  int reach = 0;  // SignalReach as a number.
};
struct PauseMessage {
  JobId job;
  bool is_paused = true;
};
struct TimeLimitMessage {
  JobId job;
  Duration limit{0};  // From its start; 0: none.
};
struct ForgetMessage {
  JobId job;
  std::uint32_t attempt = 0;
};
struct ResizeMessage {
  JobId job;
  GpuSet gpus;
  bool is_signalled = true;
};
/// A GPU on which no fraction may be placed now. `why` completes a sentence about the GPU: "is restricted".
struct WithheldGpu {
  GpuIndex gpu = 0;
  std::string why;

  friend bool operator==(const WithheldGpu&, const WithheldGpu&) = default;
};
/// The complete list of GPUs that are withheld from sharing now. It replaces the previous list.
struct WithholdMessage {
  std::vector<WithheldGpu> gpus;
};
struct PortionMessage {
  JobId job;
  GpuPortion portion;
  GpuSet gpus;  // The GPUs that the plan uses for the fraction. Empty: unchanged.
};
/// See DisplaceCommand. An older agent never reports a job that this is sent for.
struct DisplaceMessage {
  JobId job;
  std::uint32_t attempt = 0;
  bool is_displaced = true;
  GpuSet gpus;
};
/// Observe these GPUs now, and report the result.
struct LookMessage {
  GpuSet gpus;
};
/// The controller accepts the certificate with this fingerprint from now on.
struct RenewedMessage {
  std::string fingerprint;
};
/// The addresses ("host:port") of all controllers of this cluster, with one certificate. One of them leads at a time.
/// Replaces the previous list.
struct ControllersMessage {
  std::vector<std::string> addresses;
};
struct AgentCommand {
  std::uint64_t epoch = 0;
  std::optional<LaunchMessage> launch;
  std::optional<StopMessage> stop;
  std::optional<SignalMessage> signal;
  std::optional<PauseMessage> pause;
  std::optional<TimeLimitMessage> time_limit;
  std::optional<ForgetMessage> forget;
  std::optional<ResizeMessage> resize;
  std::optional<GoMessage> go;
  std::optional<LookMessage> look;
  std::optional<RenewedMessage> renewed;
  std::optional<PortionMessage> portion;
  std::optional<WithholdMessage> withhold;
  std::optional<ControllersMessage> controllers;
  std::optional<AgentRun> adopt;  // A run found on the node that the controller takes over.
  std::optional<DisplaceMessage> displace;
};

// --- Reports, from the agent: exactly one of the fields is set ----------------------------------------------------

/// This part of a gang is prepared and waits for the other parts.
struct PreparedMessage {
  JobId job;
  std::uint32_t attempt = 0;
  std::uint16_t port = 0;  // The TCP port where the parts on other nodes reach it.
};
/// This run has not started yet. Older controllers ignore this message.
struct DelayedMessage {
  JobId job;
  std::uint32_t attempt = 0;
  std::string why;  // One line for the job listing.
};
struct StartedMessage {
  JobId job;
  std::uint32_t attempt = 0;
  Time at = kNoTime;
};
/// Also reports a job that could not be started; then `exit.failure` says why.
struct ExitedMessage {
  JobId job;
  std::uint32_t attempt = 0;
  Exit exit;
  Time at = kNoTime;
};
struct VanishedMessage {
  JobId job;
  std::uint32_t attempt = 0;
  std::string how;  // "never_started" | "unseen" | "rebooted" | "cut_off"
};
/// The result of one observation. As a glance (wire/http/frame.h) it may be lost. As a message it is ordered before the
/// next message.
struct GpusMessage {
  std::vector<GpuObservation> gpus;
};
/// Every run of the welcome has been reconciled by the reports before this one.
struct AdoptedMessage {
  std::string boot_id;
};
/// The problem that keeps the node from starting jobs, as the agent sees it. Empty: there is none any more.
struct TroubleMessage {
  std::string what;  // "its disk is full: 812 KiB free under /var/lib/divvy/agent/logs"
};
/// The tenants of the node's shared GPUs, and their current state.
struct SharesMessage {
  KeeperState state;
};
/// Requests that the controller requeue `job`: there is no other way to give another tenant its guaranteed share
/// (KeeperRequeue).
struct RepayMessage {
  JobId job;
  std::uint32_t attempt = 0;
  std::string why;  // "job 12 needs 8.0 GiB of GPU 0 that are its own, and job 7 has borrowed them"
};
/// The agent will connect with another certificate.
struct RenewMessage {
  std::string fingerprint;
};
/// See PresenceReport.
struct PresenceMessage {
  JobId job;
  std::uint32_t attempt = 0;
  int presence = 0;  // The number of a Presence.
  GpuSet gpus;
  bool can_park = false;
  std::string why;
};
struct AgentReport {
  std::optional<PreparedMessage> prepared;
  std::optional<DelayedMessage> delayed;
  std::optional<StartedMessage> started;
  std::optional<ExitedMessage> exited;
  std::optional<VanishedMessage> vanished;
  std::optional<GpusMessage> gpus;
  std::optional<AdoptedMessage> adopted;
  std::optional<RenewMessage> renew;
  std::optional<TroubleMessage> trouble;
  std::optional<SharesMessage> shares;
  std::optional<RepayMessage> repay;
  std::optional<RunDescription> found;  // A run on the node that the welcome did not list, or how it ended.
  std::optional<PresenceMessage> presence;
};

// --- Questions, to the agent: lost with the connection. Except for `share_action` they change nothing --------------

/// The maximal size of an answer's bytes.
inline constexpr std::int64_t kAnswerBytes = std::int64_t{256} << 10;

/// Reads a piece of a job's output. The agent may have forgotten the job, so the question has all data that leads to
/// the file.
struct AgentQuestion {
  JobRecord record;
  std::string output;  // As in the spec: patterns not replaced, empty if not set.
  std::string error;
  std::string directory;
  bool is_foreground = false;
  bool is_error = false;   // Reads the error file, if the job has a separate one.
  std::int64_t at = -1;    // The first byte to read. -1: start at the last `last` lines.
  std::int64_t last = -1;  // Number of lines before the current end. -1: all lines.
  /// Reads the job's steps instead of its output, in the format of its step list (model/steps/step_list.h). An agent
  /// that does not know this field answers with output and leaves AgentAnswer::are_steps false.
  bool wants_steps = false;
  /// Acts on the job's GPU fraction ("park", "wake", "move") instead of reading output. The agent answers when the
  /// action is complete. The action is idempotent.
  std::string share_action;
  std::vector<int> share_to;  // The target GPUs of "move".
  std::string right;          // See AgentRun::right.
};
struct AgentAnswer {
  std::string path;            // The path of the file on the node.
  std::int64_t next = 0;       // Byte offset of the next piece.
  std::int64_t size = 0;       // Current size of the file in bytes.
  int error = 0;               // Linux errno if the file could not be read, else 0.
  bool is_running = false;     // As far as the agent knows, this attempt of the job has not ended on the node.
  bool are_steps = false;      // The bytes are steps, as the question requested.
  bool is_share_done = false;  // The requested share action is complete.
  std::string share_error;     // Why the share action failed.
};
/// The payloads of kAsk and kAnswer. The asker chooses `number`, and the answer repeats it.
struct NumberedQuestion {
  std::uint64_t number = 0;
  AgentQuestion question;
};
struct NumberedAnswer {
  std::uint64_t number = 0;
  AgentAnswer answer;
  std::string bytes;  // Bytes of the file, at most kAnswerBytes.
};

// --- Streams (wire/http/channels.h) ------------------------------------------------------------------------------

/// The purpose of a stream, sent by the side that opens it.
struct ChannelPurpose {
  /// "door": opened by the agent. Carries HTTP of a process of `user`, who has a job on the node.
  /// "stream": opened by the controller. Standard input, output or error (0 to 2) of a foreground job that is about to
  /// be launched. All three are opened, in this order. The agent resets the first with kDetached when the caller has
  /// left the job's terminal.
  /// "attach": opened by the controller. Input and output (0, 1) of a terminal that a viewer attaches to. The agent
  /// resets the second with kDetached when the viewer has left.
  /// "resize": the terminal's new size; carries no bytes.
  /// "step": opened by the controller. Carries frames of platform/records/step_wire.h between a caller outside the job
  /// and the process inside the job that acts for it.
  std::string kind;
  std::string user;
  JobId job;
  int stream = 0;
  int rows = 0;
  int columns = 0;
  /// Resumes a "stream" that the caller had in an earlier session. `received`: for an output, the bytes of it that
  /// arrived so far; for the input, the bytes of both outputs. The agent first sends the number of input bytes that it
  /// received, as digits and a line feed, on the input stream. It resets a stream that it no longer has with
  /// kStreamsGone.
  bool goes_on = false;
  std::uint64_t received = 0;
  bool stops_only = false;  // For "step": the caller may signal steps, but not start any.
};
inline constexpr std::string_view kDetached = "detached";
inline constexpr std::string_view kStreamsGone = "the agent has them no more";

}  // namespace divvy::wire
