// One node behind an agent, as the controller has it: takes orders for it, whether or not it is connected just now, and
// gives what it reports to whoever decides. Knows no sockets; daemon/fleet/agents.h gives it connections.
//
// A session lasts as long as both processes do: over cuts of the connection nothing is lost or doubled
// (wire/http/link.h). A new one begins with what is believed to run there, and drops all orders of the one before:
// whoever has the runs of that list, and only those, is where both begin. So a job whose launch has not been handed to
// us yet is not on it.
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

class RemoteNode final : public OrderPort {
 public:
  struct Ports {
    std::function<Time()> now;
    /// Something to be told to people: "event=node_... ".
    std::function<void(const std::string& line)> log;
    /// All its runs are accounted for as of this boot: to be kept with what the fleet makes of it.
    std::function<void(const std::string& node, const std::string& boot_id)> on_accounted;
    /// It will come with another certificate; `when_durable`, unless that cannot be.
    std::function<void(const std::string& node, const std::string& fingerprint, std::function<void()> when_durable)>
        on_renew;
    /// The key by which the parts of a gang know each other: 64 hexadecimal digits, the same for all of one attempt.
    /// Null where there are no gangs.
    std::function<std::string(JobId job, std::uint32_t attempt)> gang_key;
    /// The right by name of a user, which goes with all that the agent does as that user; empty: there is none. May be
    /// null.
    std::function<std::string(const User& user)> right_of;
    /// What the other machines call the controller's own.
    std::string own_name;
    /// For questions that nobody answers. Null: they wait until the connection ends.
    std::function<void(Duration, std::function<void()>)> after;
    /// The agent has opened a stream: to be accepted or reset. Null: none is taken.
    std::function<void(RemoteNode& node, std::uint64_t number, std::string_view purpose)> on_channel;
    /// A foreground job is launched there next: its streams go first. Also where it was launched before this session
    /// and the agent may wait for its caller. May be null.
    std::function<void(RemoteNode& node, JobId job)> before_foreground;
    /// Its connection was cut. May be null.
    std::function<void(const std::string& node)> on_cut;
    /// What it used in the last seconds, by our clock, in order. Null: its samples are not wanted.
    std::function<void(const std::vector<samples::Snapshot>& seen)> on_samples;
    /// It has given a sign of life, so it keeps to what the welcome said.
    std::function<void(const std::string& node)> on_beat;
  };

  RemoteNode(std::string name, std::uint64_t epoch, FleetPort& fleet, Ports ports);
  RemoteNode(const RemoteNode&) = delete;
  RemoteNode& operator=(const RemoteNode&) = delete;
  ~RemoteNode() override;

  const std::string& name() const { return name_; }
  /// Why streams to it end with its session.
  static std::string SessionOver(const std::string& name) { return "the session with node " + name + " is over"; }
  /// This run was active when the controller's process began (its launch is durable, and may have been sent). Launches
  /// that are handed over since are known by themselves. What the agent says of a run that is not known is not passed
  /// on.
  void Knows(JobId job, std::uint32_t attempt) { known_[job] = attempt; }

  /// Kept and sent in order where there is a session; else dropped, for the next one begins with the truth.
  void Execute(const Order& order, std::shared_ptr<const JobSpec> spec) override;
  /// Asks it to look at these GPUs now; what it sees comes as OnGpusObserved.
  void Look(GpuSet gpus);

  /// Tells it which of its GPUs are not for shares of them now. False: there is no session.
  bool Withhold(const std::vector<wire::WithheldGpu>& gpus);

  /// Somebody looks at samples: they are to come each second. Said again to every connection.
  void SetWatched(bool is_watched);

  /// Asks it something that changes nothing; `answered` is called once, at once where it is not connected. kUnreachable
  /// where no answer comes: it is away, goes away meanwhile, or says nothing for kAnswerWithin. kLimitExceeded: too
  /// many questions wait.
  using Answered = std::function<void(Result<wire::NumberedAnswer>)>;
  void Ask(wire::AgentQuestion question, Answered answered);
  static constexpr Duration kAnswerWithin = std::chrono::seconds(10);
  /// Of what is done with a tenant there: its keeper answers within a minute, and one that is gone has 10 s to return.
  static constexpr Duration kActsWithin = std::chrono::seconds(90);
  static constexpr std::size_t kMostQuestions = 512;

  /// The agent is there, over `stream`, and has said who it is. An earlier connection is cut.
  void Connect(std::unique_ptr<ByteStream> stream, FrameReader reader, int version, const wire::AgentHello& hello,
               const LeaseTerms& terms, bool was_rebooted);
  /// Closes the connection, if there is one; the session stays.
  void Cut(const std::string& why);
  /// What was not sent never will be, and the agent begins anew when it comes back.
  void EndSession();
  /// Tells the agent that it is wanted no more, and closes.
  void Refuse(const std::string& reason, bool is_final);

  /// Streams of the session; null where there is none, or the agent takes none.
  Channels* channels() { return session_ ? session_->channels.get() : nullptr; }

  bool is_connected() const { return stream_ != nullptr; }
  bool has_session() const { return session_.has_value(); }
  /// A frame came last; kNoTime: never in this process.
  Time heard() const { return heard_; }
  const std::string& connected_from() const { return address_; }
  void SetAddress(std::string address) { address_ = std::move(address); }

 private:
  struct Session {
    std::string id;
    Link link;
    std::shared_ptr<Channels> channels;
    std::map<JobId, std::uint32_t>
        foreground;  // Attempt of those in its welcome, until the agent has adopted its runs.
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
  void Send(wire::AgentOrder order);
  void Flush();
  void SendFrame(FrameKind kind, std::string_view payload);
  void SendQuestions();
  Status OnAnswer(std::string_view payload);
  void FailQuestion(std::uint64_t number, const std::string& why);
  wire::AgentWelcome MakeWelcome(const wire::AgentHello& hello, const LeaseTerms& terms);
  /// What the node's clock shows as ours.
  Time OursOf(Time theirs) const;
  bool IsKnown(JobId job, std::uint32_t attempt) const;
  /// Whether a job had a run there at that moment of our clock, which may be over by now.
  bool HadRun(JobId job, samples::Second at) const;

  std::string name_;
  std::uint64_t epoch_;
  FleetPort& fleet_;
  Ports ports_;
  std::map<JobId, std::uint32_t> known_;  // Attempt of the runs that the agent has, or was ordered, for all we know.
  std::map<JobId, Time> ended_;           // Runs that were over there lately, and when we said so.
  std::optional<Session> session_;
  std::unique_ptr<ByteStream> stream_;
  FrameReader reader_;
  bool was_told_watched_ = false;  // Over this connection.
  std::string address_;
  std::string boot_id_;
  Time heard_ = kNoTime;
  Duration ahead_{0};  // Of our clock before theirs.
  struct Question {
    std::string payload;  // Empty: it was sent.
    Answered answered;
  };
  std::map<std::uint64_t, Question> questions_;  // By number, in the order in which they were asked.
  std::uint64_t next_question_ = 1;
  std::size_t questions_sent_ = 0;  // Of questions_.
  std::shared_ptr<bool> is_alive_ = std::make_shared<bool>(true);
};

}  // namespace divvy
