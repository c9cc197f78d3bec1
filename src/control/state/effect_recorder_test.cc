#include "control/state/effect_recorder.h"

#include <gtest/gtest.h>

namespace divvy {
namespace effect_recorder_test {

JobRecord Record(std::uint64_t id, int priority) {
  JobRecord record;
  record.id = JobId(id);
  record.priority = priority;
  return record;
}

TEST(EffectRecorder, LastContentOfARecordIsPersisted) {
  EffectRecorder effects;
  effects.Insert(Record(1, 0), nullptr);
  effects.Persist(Record(2, 0));
  effects.Persist(Record(1, 5));
  effects.Persist(Record(2, 7));
  const Batch batch = effects.Take().batch;
  ASSERT_EQ(batch.inserts.size(), 1U);
  EXPECT_EQ(batch.inserts[0].record.priority, 5);
  ASSERT_EQ(batch.updates.size(), 1U);
  EXPECT_EQ(batch.updates[0].priority, 7);
  // The next step has rows of its own.
  effects.Persist(Record(1, 6));
  EXPECT_EQ(effects.Take().batch.updates.size(), 1U);
}

TEST(EffectRecorder, TrialLeavesOnlyItsWakeup) {
  EffectRecorder effects;
  effects.SetNeedsPlan(false);
  effects.Persist(Record(1, 1));
  EffectRecorder before = effects.SetAside();
  effects.Persist(Record(1, 2));
  effects.Send(StopCommand{JobId(1), 15, Duration(0), ""});
  effects.RequestPlan();
  effects.WakeBy(Time(Duration(5)));
  effects.Restore(std::move(before));
  EXPECT_FALSE(effects.needs_plan());
  EXPECT_EQ(effects.next_wakeup(), Time(Duration(5)));
  effects.Persist(Record(1, 3));
  const Effects kept = effects.Take();
  EXPECT_TRUE(kept.commands.empty());
  ASSERT_EQ(kept.batch.updates.size(), 1U);
  EXPECT_EQ(kept.batch.updates[0].priority, 3);
}

}  // namespace effect_recorder_test
}  // namespace divvy
