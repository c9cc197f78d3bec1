// The controller's view of one node behind an agent. It takes commands for the node, whether or not it is connected,
// and passes the node's reports to the fleet. It knows no sockets; daemon/fleet/agents.h gives it connections.
//
// A session lasts as long as both processes do: when the connection is cut, nothing is lost or duplicated
// (wire/http/link.h). A new session begins with a Welcome that lists the runs that should be active on the node, and
// drops all commands of the session before. Both sides start from that list. So a job whose launch has not been passed
// to this object yet is not on it.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "daemon/fleet/fleet_port.h"
#include "daemon/runtime/byte_stream.h"
#include "model/lease_terms.h"
#include "samples/sample.h"
#include "wire/http/channels.h"
#include "wire/http/link.h"
#include "wire/messages/agent_messages.h"

namespace divvy {

class RemoteNode final : public NodeCommandPort {
 public:
  struct Ports {
    std::function<Time()> now;
    /// Writes a log line: "event=node_... ".
    std::function<void(const std::string& line)> log;
    /// Called when the node has reported what became of all its runs since this boot (`boot_id`). The boot id is stored
    /// together with the resulting changes.
    std::function<void(const std::string& node, const std::string& boot_id)> on_accounted;
    /// Called when the agent will use another certificate. The function must store its fingerprint and then call
    /// `when_durable`; it does not if the certificate cannot be accepted.
    std::function<void(const std::string& node, const std::string& fingerprint, std::function<void()> when_durable)>
        on_renew;
    /// The key that the nodes of a gang share: 64 hexadecimal digits, the same for all of one attempt. Null if there
    /// are no gangs.
    std::function<std::string(JobId job, std::uint32_t attempt)> gang_key;
    /// Optional. Returns the signed right to run jobs as `user` ("right by name", platform/users/user_right.h), which
    /// is sent along with every action as that user; empty if the launcher has given no right for this user.
    std::function<std::string(const User& user)> right_of;
    /// The controller's own node's name, as the other nodes call it.
    std::string own_name;
    /// The timer for questions that stay unanswered. Null: they wait until the connection ends.
    std::function<void(Duration, std::function<void()>)> after;
    /// The agent has opened a stream, which must be accepted or reset. Null: streams are not accepted.
    std::function<void(RemoteNode& node, std::uint64_t number, std::string_view purpose)> on_channel;
    /// Optional. Called before a foreground job is launched on the node, since its streams must be opened first. Also
    /// called if it was launched before this session and the agent may wait for its caller.
    std::function<void(RemoteNode& node, JobId job)> before_foreground;
    /// Optional. The connection was cut.
    std::function<void(const std::string& node)> on_cut;
    /// The node's samples of the last seconds, in the controller's time, in order. Null: samples are not wanted.
    std::function<void(const std::vector<samples::Snapshot>& seen)> on_samples;
    /// Called when the node has sent a heartbeat, which means that it follows the lease terms of the Welcome.
    std::function<void(const std::string& node)> on_beat;
    /// Optional. False while another controller may lead: nothing is sent to the node.
    std::function<bool()> may_act;
    /// Optional. The addresses of all controllers of this cluster.
    std::function<std::vector<std::string>()> controllers;
  };

  RemoteNode(std::string name, std::uint64_t epoch, FleetPort& fleet, Ports ports);
  RemoteNode(const RemoteNode&) = delete;
  RemoteNode& operator=(const RemoteNode&) = delete;
  ~RemoteNode() override;

  const std::string& name() const { return name_; }
  /// Returns the reason that streams to the node are given when they end because its session has ended.
  static std::string SessionOver(const std::string& name) { return "the session with node " + name + " is over"; }
  /// Records a run that was active when the controller's process started: its launch is stored and may have been sent.
  /// Runs whose LaunchCommand is passed to Execute are recorded by that. Reports about other runs are not passed on.
  void Knows(JobId job, std::uint32_t attempt) { known_[job] = attempt; }

  /// Keeps commands and sends them in order if there is a session. Otherwise drops them, because the next session
  /// begins with the full state.
  void Execute(const NodeCommand& command, std::shared_ptr<const JobSpec> spec) override;
  /// Asks the node to probe these GPUs now; the result arrives as OnGpusObserved.
  void Look(GpuSet gpus);

  /// Tells the node the addresses of all controllers, if they have changed.
  void SendControllers();
  /// Tells the node which of its GPUs tenants must not use now. Returns false if there is no session.
  bool Withhold(const std::vector<wire::WithheldGpu>& gpus);

  /// While samples are being viewed, the node sends them each second. Repeated on every new connection.
  void SetWatched(bool is_watched);

  /// Asks the node a question that changes nothing. `answered` is called once; at once if the node is not connected.
  /// Fails with kUnreachable if no answer arrives: the node is disconnected, or does not answer within kAnswerWithin.
  /// Fails with kLimitExceeded if too many questions wait.
  using Answered = std::function<void(Result<wire::NumberedAnswer>)>;
  void Ask(wire::AgentQuestion question, Answered answered);
  static constexpr Duration kAnswerWithin = std::chrono::seconds(10);
  /// The time limit of a park, wake, move or resize of a job on that node: the node's keeper answers within a minute,
  /// and a keeper that has ended is replaced within 10 s.
  static constexpr Duration kActsWithin = std::chrono::seconds(90);
  static constexpr std::size_t kMostQuestions = 512;

  /// The agent is connected through `stream` and was authenticated. An earlier connection is cut.
  void Connect(std::unique_ptr<ByteStream> stream, FrameReader reader, int version, const wire::AgentHello& hello,
               const LeaseTerms& terms, bool was_rebooted);
  /// Closes the connection, if there is one; the session is kept.
  void Cut(const std::string& why);
  /// Drops everything that was not sent; the agent starts a new session when it reconnects.
  void EndSession();
  /// Tells the agent that it is rejected, and closes the connection.
  void Refuse(const std::string& reason, bool is_final);

  /// The streams of the session; null if there is no session or the agent accepts no streams.
  Channels* channels() { return session_ ? session_->channels.get() : nullptr; }

  bool is_connected() const { return stream_ != nullptr; }
  bool has_session() const { return session_.has_value(); }
  /// Returns when the last message of the node arrived; kNoTime if none has since this process started.
  Time heard() const { return heard_; }
  const std::string& connected_from() const { return address_; }
  void SetAddress(std::string address) { address_ = std::move(address); }

 private:
  struct Session {
    std::string id;
    Link link;
    std::shared_ptr<Channels> channels;
    std::map<JobId, std::uint32_t>
        foreground;  // The attempts of foreground jobs in the Welcome, until the agent has adopted its runs.
  };
  std::string RightOf(const JobRecord& record) const { return ports_.right_of ? ports_.right_of(record.user) : ""; }
  void BeginSession(const wire::AgentHello& hello);
  void DropSession();
  void SendMessage(std::string message);
  void OnBytes(std::string_view bytes);
  void WakeChannels();
  Status OnFrame(Frame frame);
  Status OnReport(std::string_view text);
  Status OnSamples(std::string_view bytes);
  void OnAdopted(const std::string& boot_id);
  void Send(wire::AgentCommand command);
  void Flush();
  void SendFrame(FrameKind kind, std::string_view payload);
  void SendQuestions();
  Status OnAnswer(std::string_view payload);
  void FailQuestion(std::uint64_t number, const std::string& why);
  wire::AgentWelcome MakeWelcome(const wire::AgentHello& hello, const LeaseTerms& terms);
  /// Converts a time of the node's clock to the controller's.
  Time OursOf(Time theirs) const;
  bool IsKnown(JobId job, std::uint32_t attempt) const;
  /// Returns true if the job had a run on the node at that time of the controller's clock; the run may be over now.
  bool HadRun(JobId job, samples::Second at) const;

  std::string name_;
  std::vector<std::string> sent_controllers_;
  std::uint64_t epoch_;
  FleetPort& fleet_;
  Ports ports_;
  // The attempts of the runs that the agent has, or was told to launch, as far as known.
  std::map<JobId, std::uint32_t> known_;
  // Runs that were over on the node recently, and the controller's time when that was reported.
  std::map<JobId, Time> ended_;
  std::optional<Session> session_;
  std::unique_ptr<ByteStream> stream_;
  FrameReader reader_;
  bool was_told_watched_ = false;  // On the present connection.
  std::string address_;
  std::string boot_id_;
  Time heard_ = kNoTime;
  Duration ahead_{0};  // How far the controller's clock is ahead of the node's.
  struct Question {
    std::string payload;  // Empty once it was sent.
    Answered answered;
  };
  std::map<std::uint64_t, Question> questions_;  // By number, in the order of the questions.
  std::uint64_t next_question_ = 1;
  std::size_t questions_sent_ = 0;  // How many of questions_ were sent.
  std::shared_ptr<bool> is_alive_ = std::make_shared<bool>(true);
};

}  // namespace divvy
