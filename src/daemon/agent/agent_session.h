// An agent's side of the conversation with its controller: says Hello, follows orders, reports, gives signs of life,
// and sees to it that the node's jobs stop when that was agreed and the lease has ended. To the node it is its
// controller.
//
// A state machine over ports: connections, timers, disk and the node are given to it, so that a test has them all.
//
//   waiting --dial--> dialling --stream--> greeting --Welcome--> welcome
//      ^------------------ whatever goes wrong ----------------------'
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
#include "daemon/runtime/order_port.h"
#include "node/backoff.h"
#include "node/lease.h"
#include "wire/http/channels.h"
#include "wire/http/link.h"
#include "wire/messages/agent_messages.h"

namespace divvy {

/// Why the streams of a session end with it.
inline constexpr std::string_view kSessionOver = "the session with the controller is over";

class AgentSession final : public ControllerPort {
 public:
  struct Ports {
    std::function<Time()> now;
    std::function<Duration()> since_boot;  // Suspension included.
    std::function<void(Duration, std::function<void()>)> after;
    std::function<void(const std::string& line)> log;
    /// Begins to connect; OnDialled or OnDialFailed follows.
    std::function<void()> dial;

    // The node.
    OrderPort* node = nullptr;
    /// Of the part of a gang that is to be launched next. Null where there are none.
    std::function<void(JobId job, std::uint32_t attempt, std::string key)> set_gang_key;
    /// The right by name of a user (RightText), before anything is done as that user. May be null.
    std::function<void(const User& user, const std::string& right)> learn_right;
    std::function<Status(bool was_rebooted)> adopt_runs;  // Once, at the first welcome.
    std::function<void()> reconcile;                      // At later ones that begin a session.
    /// GPUs here that are not for shares of them now, all of them. May be null.
    std::function<void(const std::vector<wire::WithheldGpu>&)> withhold;
    std::function<void(GpuSet)> look;  // Answered by OnGpusObserved.
    std::function<void()> stop_all;    // Said again and again while it is to be so.
    /// Reads what is asked for and says so by `done`, on the loop's thread, at once or later. Null: nothing is told.
    using Told = std::function<void(wire::AgentAnswer, std::string bytes)>;
    std::function<void(const wire::AgentQuestion& question, Told done)> answer;

    /// The controller has opened a stream: to be accepted or reset. Null: none is taken.
    Channels::OnOpen on_channel;
    /// The connection is gone; the session may go on. May be null.
    std::function<void()> on_disconnected;

    // What outlives the process.
    std::function<void(std::uint64_t epoch)> keep_epoch;
    std::function<void(const Lease& lease)> keep_lease;

    // To the process. Each may be null.
    std::function<void()> on_welcome;
    std::function<void(const Error& error, bool is_final)> on_refused;
    std::function<void(const std::string& fingerprint)> on_renewed;
    /// The controller that had let us in wants us no more: an administrator has removed the node.
    std::function<void(const Error& error)> on_removed;
  };
  struct Start {
    std::string name;
    std::string session;             // Drawn by chance.
    std::uint64_t newest_epoch = 0;  // Of all controllers that it ever spoke with.
    std::optional<Lease> lease;      // Of this boot.
    std::uint64_t seed = 1;
    MachineFacts facts;
    std::string logs;  // The folder of the logs that the node keeps.
  };

  AgentSession(Start start, Ports ports);
  ~AgentSession() override;

  /// Dials, and goes on doing so.
  void Begin();
  void OnDialled(std::unique_ptr<ByteStream> stream);
  /// `is_final`: the controller does not want us as things are.
  void OnDialFailed(const Error& error, bool is_final);
  /// Beats and leases; several times in each heartbeat.
  void Tick();
  /// The GPUs now, if anybody listens: when something has changed, and every ten seconds.
  void Glance(const std::vector<GpuObservation>& seen);
  /// Bytes of EncodeSnapshots. False: they were not sent, and may be worth another try; where the controller takes
  /// none, they count as sent.
  bool SendSamples(const std::string& bytes);
  /// Somebody there looks at samples just now.
  bool is_watched() const { return is_watched_; }
  /// What keeps this machine from taking jobs; empty: nothing. Told when it changes, and to every session.
  void SetTrouble(const std::string& what);
  /// Tells the controller that we shall come with another certificate.
  void Renew(const std::string& fingerprint);

  /// Streams of the session; null where there is none, or the controller takes none.
  Channels* channels() { return channels_.get(); }

  bool is_welcome() const { return state_ == State::kWelcome; }
  std::uint64_t epoch() const { return epoch_; }
  /// Reports that the controller has not acknowledged.
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
  Status OnOrder(std::string_view text);
  Status OnAsk(std::string_view payload);
  void LearnRight(const JobRecord& record, const std::string& right) {
    if (ports_.learn_right && !right.empty()) ports_.learn_right(record.user, right);
  }
  void Believe(const Order& order, const std::shared_ptr<const JobSpec>& spec);
  void Report(const wire::AgentReport& report);
  void ReportTrouble();
  void SendMessage(std::string message);
  /// The session has ended, or is another one.
  void EndChannels();
  void BeginChannels();
  void Lose(const std::string& why);
  void DialAfter(Duration wait);
  void Flush();
  void SendFrame(FrameKind kind, std::string_view payload);
  bool WasSilentTooLong() const { return state_ == State::kWelcome && lease_.has_ended(ports_.since_boot()); }

  Start start_;
  Ports ports_;
  Backoff backoff_;
  Lease lease_;
  State state_ = State::kWaiting;
  std::unique_ptr<ByteStream> stream_;
  FrameReader reader_;
  Link link_;
  std::shared_ptr<Channels> channels_;
  bool takes_found_ = false;   // The controller decides about runs that it did not name.
  bool takes_samples_ = true;  // The controller does, as it said last.
  bool is_watched_ = false;
  bool has_session_ = false;
  bool has_adopted_ = false;
  std::string trouble_;
  bool is_stopping_all_ = false;
  std::uint64_t sessions_ = 0;  // Begun in this process.
  std::uint64_t connections_ = 0;
  std::uint64_t epoch_ = 0;  // Of the session; 0: none.
  Duration greeted_at_{0};
  std::map<JobId, Believed> believed_;
  std::vector<GpuObservation> last_glance_;
  Time glanced_at_ = kNoTime;
  std::shared_ptr<bool> is_alive_ = std::make_shared<bool>(true);
};

}  // namespace divvy
