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
  EXPECT_EQ(wrong.error().message, "spec.parameters: there are 140000 parameters, but a job may have at most 256");
}

}  // namespace
}  // namespace divvy
