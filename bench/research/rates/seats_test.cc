#include "research/rates/seats.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>

namespace divvy::rates {
namespace seats_test {

class TestRandom {
 public:
  explicit TestRandom(std::uint64_t seed) : state_(seed * 2 + 1) {}
  int Below(int bound) {
    state_ = state_ * 6364136223846793005 + 1442695040888963407;
    return static_cast<int>((state_ >> 33) % static_cast<std::uint64_t>(bound));
  }

 private:
  std::uint64_t state_;
};

double Worth(const std::vector<Seat>& seats, const std::vector<SeatJob>& jobs, const Speeds& speeds) {
  double sum = 0;
  for (const Seat& seat : seats) {
    const SeatJob& first = jobs[seat.first];
    if (seat.second == kNobody) {
      sum += first.weight * speeds.Alone(first.kind, seat.type);
      continue;
    }
    const SeatJob& second = jobs[seat.second];
    const auto [mine, theirs] = speeds.Locality(first.kind, second.kind, seat.type);
    sum += first.weight * mine + second.weight * theirs;
  }
  return sum;
}

void ExpectFits(const std::vector<Seat>& seats, const std::vector<SeatJob>& jobs, const std::vector<int>& gpus) {
  std::vector<int> left = gpus, seen(jobs.size());
  for (const Seat& seat : seats) {
    left[seat.type] -= jobs[seat.first].gpus;
    ++seen[seat.first];
    if (seat.second == kNobody) continue;
    ++seen[seat.second];
    EXPECT_EQ(jobs[seat.first].gpus, jobs[seat.second].gpus);
  }
  for (const int count : left) EXPECT_GE(count, 0);
  for (const int count : seen) EXPECT_LE(count, 1);
}

/// Returns the best value of all assignments, job by job: wait, a free place, or together with a job that is alone.
double BestWorth(std::size_t job, std::vector<Seat>& seats, std::vector<int>& left, const std::vector<SeatJob>& jobs,
                 const Speeds& speeds, bool together) {
  if (job == jobs.size()) return Worth(seats, jobs, speeds);
  double best = BestWorth(job + 1, seats, left, jobs, speeds, together);
  for (std::size_t type = 0; type < left.size(); ++type) {
    if (left[type] < jobs[job].gpus) continue;
    left[type] -= jobs[job].gpus;
    seats.push_back({type, job, kNobody});
    best = std::max(best, BestWorth(job + 1, seats, left, jobs, speeds, together));
    seats.pop_back();
    left[type] += jobs[job].gpus;
  }
  for (std::size_t x = 0; together && x < seats.size(); ++x) {
    if (seats[x].second != kNobody || jobs[seats[x].first].gpus != jobs[job].gpus) continue;
    const auto [mine, theirs] = speeds.Locality(jobs[job].kind, jobs[seats[x].first].kind, seats[x].type);
    if (mine <= 0 || theirs <= 0) continue;
    seats[x].second = job;
    best = std::max(best, BestWorth(job + 1, seats, left, jobs, speeds, together));
    seats[x].second = kNobody;
  }
  return best;
}

struct World {
  World(std::uint64_t seed, bool has_gangs) : speeds(3, 2), gpus(2) {
    TestRandom random(seed);
    for (std::size_t a = 0; a < 3; ++a) {
      for (std::size_t type = 0; type < 2; ++type) {
        speeds.SetAlone(a, type, 0.1 * (1 + random.Below(10)));
        for (std::size_t b = 0; b <= a; ++b) {
          // No job gets faster when it shares.
          const bool fits = random.Below(4) != 0;
          const double part = 0.1 * (2 + random.Below(9)), other = a == b ? part : 0.1 * (2 + random.Below(9));
          if (fits) speeds.SetTogether(a, b, type, {part * speeds.Alone(a, type), other * speeds.Alone(b, type)});
        }
      }
    }
    for (int& count : gpus) count = 1 + random.Below(3);
    for (int j = 2 + random.Below(4); j > 0; --j) {
      const auto kind = static_cast<std::size_t>(random.Below(3));
      jobs.push_back({kind, has_gangs ? 1 + random.Below(2) : 1, 1.0 + 0.25 * random.Below(5)});
    }
  }
  Speeds speeds;
  std::vector<int> gpus;
  std::vector<SeatJob> jobs;
};

/// Returns the mean over random worlds of the value found, as a fraction of the best one. Each must reach `least`.
double Quality(bool has_gangs, bool together, double least) {
  constexpr int kWorlds = 300;
  double sum = 0;
  for (std::uint64_t seed = 0; seed < kWorlds; ++seed) {
    SCOPED_TRACE(seed);
    const World world(seed, has_gangs);
    const auto seats = BestSeats(world.jobs, world.speeds, world.gpus, {}, {.together = together, .keep = 0});
    ExpectFits(seats, world.jobs, world.gpus);
    std::vector<Seat> none;
    std::vector<int> left = world.gpus;
    const double best = BestWorth(0, none, left, world.jobs, world.speeds, together);
    const double found = best == 0 ? 1 : Worth(seats, world.jobs, world.speeds) / best;
    EXPECT_LE(found, 1 + 1e-9);
    EXPECT_GE(found, least);
    sum += found / kWorlds;
  }
  return sum;
}

TEST(Seats, FindsTheOptimumForSingleGpuJobs) { EXPECT_GE(Quality(false, false, 0.93), 0.999); }
TEST(Seats, IsNearTheOptimumForPairsOfJobs) { EXPECT_GE(Quality(false, true, 0.75), 0.99); }
TEST(Seats, IsNearTheOptimumForGangs) { EXPECT_GE(Quality(true, false, 0.7), 0.98); }
TEST(Seats, IsNearTheOptimumForPairsOfGangs) { EXPECT_GE(Quality(true, true, 0.7), 0.97); }

TEST(Seats, AssignmentIsStableWhileNothingChanges) {
  for (std::uint64_t seed = 0; seed < 100; ++seed) {
    SCOPED_TRACE(seed);
    const World world(seed, true);
    std::vector<Seat> seats;
    for (int round = 0; round < 8; ++round) {
      const auto next = BestSeats(world.jobs, world.speeds, world.gpus, seats, {.together = true});
      EXPECT_TRUE(round < 3 || next == seats);
      seats = next;
    }
  }
}

Speeds TwoTypes(double on_second) {
  Speeds speeds(1, 2);
  speeds.SetAlone(0, 0, 1);
  speeds.SetAlone(0, 1, on_second);
  return speeds;
}

TEST(Seats, AJobIsNotMovedForATinyGain) {
  const std::vector<SeatJob> jobs = {{0, 1, 1}};
  const std::vector<Seat> before = {{1, 0}};
  const std::vector<int> gpus = {1, 1};
  EXPECT_EQ(BestSeats(jobs, TwoTypes(0.99), gpus, before, {.keep = 0.02})[0].type, 1u);
  EXPECT_EQ(BestSeats(jobs, TwoTypes(0.97), gpus, before, {.keep = 0.02})[0].type, 0u);
}

TEST(Seats, TheHeavierJobGetsTheFastGpuAndTheOtherTheSlowOne) {
  const std::vector<SeatJob> jobs = {{0, 1, 1}, {0, 1, 1.5}};
  const std::vector<Seat> before = {{0, 0}};
  const auto seats = BestSeats(jobs, TwoTypes(0.5), std::vector<int>{1, 1}, before, {});
  ASSERT_EQ(seats.size(), 2u);
  for (const Seat& seat : seats) EXPECT_EQ(seat.type, seat.first == 1 ? 0u : 1u);
}

TEST(Seats, SmallJobsMakeRoomForAHeavierGang) {
  Speeds speeds(1, 1);
  speeds.SetAlone(0, 0, 1);
  const std::vector<SeatJob> jobs = {{0, 1, 1}, {0, 1, 1}, {0, 2, 3}};
  const std::vector<Seat> before = {{0, 0}, {0, 1}};
  const auto seats = BestSeats(jobs, speeds, std::vector<int>{2}, before, {});
  ASSERT_EQ(seats.size(), 1u);
  EXPECT_EQ(seats[0].first, 2u);
}

TEST(Seats, AGangMakesRoomForSmallJobsThatAreHeavierTogether) {
  Speeds speeds(1, 1);
  speeds.SetAlone(0, 0, 1);
  const std::vector<SeatJob> jobs = {{0, 2, 1.5}, {0, 1, 1}, {0, 1, 1}};
  const std::vector<Seat> before = {{0, 0}};
  EXPECT_EQ(BestSeats(jobs, speeds, std::vector<int>{2}, before, {}).size(), 2u);
}

TEST(Seats, AllocationsBeyondTheRemainingGpusAreDropped) {
  Speeds speeds(1, 1);
  speeds.SetAlone(0, 0, 1);
  const std::vector<SeatJob> jobs = {{0, 1, 1}, {0, 1, 1}};
  const std::vector<Seat> before = {{0, 1}, {0, 0}};
  const auto seats = BestSeats(jobs, speeds, std::vector<int>{1}, before, {});
  ASSERT_EQ(seats.size(), 1u);
  EXPECT_EQ(seats[0].first, 1u);
}

TEST(ProgressWeight, GrowsWhileAJobWaitsAndShrinksWhileItRuns) {
  EXPECT_DOUBLE_EQ(ProgressWeight(0, 0, 3600), 1);
  EXPECT_DOUBLE_EQ(ProgressWeight(15 * 3600, 0, 3600), 2);
  EXPECT_DOUBLE_EQ(ProgressWeight(7200, 7200, 3600), 1);
}

}  // namespace seats_test
}  // namespace divvy::rates
