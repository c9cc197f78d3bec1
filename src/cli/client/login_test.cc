#include "cli/client/login.h"

#include <gtest/gtest.h>

#include <cstdlib>

namespace divvy::cli {
namespace login_test {

std::string MessageFor(const std::string& chosen) {
  ::setenv("DIVVY_CONTROLLER", chosen.c_str(), 1);
  const auto login = ChosenLogin();
  ::unsetenv("DIVVY_CONTROLLER");
  return login ? "" : login.error().message;
}

TEST(Login, AMessageShowsAPathButNoToken) {
  EXPECT_EQ(MessageFor("/nowhere/token"), "DIVVY_CONTROLLER is not a token line, and /nowhere/token is not a file");
  const std::string secret(64, 'b');
  for (const std::string& value :
       {secret, "gpu1:7433/4f1c22aa." + secret, "4f1c22aa." + secret + "." + secret + "." + secret + "." + secret}) {
    const std::string message = MessageFor(value);
    EXPECT_NE(message.find("it may be a token"), std::string::npos) << message;
    EXPECT_EQ(message.find("bbbb"), std::string::npos) << message;
  }
}

}  // namespace login_test
}  // namespace divvy::cli
