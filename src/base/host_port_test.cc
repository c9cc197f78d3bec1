#include "base/host_port.h"

#include <gtest/gtest.h>

namespace divvy {
namespace host_port_test {

TEST(HostPort, IsReadAndWrittenBack) {
  for (const std::string text :
       {"gpu1.lab:7433", "10.0.0.7:1", "[fd00::7]:65535", "[fe80::1%eth0]:80", "localhost:22"}) {
    const auto address = ParseHostPort(text);
    ASSERT_TRUE(address) << text;
    EXPECT_EQ(ToString(*address), text);
  }
  EXPECT_EQ(*ParseHostPort("gpu1", 7433), (HostPort{"gpu1", 7433}));
  EXPECT_EQ(*ParseHostPort("[::1]", 7433), (HostPort{"::1", 7433}));
}

TEST(HostPort, RefusesEverythingElse) {
  for (const std::string text :
       {"", ":", ":7433", "gpu1", "gpu1:", "gpu1:0", "gpu1:65536", "gpu1:+80", "gpu1:80x", "gpu1: 80", "fd00::7:80",
        "[fd00::7", "[]:80", "[fd00::7]80", "gpu 1:80", "gpu1:80:90", "gpu1/x:80"}) {
    EXPECT_FALSE(ParseHostPort(text)) << text;
  }
  EXPECT_EQ(ParseHostPort("gpu1:x").error().message,
            "'gpu1:x' is no address; host:port is one, as in gpu1.lab:7433, 10.0.0.7:7433 or [fd00::7]:7433");
  EXPECT_FALSE(ParseHostPort(std::string(300, 'a') + ":80"));
}

}  // namespace host_port_test
}  // namespace divvy
