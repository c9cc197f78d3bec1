// The agent's side of the protocol with its controller: sends Hello, executes commands, sends reports and heartbeats.
// If the controller has given the node a lease, it stops the node's jobs when the lease ends without contact. To the
// agent's node it stands for the controller (ControllerPort).
//
// A state machine without I/O of its own: connections, timers, disk and node are passed in as functions (Ports), so
// that a test can replace them all.
//
//   waiting --dial--> dialling --stream--> greeting --Welcome--> welcome
//      ^------------------ after any failure ------------------------'
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "daemon/runtime/byte_stream.h"
#include "daemon/runtime/controller_port.h"
#include "driver/epoch_guard.h"
#include "driver/node_command_port.h"
#include "node/backoff.h"
#include "node/lease.h"
#include "wire/http/channels.h"
#include "wire/http/link.h"
#include "wire/messages/agent_messages.h"

namespace divvy {

/// The reason that streams are given when they end because their session has ended.
inline constexpr std::string_view kSessionOver = "the session with the controller is over";

class AgentSession final : public ControllerPort {
 public:
  struct Ports {
    std::function<Time()> now;
    std::function<Duration()> since_boot;  // Includes the time of suspension.
    std::function<void(Duration, std::function<void()>)> after;
    std::function<void(const std::string& line)> log;
    /// Starts to connect; OnDialled or OnDialFailed follows.
    std::function<void()> dial;

    // The node.
    NodeCommandPort* node = nullptr;
    /// Sets the key of the gang whose node allocation is launched next. Null if there are no gangs.
    std::function<void(JobId job, std::uint32_t attempt, std::string key)> set_gang_key;
    /// Optional. Stores the signed right to run jobs as `user` (in the format of RightText), before any action as that
    /// user.
    std::function<void(const User& user, const std::string& right)> learn_right;
    std::function<Status(bool was_rebooted)> adopt_runs;  // Called once, at the first Welcome.
    std::function<void()> reconcile;                      // Called at each later Welcome that begins a session.
    /// Optional. Receives all GPUs of this node that tenants must not use now.
    std::function<void(const std::vector<wire::WithheldGpu>&)> withhold;
    std::function<void(GpuSet)> look;  // Starts to probe these GPUs; OnGpusObserved must follow.
    std::function<void()> stop_all;    // Called repeatedly while all jobs must stop.
    /// Reads the requested data and calls `done` on the loop's thread, at once or later. Null: questions are not
    /// answered.
    using Told = std::function<void(wire::AgentAnswer, std::string bytes)>;
    std::function<void(const wire::AgentQuestion& question, Told done)> answer;

    /// The controller has opened a stream, which must be accepted or reset. Null: streams are not accepted.
    Channels::OnOpen on_channel;
    /// Optional. The connection is gone; the session may continue.
    std::function<void()> on_disconnected;

    // State that outlives the process.
    std::function<void(std::uint64_t epoch)> keep_epoch;
    std::function<void(const Lease& lease)> keep_lease;
    /// Optional. The addresses of all controllers, one of which leads; fewer than two: this controller has no standbys.
    std::function<void(const std::vector<std::string>& addresses)> keep_controllers;

    // Events for the process; each may be null.
    std::function<void()> on_welcome;
    std::function<void(const Error& error, bool is_final)> on_refused;
    std::function<void(const std::string& fingerprint)> on_renewed;
    /// The controller no longer accepts this node: an administrator has removed it.
    std::function<void(const Error& error)> on_removed;
  };
  struct Start {
    std::string name;
    std::string session;             // Random.
    std::uint64_t newest_epoch = 0;  // The newest epoch of all controllers that it has followed.
    std::optional<Lease> lease;      // The lease of the present boot.
    std::uint64_t seed = 1;
    MachineFacts facts;
    std::string logs;           // The folder of the logs that the node keeps.
    bool has_standbys = false;  // Several controllers are known.
    /// How long the report of a failed run waits. A provider that takes its machine back signals the jobs and this
    /// agent at once. If the agent ends first, the report is never sent, and the controller queues the job again.
    Duration failure_hold{0};
  };

  AgentSession(Start start, Ports ports);
  ~AgentSession() override;

  /// Starts to connect, and reconnects after every loss.
  void Begin();
  void OnDialled(std::unique_ptr<ByteStream> stream);
  /// `is_final`: the controller rejects this agent until something is changed.
  void OnDialFailed(const Error& error, bool is_final);
  /// Sends heartbeats and checks the lease. Call several times per heartbeat interval.
  void Tick();
  /// Takes the present state of the GPUs. While connected, reports it if it has changed or was last reported ten
  /// seconds ago.
  void Glance(const std::vector<GpuObservation>& seen);
  /// Sends bytes of EncodeSnapshots. Returns false if they were not sent and may be retried. If the controller takes no
  /// samples, they count as sent.
  bool SendSamples(const std::string& bytes);
  /// True while samples are being viewed at the controller.
  bool is_watched() const { return is_watched_; }
  /// Sets the reason why this node cannot take jobs; empty: none. Reported when it changes, and in every session.
  void SetTrouble(const std::string& what);
  /// Tells the controller that this agent will use another certificate, the one with this fingerprint.
  void Renew(const std::string& fingerprint);

  /// The streams of the session; null if there is no session or the controller accepts no streams.
  Channels* channels() { return channels_.get(); }

  bool is_welcome() const { return state_ == State::kWelcome; }
  std::uint64_t epoch() const { return epochs_.session(); }
  /// The number of reports that the controller has not acknowledged.
  std::size_t unacknowledged() const { return link_.unacknowledged(); }

  // ControllerPort
  Time Now() const override { return ports_.now(); }
  void OnPrepared(JobId job, std::uint32_t attempt, std::uint16_t port) override;
  void OnDelayed(JobId job, std::uint32_t attempt, const std::string& why) override;
  void OnStarted(JobId job, std::uint32_t attempt, Time at) override;
  void OnExited(JobId job, std::uint32_t attempt, const Exit& exit, Time at) override;
  void OnVanished(JobId job, std::uint32_t attempt, RunVanished how) override;
  void OnGpusObserved(const std::vector<GpuObservation>& observations) override;
  void OnShares(const wire::KeeperState& state) override;
  void OnPresence(const PresenceReport& presence) override;
  void OnRepay(JobId job, std::uint32_t attempt, const std::string& why) override;
  bool OnFound(const RunDescription& run) override;
  std::vector<JobId> ActiveRuns() const override;
  const JobRecord* Find(JobId job) const override;
  Result<std::shared_ptr<const JobSpec>> SpecOf(const JobRecord& record) const override;

 private:
  enum class State { kWaiting, kDialling, kGreeting, kWelcome };
  struct Believed {
    JobRecord record;
    std::shared_ptr<const JobSpec> spec;
  };

  void OnBytes(std::string_view bytes);
  Status OnFrame(Frame frame);
  Status OnWelcome(std::string_view text);
  Status BeginSession(wire::AgentWelcome welcome);
  void OnRefused(std::string_view text);
  Status OnCommand(std::string_view text);
  Status OnAsk(std::string_view payload);
  void LearnRight(const JobRecord& record, const std::string& right) {
    if (ports_.learn_right && !right.empty()) ports_.learn_right(record.user, right);
  }
  void Believe(const NodeCommand& command, const std::shared_ptr<const JobSpec>& spec);
  void Report(const wire::AgentReport& report);
  /// Reports the failures that have waited long enough.
  void ReportHeldFailures();
  void ReportTrouble();
  void SendMessage(std::string message);
  /// The session has ended or was replaced.
  void EndChannels();
  void BeginChannels();
  void Lose(const std::string& why);
  void DialAfter(Duration wait);
  void Flush();
  void SendFrame(FrameKind kind, std::string_view payload);
  /// The delay before the next attempt to connect.
  Duration Pause();
  void LearnControllers(const std::vector<std::string>& addresses);
  /// How late an answer may be.
  Duration Patience() const;
  /// Like Lose, because of a late answer.
  void LoseLate(const std::string& why);
  /// True if another controller may lead by now.
  bool MayHaveStoppedLeading(Duration now) const;
  bool WasSilentTooLong() const { return state_ == State::kWelcome && lease_.has_ended(ports_.since_boot()); }

  Start start_;
  Ports ports_;
  Backoff backoff_;
  int late_answers_ = 0;  // In a row.
  Lease lease_;
  State state_ = State::kWaiting;
  std::unique_ptr<ByteStream> stream_;
  FrameReader reader_;
  Link link_;
  std::shared_ptr<Channels> channels_;
  bool has_standbys_ = false;  // Several controllers are known.
  bool takes_found_ = false;   // The controller wants reports about runs that are not in its Welcome.
  bool takes_samples_ = true;  // As reported by the controller last.
  bool is_watched_ = false;
  bool has_session_ = false;
  bool has_adopted_ = false;
  std::string trouble_;
  bool is_stopping_all_ = false;
  std::uint64_t sessions_ = 0;  // The number of sessions that this process has begun.
  std::uint64_t connections_ = 0;
  EpochGuard epochs_{start_.newest_epoch};
  Duration greeted_at_{0};
  std::map<JobId, Believed> believed_;
  struct HeldFailure {
    wire::ExitedMessage message;
    Duration due{0};  // Since boot.
  };
  std::map<std::pair<JobId, std::uint32_t>, HeldFailure> held_failures_;  // By job and attempt.
  std::vector<GpuObservation> last_glance_;
  Time glanced_at_ = kNoTime;
  std::shared_ptr<bool> is_alive_ = std::make_shared<bool>(true);
};

}  // namespace divvy
