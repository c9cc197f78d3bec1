#include "daemon/runtime/await_readable.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <array>
#include <boost/asio/io_context.hpp>
#include <memory>

#include "platform/os/unique_fd.h"

namespace divvy {
namespace {

using Stream = boost::asio::posix::stream_descriptor;

struct Pipe {
  Pipe() {
    std::array<int, 2> ends{-1, -1};
    EXPECT_EQ(::pipe2(ends.data(), O_CLOEXEC | O_NONBLOCK), 0);
    from.Reset(ends[0]);
    into.Reset(ends[1]);
  }
  void Write() const { EXPECT_EQ(::write(into.get(), "x", 1), 1); }

  Descriptor from, into;
};

TEST(AwaitReadable, EventsOfAStreamThatWasClosedMeanwhileDoNotCount) {
  boost::asio::io_context loop{1};
  Pipe first, second, third;
  const auto a = std::make_shared<Stream>(loop, first.from.Release());
  const auto b = std::make_shared<Stream>(loop, second.from.Release());
  std::shared_ptr<Stream> c;
  int calls = 0;
  AwaitReadable(a, [&] {
    b->close();
    c = std::make_shared<Stream>(loop, third.from.Release());
    AwaitReadable(c, [&calls] { ++calls; });
  });
  AwaitReadable(b, [] { ADD_FAILURE() << "it was closed"; });
  loop.poll();
  first.Write();
  second.Write();
  loop.poll();
  EXPECT_EQ(calls, 0);
  third.Write();
  loop.poll();
  EXPECT_EQ(calls, 1);
}

}  // namespace
}  // namespace divvy
