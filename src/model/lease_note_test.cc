#include "model/lease_note.h"

#include <gtest/gtest.h>

namespace divvy {
namespace lease_note_test {

using namespace std::chrono_literals;  // NOLINT

const LeaseNote kNote = {"boot-1", 100s, {5s, 60s, true}};

TEST(LeaseNote, IsReadBackUnchanged) {
  EXPECT_EQ(ParseLeaseNote(LeaseNoteText(kNote)), kNote);
  EXPECT_EQ(kNote.jobs_end(), 160s);
  LeaseNote stays = kNote;
  stays.terms.stops_jobs = false;
  EXPECT_EQ(ParseLeaseNote(LeaseNoteText(stays)), stays);
  EXPECT_EQ(stays.jobs_end(), Duration::max());
  // A longer line was in the file before.
  EXPECT_EQ(ParseLeaseNote(LeaseNoteText(kNote) + "78 stops 12\n"), kNote);
}

// Wherever in the line a reader overtakes the writer.
TEST(LeaseNote, AHalfWrittenLineIsRefused) {
  LeaseNote later = kNote;
  later.renewed = 98'765s;
  const std::string old_text = LeaseNoteText(kNote), new_text = LeaseNoteText(later);
  for (std::size_t at = 1; at + 1 < std::max(old_text.size(), new_text.size()); ++at) {
    for (const auto& [front, back] : {std::pair(old_text, new_text), std::pair(new_text, old_text)}) {
      const std::string torn = front.substr(0, at) + (at < back.size() ? back.substr(at) : "");
      const auto read = ParseLeaseNote(torn);
      EXPECT_TRUE(!read || read == kNote || read == later) << torn;
    }
  }
  EXPECT_FALSE(ParseLeaseNote(""));
  EXPECT_FALSE(ParseLeaseNote("boot-1 x 1 1 stops 5\n"));
  const std::string cut = old_text.substr(0, old_text.size() - 1);
  EXPECT_FALSE(ParseLeaseNote(cut));
}

TEST(LeaseTerms, CleanupTimeCountsFromTheEndOfTheLease) {
  EXPECT_EQ(FenceGraceLeft(100s, 100s, 30s), kFenceGrace);
  EXPECT_EQ(FenceGraceLeft(100s, 101s, 30s), kFenceGrace - 1s);
  EXPECT_EQ(FenceGraceLeft(100s, 101s, 2s), 2s);  // A job that requests less gets less.
  EXPECT_EQ(FenceGraceLeft(100s, 101s, 0s), 0s);
  EXPECT_EQ(FenceGraceLeft(100s, 100s + kFenceGrace, 30s), 0s);
  EXPECT_EQ(FenceGraceLeft(100s, 1h, 30s), 0s);  // The machine was suspended during that time.
}

// Whenever a supervisor notices the end, it sends SIGKILL while the controller still waits. The rest of the margin is
// for the last process to exit.
TEST(LeaseTerms, TheSupervisorHasKilledTheJobBeforeTheControllerReliesOnIt) {
  for (const Duration requeue_after : {Duration(30s), Duration(2min), Duration(1h)}) {
    const LeaseTerms terms = TermsFor(30s, requeue_after);
    const Duration sent = 1000s, ended = sent + terms.lease;  // The controller heard of the node at the earliest when
                                                              // the heartbeat was sent.
    for (Duration late{0}; late <= 20s; late += 500ms) {
      const Duration noticed = ended + late;
      const Duration killed = noticed + FenceGraceLeft(ended, noticed, 1h);
      // The clock here runs 1 % slow.
      if (late > kFenceGrace + kLeaseLook) continue;
      EXPECT_LE((killed - sent - kFenceGrace - kLeaseLook) * 101 / 100 + kFenceGrace + kLeaseLook,
                FencedAfter(terms) - 2 * kLeaseLook);
    }
  }
}

}  // namespace lease_note_test
}  // namespace divvy
