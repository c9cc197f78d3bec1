#include "wire/http/token_line.h"

#include <gtest/gtest.h>

#include <vector>

namespace divvy {
namespace token_line_test {

const TokenLine kLine = {{"gpu1.lab", 7433}, "4f1c22aa", std::string(64, 'b'), std::string(64, '0')};

TEST(TokenLine, IsReadAndWrittenBack) {
  EXPECT_EQ(ToString(kLine), "gpu1.lab:7433#4f1c22aa." + std::string(64, 'b') + "." + std::string(64, '0'));
  EXPECT_EQ(*ParseTokenLine(" " + ToString(kLine) + "\n"), kLine);
  EXPECT_EQ(ParseBearer("Bearer " + BearerOf(kLine))->secret, kLine.secret);
}

TEST(TokenLine, ATruncatedLineIsReportedWithoutTheSecret) {
  const std::string whole = ToString(kLine);
  for (std::size_t size = 0; size < whole.size(); ++size) {
    const auto line = ParseTokenLine(whole.substr(0, size));
    ASSERT_FALSE(line) << size;
    EXPECT_EQ(line.error().message.find("bbbb"), std::string::npos) << line.error().message;
  }
  EXPECT_EQ(ParseTokenLine(whole.substr(0, whole.size() - 1)).error().message,
            "the token line for gpu1.lab:7433 is incomplete; copy it again from what `divvy token create` printed");
  EXPECT_FALSE(ParseTokenLine(whole + "0"));
}

TEST(TokenLine, ANodeTokenContainsTheLaunchersKey) {
  TokenLine line = kLine;
  line.launcher_key = std::string(64, 'c');
  EXPECT_EQ(ToString(line), ToString(kLine) + "." + std::string(64, 'c'));
  EXPECT_EQ(*ParseTokenLine(ToString(line)), line);
  for (const std::string& bad : {ToString(line) + "c", ToString(kLine) + ".", ToString(line) + "." + line.launcher_key})
    EXPECT_FALSE(ParseTokenLine(bad)) << bad;
}

TEST(TokenLine, NamesSeveralControllers) {
  TokenLine line = kLine;
  line.others = {{"gpu2.lab", 7433}, {"fd00::7", 7434}};
  EXPECT_TRUE(ToString(line).starts_with("gpu1.lab:7433,gpu2.lab:7433,[fd00::7]:7434#")) << ToString(line);
  EXPECT_EQ(*ParseTokenLine(ToString(line)), line);
  EXPECT_FALSE(ParseTokenLine("gpu1.lab:7433," + ToString(kLine).substr(0, 5) + ToString(kLine).substr(13)));
}

TEST(TokenLine, OnlyBearerTokensAreAccepted) {
  for (const std::string& header :
       std::vector<std::string>{"", "Basic YTpi", "Bearer", "Bearer ", "Bearer 4f1c22aa", "Bearer 4f1c22aa.b",
                                "Bearer 4F1C22AA." + std::string(64, 'b')}) {
    EXPECT_FALSE(ParseBearer(header)) << header;
  }
}

}  // namespace token_line_test
}  // namespace divvy
