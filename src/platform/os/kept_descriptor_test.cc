// The file descriptor store, with a socket of the test as the service manager.
#include "platform/os/kept_descriptor.h"

#include <gtest/gtest.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <array>
#include <cstdio>
#include <cstring>
#include <string>

namespace divvy {
namespace kept_descriptor_test {

class FakeServiceManager {
 public:
  FakeServiceManager() {
    std::string folder = "/tmp/divvy-notify-XXXXXX";
    EXPECT_NE(::mkdtemp(folder.data()), nullptr);
    path_ = folder + "/socket";
    sockaddr_un address = {};
    address.sun_family = AF_UNIX;
    std::snprintf(address.sun_path, sizeof address.sun_path, "%s", path_.c_str());
    EXPECT_EQ(::bind(socket_.get(), reinterpret_cast<const sockaddr*>(&address), sizeof address), 0);
    ::setenv("NOTIFY_SOCKET", path_.c_str(), 1);
  }
  FakeServiceManager(const FakeServiceManager&) = delete;
  FakeServiceManager& operator=(const FakeServiceManager&) = delete;
  ~FakeServiceManager() {
    ::unsetenv("NOTIFY_SOCKET");
    ::unlink(path_.c_str());
    ::rmdir(path_.substr(0, path_.rfind('/')).c_str());
  }
  /// The next message; "" if there is none.
  std::string Next() const {
    std::array<char, 256> text{};
    const ssize_t size = ::recv(socket_.get(), text.data(), text.size(), MSG_DONTWAIT);
    return size > 0 ? std::string(text.data(), static_cast<std::size_t>(size)) : "";
  }

 private:
  Descriptor socket_{::socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0)};
  std::string path_;
};

TEST(KeptDescriptor, AKeptDescriptorReplacesTheOneBefore) {
  const FakeServiceManager manager;
  EXPECT_TRUE(KeepDescriptor("page", STDERR_FILENO));
  EXPECT_EQ(manager.Next(), "FDSTOREREMOVE=1\nFDNAME=page\n");
  EXPECT_EQ(manager.Next(), "FDSTORE=1\nFDNAME=page\n");
  EXPECT_EQ(manager.Next(), "");
}

TEST(KeptDescriptor, ADroppedDescriptorIsNotKeptAnyMore) {
  const FakeServiceManager manager;
  EXPECT_TRUE(DropKeptDescriptor("page"));
  EXPECT_EQ(manager.Next(), "FDSTOREREMOVE=1\nFDNAME=page\n");
  EXPECT_EQ(manager.Next(), "");
}

TEST(KeptDescriptor, WithoutAServiceManagerNothingIsKept) {
  ::unsetenv("NOTIFY_SOCKET");
  EXPECT_FALSE(KeepDescriptor("page", STDERR_FILENO));
  EXPECT_FALSE(DropKeptDescriptor("page"));
}

}  // namespace kept_descriptor_test
}  // namespace divvy
