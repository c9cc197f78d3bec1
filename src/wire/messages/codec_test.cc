// Limits for untrusted text.
#include "wire/messages/codec.h"

#include <gtest/gtest.h>

#include <string>

namespace divvy::wire {
namespace codec_test {

/// "[1,1,1]"
std::string Ones(std::size_t count, std::string_view one = "1") {
  std::string list = "[";
  for (std::size_t i = 0; i < count; ++i) {
    if (i > 0) list += ',';
    list += one;
  }
  return list + "]";
}

TEST(Codec, ReadsTheLargestSweepThatMayBeSubmitted) {
  const std::string column = "{\"name\":\"p\",\"row_group\":0,\"values\":" + Ones(100'000, "\"1\"") + "}";
  const auto request = Decode<SubmitRequest>("{\"spec\":{\"parameters\":" + Ones(10, column) + "}}");
  ASSERT_TRUE(request) << request.error().message;
  EXPECT_EQ(request->spec.parameters.back().values.size(), 100'000u);
}

TEST(Codec, RefusesARequestWithTooManyValues) {
  const std::string many = Ones(2'000'000);
  for (const std::string& body : {"{\"spec\":{\"command\":" + many + "}}", "{\"what\":" + many + "}"}) {
    const auto request = Decode<SubmitRequest>(body);
    ASSERT_FALSE(request);
    EXPECT_EQ(request.error().code, ErrorCode::kInvalidArgument);
    EXPECT_NE(request.error().message.find("more than 1048576 values"), std::string::npos) << request.error().message;
  }
  const auto select = Decode<JobSelector>("{\"ids\":" + Ones(300'000, "\"1\"") + "}");
  ASSERT_FALSE(select);
  EXPECT_NE(select.error().message.find("more than 262144 values"), std::string::npos) << select.error().message;
  EXPECT_TRUE(Decode<JobSelector>("{\"ids\":" + Ones(200'000, "\"1\"") + "}"));
}

}  // namespace codec_test
}  // namespace divvy::wire
