#include "control/books/job_changes.h"

#include <gtest/gtest.h>

namespace divvy {
namespace job_changes_test {

using Names = std::vector<std::string>;

JobRecord After(const JobChanges& changes, JobRecord record = {}) {
  changes.ApplyTo(record);
  return record;
}

TEST(JobChanges, NodeRequestsAreChangedLikeTheRestOfTheRequest) {
  JobChanges changes;
  changes.nodes = 2;
  changes.constraint = "ib";
  changes.node_list = Names{"n1", "n2"};
  changes.excluded_nodes = Names{"n3"};
  EXPECT_TRUE(changes.changes_request());
  EXPECT_EQ(changes.NamesForWaiting(), (std::vector<std::string_view>{"nodes", "constraint", "nodelist", "exclude"}));
  const Request request = After(changes).request;
  EXPECT_EQ(request.nodes, 2);
  EXPECT_EQ(request.constraint, "ib");
  EXPECT_EQ(request.node_list, (Names{"n1", "n2"}));
  EXPECT_EQ(request.excluded_nodes, Names{"n3"});
}

TEST(JobChanges, OneTaskPerNodeStaysOneTaskPerNode) {
  JobChanges changes;
  changes.nodes = 4;
  JobRecord record;
  record.request.nodes = 2;
  record.request.tasks = 2;
  EXPECT_EQ(After(changes, record).request.tasks, 4);
  record.request.tasks = 6;
  EXPECT_EQ(After(changes, record).request.tasks, 6) << "they were counted by hand";
  record.request.tasks = 2;
  changes.tasks = 8;
  EXPECT_EQ(After(changes, record).request.tasks, 8);
}

}  // namespace job_changes_test
}  // namespace divvy
