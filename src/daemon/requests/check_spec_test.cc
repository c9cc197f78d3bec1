#include "daemon/requests/check_spec.h"

#include <gtest/gtest.h>

namespace divvy {
namespace {

JobSpec Good() {
  JobSpec spec;
  spec.command = {"true"};
  spec.directory = "/tmp";
  return spec;
}

TEST(CheckSpec, LabelsAndNotesAreBounded) {
  JobSpec spec = Good();
  ASSERT_TRUE(CheckSpec(spec));
  spec.labels["key"] = std::string(200 << 10, 'x');
  EXPECT_TRUE(CheckSpec(spec));
  spec.notes = {std::string(100 << 10, 'x')};
  const Status wrong = CheckSpec(spec);
  ASSERT_FALSE(wrong);
  EXPECT_NE(wrong.error().message.find(" bytes together, but a job may have at most 262144"), std::string::npos)
      << wrong.error().message;
}

TEST(CheckSpec, ParametersAreCountedBeforeTheyAreCompared) {
  JobSpec spec = Good();
  for (int i = 0; i < 140'000; ++i) spec.parameters.push_back({.name = "p" + std::to_string(i), .values = {"1"}});
  const Status wrong = CheckSpec(spec);
  ASSERT_FALSE(wrong);
  EXPECT_EQ(wrong.error().message, "spec.parameters: there are 140000 parameters, but a job may have at most 64");
}

void ExpectRefusal(const JobSpec& spec, const std::string& message) {
  const Status wrong = CheckSpec(spec);
  ASSERT_FALSE(wrong) << message;
  EXPECT_EQ(wrong.error().message, message);
}

std::string Names(int count) {
  std::string list;
  for (int i = 0; i < count; ++i) list += (i > 0 ? ",p" : "p") + std::to_string(i);
  return list;
}

TEST(CheckSpec, ListsAreCountedBeforeTheirItemsAreLookedUp) {
  JobSpec pools = Good();
  pools.pool = Names(32);
  EXPECT_TRUE(CheckSpec(pools));
  pools.request.others.resize(2);
  for (Component& one : pools.request.others) one.pool = "p1, p2,,p3";
  EXPECT_TRUE(CheckSpec(pools));
  pools.request.others[1].pool = "another";
  ExpectRefusal(pools, "spec.pool: there are 33 pools, but a job may have at most 32");

  JobSpec nodes = Good();
  nodes.request.node_list.assign(4000, "n1");
  EXPECT_TRUE(CheckSpec(nodes));
  nodes.request.excluded_nodes.assign(97, "n2");
  ExpectRefusal(nodes, "spec.request: there are 4097 names of nodes, but a job may have at most 4096");

  JobSpec after = Good();
  after.dependencies.assign(1024, {DependencyKind::kAfterOk, JobId(1)});
  EXPECT_TRUE(CheckSpec(after));
  after.dependencies.resize(1025);
  ExpectRefusal(after, "spec.dependencies: there are 1025 dependencies, but a job may have at most 1024");

  JobSpec noted = Good();
  noted.notes.assign(257, "a");
  ExpectRefusal(noted, "spec.notes: there are 257 notes, but a job may have at most 256");
}

TEST(CheckSpec, ReceiversAreCountedInEachDialect) {
  for (const auto& [when, to] : {std::pair("notify", "notify-to"), std::pair("slurm.mail-type", "slurm.mail-user"),
                                 std::pair("gflow.notify_on", "gflow.notify_email")}) {
    JobSpec spec = Good();
    spec.labels[when] = "all";
    spec.labels[to] = Names(16);
    EXPECT_TRUE(CheckSpec(spec)) << to;
    spec.labels[to] = Names(17);
    ExpectRefusal(spec, "spec.labels: there are 17 receivers of notifications, but a job may have at most 16");
  }
}

}  // namespace
}  // namespace divvy
