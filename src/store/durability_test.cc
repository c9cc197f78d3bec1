// Acknowledged commits survive kill -9 at any moment.
#include <fcntl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>

#include <gtest/gtest.h>

#include "store/store_test_support.h"

namespace divvy {
namespace durability_test {

/// Commits in an endless loop, two jobs and a history line each. Writes each acknowledged id to the pipe.
[[noreturn]] void CommitForEver(const std::string& path, std::uint64_t next, int pipe) {
  auto store = OpenSqliteStore(path);
  while (store) {
    Batch batch = Insert({Job(next), Job(next + 1)});
    batch.history = {{JobId(next), kNoon, "queued"}};
    batch.next_id = next + 2;
    if (!(*store)->Commit({batch})) break;
    if (::write(pipe, &next, sizeof next) != sizeof next) break;
    next += 2;
  }
  ::_exit(1);
}

TEST(KillMinusNine, LosesNothingAcknowledgedAndKeepsNoPartialCommit) {
  TemporaryFolder folder;
  const std::string path = folder.File("divvy.db");
  std::uint64_t next = 1;
  for (const int acknowledged_before_kill : {1, 2, 7, 40, 150, 300}) {
    int pipe[2];
    ASSERT_EQ(::pipe2(pipe, O_CLOEXEC), 0);
    const pid_t child = ::fork();
    if (child == 0) CommitForEver(path, next, pipe[1]);
    ::close(pipe[1]);
    std::uint64_t last = 0;
    int count = 0;
    std::uint64_t id = 0;
    while (::read(pipe[0], &id, sizeof id) == sizeof id) {  // Until the child is dead and the pipe is empty.
      last = id;
      if (++count == acknowledged_before_kill) ::kill(child, SIGKILL);
    }
    ::close(pipe[0]);
    int status = 0;
    ::waitpid(child, &status, 0);
    ASSERT_TRUE(WIFSIGNALED(status)) << "the child ended by itself";
    ASSERT_GE(count, acknowledged_before_kill);

    auto store = Must(OpenSqliteStore(path));
    const auto loaded = Must(store->Load());
    ASSERT_GE(loaded.live.size(), last + 1);
    ASSERT_LE(loaded.live.size(), last + 3) << "at most one commit can have been on its way";
    for (std::uint64_t i = 1; i <= loaded.live.size(); ++i) ASSERT_EQ(loaded.live.at(JobId(i)), Job(i));
    EXPECT_EQ(loaded.next_id, loaded.live.size() + 1);
    EXPECT_EQ(loaded.jobs_total, loaded.live.size());
    EXPECT_EQ(loaded.live.size() % 2, 0u) << "half a commit was kept";
    EXPECT_EQ(Must(store->HistoryOf(JobId(last))).size(), 1u);
    next = loaded.next_id;
  }
}

}  // namespace durability_test
}  // namespace divvy
