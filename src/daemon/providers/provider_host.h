// Nodes on demand in the daemon: lets engine/growth decide which nodes to request and to return, carries that out
// (providers/provisioner.h), and calls the providers' programs. Decisions run on a thread of their own.
//
// Order: the rows of a step of the provisioner are durable before its calls and acts. A requested node joins with a
// token that was made for its request, under the name that was given to it; no other agent gets that name.
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
    std::function<TokenLine()> join_line;  // The data with which an agent joins, without the token's id and secret.
    std::string folder;                    // HOME of the providers' programs: the daemon's state folder.
  };

  explicit ProviderHost(std::vector<Provider> providers);
  ~ProviderHost();

  /// Fills in the program of each provider of a built-in kind, such as "slurm": it is this program, at the path
  /// `divvy`. Fails if a provider's program cannot be run, or if other users can read its credentials. Call before the
  /// start.
  static Status Complete(std::vector<Provider>& providers, const std::string& divvy);

  /// Loads a row of the store. Returns true if the row belongs to this class.
  bool LoadSetting(std::string_view key, std::string_view text);
  /// Starts to request and return nodes. All arguments must outlive this object.
  void Open(boost::asio::io_context& loop, ControllerDriver& driver, AgentListener& agents, TokenRegistry& tokens,
            Ports ports);

  using Labels = std::map<std::string, std::string>;
  /// Returns the labels that the node `name` gets when an agent joins with this token. They are empty for a node and a
  /// token that belong to no provider. Fails with kPermissionDenied if the token or the name belongs to another node.
  Result<Labels> CheckJoin(std::string_view join_token, const std::string& name) const;

  bool has_providers() const { return !provisioner_.providers().empty(); }
  /// Returns what nodes of providers cost, by the name of the team for whose jobs they were requested
  /// (providers/growth_feed.h).
  std::map<std::string, providers::Provisioner::Spending> TeamSpending() const;
  /// Returns the nodes that existed in this period, with their prices (Provisioner::NodesBetween).
  std::vector<providers::PricedNode> NodesBetween(Time since, Time until) const {
    return provisioner_.NodesBetween(since, until);
  }
  bool empty() const { return provisioner_.providers().empty() && provisioner_.requests().empty(); }
  std::vector<wire::ProviderView> Views(Time now) const;
  /// Sets what an administrator wants of the provider `name`; `action` is "enable", "disable" or "drain". Returns a
  /// message about it.
  Result<std::string> Act(const std::string& name, const std::string& action);
  /// Describes for `divvy why` which nodes were or will be requested for a waiting job or array, or why none will be;
  /// empty if there is nothing to say.
  std::vector<std::string> Why(JobId entry) const;
  /// Fails if the job names a provider that does not exist, or has a label for nodes on demand that cannot be read.
  Status CheckWishes(const JobSpec& spec) const;
  /// Takes the labels of a job or an array that was just submitted, so that its specification need not be read.
  void Learn(JobId job, const Labels& labels);
  /// Describes for `divvy submit --dry-run` which nodes would be requested for the job if it could not start at once,
  /// and what they cost, or why none would be requested. `id` must be an id that no job has. Takes as long as a
  /// decision about nodes, so users who are not administrators get one answer per second; further ones are empty.
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
  std::string cluster_;  // The tag that all nodes of this cluster carry at their providers.
  std::map<std::string, providers::NodeMemory> memory_;
  std::map<std::string, Time> away_since_;
  std::map<JobId, providers::Unused> unused_;
  // The wishes of jobs for nodes on demand, by job or by array as a whole. A job is in at most one of the next three;
  // every waiting job is in one of them after the next ScanWishes.
  std::map<JobId, GrowthWishes> wishes_;         // The wishes that are known.
  std::map<JobId, JobId> unread_;                // To be read: job or array, and the job whose specification has them.
  std::set<JobId> unreadable_;                   // Jobs and arrays whose specifications cannot be read.
  Time scanned_at_ = kNoTime;                    // The time of the last ScanWishes.
  std::map<std::int64_t, Time> foreseen_;        // By uid: the time of the user's last Foresee.
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
