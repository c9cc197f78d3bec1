// Nodes on demand in the daemon: asks the decision about nodes (engine/growth) which ones to request and to return,
// carries that out (providers/provisioner.h), and calls the providers' programs. Decisions run on a thread of their
// own.
//
// Order: a step's rows are durable before its calls and acts. The node of a request joins with a token that was made
// for it, under the name that was given to it; no other agent gets that name.
//
// Used on the loop's thread only.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include <boost/asio/io_context.hpp>

#include "control/books/token_registry.h"
#include "daemon/fleet/agent_listener.h"
#include "daemon/providers/provider_program.h"
#include "daemon/runtime/log.h"
#include "daemon/runtime/worker.h"
#include "driver/controller_driver.h"
#include "providers/growth_feed.h"
#include "providers/provisioner.h"
#include "wire/http/token_line.h"
#include "wire/messages/provider_messages.h"

namespace divvy {

class ProviderHost {
 public:
  struct Ports {
    std::function<void(Duration, std::function<void()>)> after;
    const Log* log = nullptr;
    std::string divvy;                     // The path of this program.
    std::function<TokenLine()> join_line;  // Everything but the token's id and secret.
    std::string folder;                    // The home of the programs: the daemon's state folder.
  };

  explicit ProviderHost(std::vector<Provider> providers);
  ~ProviderHost();

  /// Checks before the start: that programs exist, and that nobody else can read credentials. `divvy`:
  /// the path of this program, which is also the program of kind "slurm".
  static Status Complete(std::vector<Provider>& providers, const std::string& divvy);

  /// Returns whether the row belongs to this class.
  bool LoadSetting(std::string_view key, std::string_view text);
  /// Starts to decide. Everything given must outlive this object.
  void Open(boost::asio::io_context& loop, ControllerDriver& driver, AgentListener& agents, TokenRegistry& tokens,
            Ports ports);

  using Labels = std::map<std::string, std::string>;
  /// Returns the labels with which an agent with this join token becomes the node `name`, or why it may not.
  Result<Labels> CheckJoin(std::string_view join_token, const std::string& name) const;

  bool has_providers() const { return !provisioner_.providers().empty(); }
  /// The cost of nodes by team (providers/growth_feed.h).
  std::map<std::string, providers::Provisioner::Spending> TeamSpending() const;
  bool empty() const { return provisioner_.providers().empty() && provisioner_.requests().empty(); }
  std::vector<wire::ProviderView> Views(Time now) const;
  /// `action`: "enable", "disable", "drain". Returns a message.
  Result<std::string> Act(const std::string& name, const std::string& action);
  /// Describes what the waiting job, or its array, can expect from providers; empty if nothing.
  std::vector<std::string> Why(JobId entry) const;
  /// Fails if the job names a provider that does not exist, or has a label for nodes on demand that cannot be read.
  Status CheckWishes(const JobSpec& spec) const;
  /// The job, or the array, was submitted with these labels. So its specification need not be read.
  void Learn(JobId job, const Labels& labels);
  /// For a submission that is not made and could not start at once: which nodes would be requested for it and what they
  /// cost, or why none would be. `id` is not the id of a job. Cost: that of a decision, so a caller who is not an
  /// administrator gets one answer in a second, and otherwise nothing.
  std::vector<std::string> Foresee(JobId id, const JobSpec& spec, std::uint64_t elements, const Caller& caller);

 private:
  using Step = providers::Provisioner::Step;
  void Tick();
  void Look(Time now);
  void Decide(Time now);
  void ReadWishes();
  void ScanWishes(Time now);
  void WillRead(const JobRecord& record);
  void OnDecision(const std::shared_ptr<const providers::GrowthFeed>& feed, const growth::GrowthDecision& decision);
  void TakeStep(Time now);
  void Perform(const Step& step, const std::map<std::string, std::string>& join_lines);
  void Act(const providers::NodeAct& act);
  void Run(const providers::Call& call, const std::string& join_line);
  std::string MakeJoinToken(const providers::NodeRequest& request);
  void DropJoinTokens();
  const Provider* Find(std::string_view name) const;
  const NodeShape* ShapeOf(const providers::NodeRequest& request) const;
  Labels LabelsOf(const providers::NodeRequest& request) const;
  void Keep(providers::Provisioner::Setting row);
  void Write(LogLevel level, const std::string& line) const;

  providers::Provisioner provisioner_;
  std::string cluster_;  // The tag of its nodes.
  std::map<std::string, providers::NodeMemory> memory_;
  std::map<std::string, Time> away_since_;
  std::map<JobId, providers::Unused> unused_;
  // By job, or by array as a whole. A live job may be in one of these three; one that waits is, at the latest after
  // the next ScanWishes.
  std::map<JobId, GrowthWishes> wishes_;         // They are known.
  std::map<JobId, JobId> unread_;                // To be read from the specification of the second: it, or an element.
  std::set<JobId> unreadable_;                   // Their specifications cannot be read.
  Time scanned_at_ = kNoTime;                    // ScanWishes.
  std::map<std::int64_t, Time> foreseen_;        // By user: the last Foresee.
  std::map<std::string, std::string> reported_;  // By provider: its last error that was logged.
  ControllerDriver* driver_ = nullptr;
  AgentListener* agents_ = nullptr;
  TokenRegistry* tokens_ = nullptr;
  boost::asio::io_context* loop_ = nullptr;
  Ports ports_;
  std::unique_ptr<ProviderRunner> runner_;
  std::shared_ptr<const providers::GrowthFeed> last_feed_;
  growth::GrowthDecision last_decision_;
  std::uint64_t subscription_ = 0;
  bool is_changed_ = true;
  bool is_deciding_ = false;
  Time decided_at_ = kNoTime;
  Time decide_at_ = kNoTime;
  Time dropped_at_ = kNoTime;
  std::shared_ptr<bool> is_alive_ = std::make_shared<bool>(true);
  std::unique_ptr<Worker> worker_;  // Declared last: its task may still run.
};

}  // namespace divvy
