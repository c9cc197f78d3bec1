#include "node/lease.h"

#include <gtest/gtest.h>

namespace divvy {
namespace lease_test {

constexpr LeaseTerms kTerms = {5s, 60s, true};

TEST(Lease, LastsFromWhenTheAnsweredHeartbeatWasSent) {
  Lease lease;
  EXPECT_FALSE(lease.has_ended(1h));  // No lease has begun.
  lease.Begin(kTerms, 100s);
  EXPECT_FALSE(lease.IsBeatDue(104s));
  EXPECT_TRUE(lease.IsBeatDue(105s));
  const auto first = lease.Beat(105s);
  EXPECT_FALSE(lease.IsBeatDue(109s));
  EXPECT_EQ(lease.ends(), 160s);
  lease.OnAnswer(first);  // It counts from the sending time, however late the answer arrives.
  EXPECT_EQ(lease.ends(), 165s);
  EXPECT_FALSE(lease.is_fenced(164s));
  EXPECT_TRUE(lease.is_fenced(165s));
}

TEST(Lease, AnOldAnswerExtendsNothing) {
  Lease lease;
  lease.Begin(kTerms, 0s);
  const auto first = lease.Beat(5s), second = lease.Beat(10s);
  lease.OnAnswer(second);
  lease.OnAnswer(first);
  lease.OnAnswer(99);
  EXPECT_EQ(lease.ends(), 70s);
}

TEST(Lease, StopsJobsOnlyWhereThatWasAgreed) {
  Lease lease;
  lease.Begin({5s, 60s, false}, 0s);
  EXPECT_TRUE(lease.has_ended(1h));
  EXPECT_FALSE(lease.is_fenced(1h));
}

TEST(Lease, SurvivesARestartOfTheAgent) {
  Lease lease;
  lease.Begin(kTerms, 100s);
  const auto again = Lease::FromText(lease.ToText("boot-1"), "boot-1");
  ASSERT_TRUE(again);
  EXPECT_EQ(again->terms(), kTerms);
  EXPECT_FALSE(again->is_fenced(159s));
  EXPECT_TRUE(again->is_fenced(160s));
  EXPECT_FALSE(Lease::FromText(lease.ToText("boot-1"), "boot-2"));
  EXPECT_FALSE(Lease::FromText("", "boot-1"));
  EXPECT_FALSE(Lease::FromText("boot-1 x 1 1 stops", "boot-1"));
}

// The controller receives a heartbeat after it was sent, and both sides count the same duration. So whatever the
// delays, the node's jobs have stopped when the controller considers them gone.
TEST(Lease, TheNodeHasStoppedBeforeTheControllerReliesOnIt) {
  for (const Duration requeue_after : {Duration(30s), Duration(2min), Duration(1h)}) {
    const LeaseTerms terms = TermsFor(30s, requeue_after);
    EXPECT_LE(FencedAfter(terms), requeue_after);
    for (const Duration delay : {Duration(0), Duration(1ms), Duration(3s)}) {
      Lease lease;
      lease.Begin(terms, 0s);
      Duration heard{0}, now{0};
      for (int i = 0; i < 5; ++i) {
        now += terms.heartbeat;
        const auto beat = lease.Beat(now);
        heard = now + delay;  // Then the connection breaks, before or after the answer.
        if (i % 2 == 0) lease.OnAnswer(beat);
      }
      // The node's clock runs 1% slow.
      const Duration stopped = (lease.ends() - now) * 101 / 100 + now + kFenceGrace;
      EXPECT_LE(stopped, heard + FencedAfter(terms));
    }
  }
}

TEST(Lease, IsLongIfNoOtherNodeTakesOver) {
  const LeaseTerms terms = TermsFor(30s, 0s);
  EXPECT_FALSE(terms.stops_jobs);
  EXPECT_EQ(terms.lease, 30s);
  EXPECT_EQ(terms.heartbeat, 5s);
  EXPECT_EQ(TermsFor(3s, 0s).heartbeat, 500ms);
}

}  // namespace lease_test
}  // namespace divvy
