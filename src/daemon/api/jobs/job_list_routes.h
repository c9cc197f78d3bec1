// Lists jobs. Live jobs are answered from the controller at once. The store may hold a million jobs: it is read, and
// converted to text, on a thread that reads, so that other requests do not wait.
#pragma once

#include <map>
#include <vector>

#include "daemon/api/call/api_context.h"
#include "daemon/api/call/route_table.h"
#include "wire/messages/messages.h"

namespace divvy {

class FirstBlockers;

class JobListRoutes {
 public:
  JobListRoutes(ApiContext& api, RouteTable& table);

 private:
  struct Listing;

  void Select(ApiCall& call);
  void List(ApiCall& call);
  /// `has_labels`: all unknown labels of live jobs were read just now.
  void AnswerJobs(ApiCall& call, const wire::JobSelector& select, bool has_labels = false);
  void AnswerNamed(ApiCall& call, const wire::JobSelector& select);
  FinishCall ReadListing(Listing& listing);
  std::vector<JobRecord> LiveInOrder(const wire::JobSelector& select, const Caller& caller,
                                     std::map<JobId, std::uint64_t>& positions);
  /// `blockers` is shared by all jobs of the listing.
  wire::JobView LiveView(const JobRecord& record, const FindOutcome& find, FirstBlockers& blockers);

  ApiContext& api_;
  ControllerDriver& driver_;
  const ApiPorts& ports_;
  LabelCache& labels_;
};

}  // namespace divvy
