// Routes that list jobs. Live jobs come from the controller's memory at once. The store may hold a million jobs, so it
// is read, and converted to text, on another thread, so that other requests do not wait.
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
  /// Answers with the selected jobs. `has_labels`: all labels of live jobs that were not cached have just been read, so
  /// that filtering by labels needs no reads.
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
