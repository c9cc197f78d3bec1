// What a controller and the agent of a node say to each other: JSON inside the frames of wire/http/frame.h, described
// like all messages (agent_messages_describe.h). docs/agents.md tells the conversation.
//
// Fields are added, never renamed, inside one protocol version; one that is not known is ignored. An agent offers the
// versions that it speaks, the controller takes the newest that it speaks as well. Times are those of whoever says
// them: no two clocks are compared but through `now` in Hello and Welcome.
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

/// Ours, newest first. A controller speaks its own version and the one before; 1 is the first there is.
inline constexpr std::string_view kAgentPath = "/v1/agents/connect";  // An agent asks for the protocol there.
inline constexpr std::string_view kAgentProtocol = "divvy-agent/1";
inline constexpr int kAgentVersion = 1;
inline constexpr int kOldestAgentVersion = 1;
/// The newest of `offered` that we speak; fails with kFailedPrecondition that names both sides' versions.
Result<int> ChooseAgentVersion(const std::vector<int>& offered);

// --- Opening a connection ----------------------------------------------------------------------------------------

struct AgentHello {
  std::vector<int> versions;
  std::string name;            // Of the node.
  std::string session;         // Drawn when the agent process began.
  std::uint64_t epoch = 0;     // Of the controller that it spoke with last in this session; 0: none.
  std::uint64_t received = 0;  // Messages of that session.
  Time now = kNoTime;          // By its own clock.
  MachineFacts facts;
  std::string logs;           // The folder of the logs that it keeps.
  bool has_channels = false;  // It takes streams (wire/http/channels.h) inside the session.
};

/// A run that the controller believes active on the node, with how it is to be stopped.
struct AgentRun {
  JobRecord record;
  int stop_signal = 15;
  int resize_signal = 10;
  Duration grace{-1};
  /// The right by name of the job's user (platform/users/user_right.h, RightText). Empty where the controller's machine
  /// has no launcher, or that user has never called divvy there.
  std::string right;
};

struct AgentWelcome {
  int version = 0;
  std::uint64_t epoch = 0;       // Counts the controller's starts. Orders of an older one are not followed.
  bool is_resumed = false;       // The session goes on; else `runs` says where both begin.
  std::uint64_t received = 0;    // Messages of the session that is resumed.
  Duration heartbeat{0};         // How often the agent is to give a sign of life.
  Duration lease{0};             // Without an answer for so long,
  bool stops_when_lost = false;  // the agent stops its jobs, where this is set; else they go on.
  bool was_rebooted = false;     // The machine was booted since its runs were last accounted for.
  Time now = kNoTime;
  std::vector<AgentRun> runs;
  bool has_channels = false;  // As in Hello; there are some where both say so.
  bool takes_samples = false;
  bool takes_found = false;  // The controller decides about runs that it did not name (AgentReport::found).
};

struct AgentRefused {
  std::string reason;
  bool is_final = false;  // Asking again does not help before somebody changes something.
};

// --- Orders, to the agent: one of each message's fields ------------------------------------------------------------

struct LaunchMessage {
  JobRecord record;
  JobSpec spec;
  std::uint32_t seat = 0;  // Which of record.gang; such a part is prepared, and waits for GoMessage.
  std::string gang_key;    // By which the parts of a gang know each other: 64 hexadecimal digits; empty: no gang.
  std::string right;       // As in AgentRun.
};
/// All parts of the gang have been prepared.
struct GoMessage {
  JobId job;
  std::uint32_t attempt = 0;
  std::vector<SeatAddress> addresses;  // By seat.
};
struct StopMessage {
  JobId job;
  int signal = 0;
  Duration grace{-1};
};
struct SignalMessage {
  JobId job;
  int signal = 0;
  int reach = 0;  // SignalReach, as a number.
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
/// The GPUs of the machine that are kept from shares of them now, all of them. `why`: "is restricted", as the end of a
/// sentence about the GPU.
struct WithheldGpu {
  GpuIndex gpu = 0;
  std::string why;

  friend bool operator==(const WithheldGpu&, const WithheldGpu&) = default;
};
struct WithholdMessage {
  std::vector<WithheldGpu> gpus;
};
struct PortionMessage {
  JobId job;
  GpuPortion portion;
  GpuSet gpus;  // On which that is counted; empty: as before.
};
/// Look at these GPUs now, and say what was seen.
struct LookMessage {
  GpuSet gpus;
};
/// The certificate with this fingerprint is taken from now on.
struct RenewedMessage {
  std::string fingerprint;
};
struct AgentOrder {
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
  std::optional<AgentRun> adopt;  // A run that was found on the node and that the controller takes over.
};

// --- Reports, from the agent: one of each message's fields ---------------------------------------------------------

/// This part of a gang is ready and waits for the others.
struct PreparedMessage {
  JobId job;
  std::uint32_t attempt = 0;
  std::uint16_t port = 0;  // TCP, where the other machines' parts reach it.
};
/// This run is not started yet. An older controller ignores it.
struct DelayedMessage {
  JobId job;
  std::uint32_t attempt = 0;
  std::string why;  // One line, for the job's listing.
};
struct StartedMessage {
  JobId job;
  std::uint32_t attempt = 0;
  Time at = kNoTime;
};
/// Also of what could not be started; then `exit.failure` says why.
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
/// What one look showed. As a glance (wire/http/frame.h) it is of the moment, as a message it belongs before the next
/// one.
struct GpusMessage {
  std::vector<GpuObservation> gpus;
};
/// Every run of the welcome has been accounted for, by the reports before this one.
struct AdoptedMessage {
  std::string boot_id;
};
/// What keeps the machine from taking jobs, as it finds itself; empty: nothing does any more.
struct TroubleMessage {
  std::string what;  // "its disk is full: 812 KiB are free under /var/lib/divvy/agent/logs"
};
/// Who shares the machine's GPUs, and how it is with them now.
struct SharesMessage {
  KeeperState state;
};
/// No other way is left to give `owner` of its GPU what is its right (KeeperRequeue).
struct RepayMessage {
  JobId job;
  std::uint32_t attempt = 0;
  std::string why;  // "job 12 needs 8.0 GiB of GPU 0 that are its own, and job 7 has borrowed them"
};
/// The agent will come with another certificate.
struct RenewMessage {
  std::string fingerprint;
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
  std::optional<RunDescription> found;  // A run on the node that the welcome did not name, or what became of it.
};

// --- Questions, to the agent: no orders, and lost with the connection. But for `share_action` they change nothing --

/// What an answer brings along at most.
inline constexpr std::int64_t kAnswerBytes = std::int64_t{256} << 10;

/// A piece of a job's output. The agent may have forgotten the job, so all that leads to the file comes along.
struct AgentQuestion {
  JobRecord record;
  std::string output;  // As the spec has them: not filled, empty for none.
  std::string error;
  std::string directory;
  bool is_foreground = false;
  bool is_error = false;   // The error file is meant, where the job has one of its own.
  std::int64_t at = -1;    // From this byte; -1: from before
  std::int64_t last = -1;  // the last so many lines that are there now; -1: all.
  /// Not its output is asked for but its steps, as its list has them (model/steps/step_list.h). An agent that does not
  /// know of this answers with output, and says so by AgentAnswer::are_steps.
  bool wants_steps = false;
  /// Nothing of its output is asked for: this is to be done with its part of a GPU ("park", "wake", "move"), and the
  /// answer comes when it has been. Doing it twice is as doing it once.
  std::string share_action;
  std::vector<int> share_to;  // For "move".
  std::string right;          // As in AgentRun.
};
struct AgentAnswer {
  std::string path;            // Of the file there.
  std::int64_t next = 0;       // Where the next piece begins, in bytes.
  std::int64_t size = 0;       // Of the file now, in bytes.
  int error = 0;               // Why it could not be read (errno of Linux); 0: it was.
  bool is_running = false;     // This attempt of the job is not over there, for all the agent knows.
  bool are_steps = false;      // The bytes are steps, as they were asked for.
  bool is_share_done = false;  // What was to be done with its part of a GPU has been;
  std::string share_error;     // or why not.
};
/// As the payloads of kAsk and kAnswer. `number`: the asker's own, for the answer.
struct NumberedQuestion {
  std::uint64_t number = 0;
  AgentQuestion question;
};
struct NumberedAnswer {
  std::uint64_t number = 0;
  AgentAnswer answer;
  std::string bytes;  // Of the file, kAnswerBytes at most.
};
std::string EncodeAsk(const NumberedQuestion& ask);
std::string EncodeAnswer(const NumberedAnswer& answer);
/// Both fail with kInvalidArgument on what is none.
Result<NumberedQuestion> DecodeAsk(std::string_view payload);
Result<NumberedAnswer> DecodeAnswer(std::string_view payload);

// --- Streams (wire/http/channels.h)
// ---------------------------------------------------------------------------------------

/// What a stream is for, said by who opens it.
struct ChannelPurpose {
  /// "door": the agent's; HTTP of a process of `user`, who has a job there.
  /// "stream": the controller's; standard input, output or error (0 to 2) of a foreground job that is about to be
  /// launched there; all three, in this order; the agent resets the first with kDetached where its caller has left the
  /// terminal of the job. "attach": the same two of a terminal that is joined (0, 1); the agent
  /// resets the second with kDetached where its viewer has left. "resize": the terminal's size; no bytes. "step": the
  /// controller's; frames of platform/records/step_wire.h with what stands in the job for somebody outside.
  std::string kind;
  std::string user;
  JobId job;
  int stream = 0;
  int rows = 0;
  int columns = 0;
  /// A "stream" whose caller had it before, by an earlier session: it goes on. Of an output, how many bytes have come
  /// so far; of the input, of both outputs together. The agent says first on the input's, in digits and a line feed,
  /// how many bytes of it have come; it resets with kStreamsGone what it does not have any more.
  bool goes_on = false;
  std::uint64_t received = 0;
  bool stops_only = false;  // Of a "step": steps may be signalled, and none started.
};
inline constexpr std::string_view kDetached = "detached";
inline constexpr std::string_view kStreamsGone = "the agent has them no more";

/// Only what differs from the defaults is written.
template <typename Message>
std::string EncodeAgent(const Message& message);
/// Fails with kInvalidArgument and every wrong field by its path.
template <typename Message>
Result<Message> DecodeAgent(std::string_view text);

}  // namespace divvy::wire
