// No accepted change lets jobs wait for each other forever, and no harmless change is refused. Random changes are
// compared with a model that simply runs everything.
#include <gtest/gtest.h>

#include <algorithm>
#include <random>
#include <string>

#include "control/controller/controller_test_world.h"

namespace divvy {
namespace controller_cycles_test {

struct Wait {
  std::vector<Dependency> dependencies;
  bool needs_any = false;
  std::string name = "job";
};

/// A model of what each job or array element waits for. It runs whatever may run until nothing more can.
class Model {
 public:
  struct Top {
    JobId id;
    bool is_array = false;
    std::string name = "job";  // The name of the array as a whole.
    std::vector<Wait> members;
  };

  void Add(JobId id, std::size_t elements, const Wait& wait) {
    tops_.push_back({id, elements > 0, wait.name, std::vector<Wait>(std::max<std::size_t>(elements, 1), wait)});
  }

  void Change(JobId id, const JobChanges& changes) {
    for (Top& top : tops_) {
      for (std::size_t i = 0; i < top.members.size(); ++i) {
        const bool is_meant = id == top.id || id == Member(top, i);
        if (!is_meant) continue;
        if (changes.name) top.members[i].name = *changes.name;
        if (changes.dependencies) {
          top.members[i].dependencies = changes.dependencies->all;
          top.members[i].needs_any = changes.dependencies->needs_any;
        }
      }
      if (id == top.id && changes.name) top.name = *changes.name;
    }
  }

  bool CanAllEnd() const {
    std::set<JobId> ended;
    std::size_t before = 0;
    do {
      before = ended.size();
      for (const Top& top : tops_) {
        for (std::size_t i = 0; i < top.members.size(); ++i) {
          if (MayRun(top, top.members[i], ended)) ended.insert(Member(top, i));
        }
      }
    } while (ended.size() > before);
    return std::ranges::all_of(tops_, [&](const Top& top) { return HasEnded(top, ended); });
  }

 private:
  static JobId Member(const Top& top, std::size_t i) {
    return top.is_array ? ElementId(top.id, static_cast<std::uint32_t>(i)) : top.id;
  }
  static bool HasEnded(const Top& top, const std::set<JobId>& ended) {
    for (std::size_t i = 0; i < top.members.size(); ++i) {
      if (!ended.contains(Member(top, i))) return false;
    }
    return true;
  }
  bool IsMet(const Top& top, const Wait& wait, const Dependency& dependency, const std::set<JobId>& ended) const {
    if (dependency.kind == DependencyKind::kSingleton) {
      for (const Top& other : tops_) {
        if (other.id >= top.id) continue;
        if (other.name == wait.name && !HasEnded(other, ended)) return false;
        for (std::size_t i = 0; i < other.members.size(); ++i) {
          if (other.members[i].name == wait.name && !ended.contains(Member(other, i))) return false;
        }
      }
      return true;
    }
    for (const Top& other : tops_) {
      if (other.id == dependency.job && !dependency.element) return HasEnded(other, ended);
    }
    return ended.contains(dependency.element ? ElementId(dependency.job, *dependency.element) : dependency.job);
  }
  bool MayRun(const Top& top, const Wait& wait, const std::set<JobId>& ended) const {
    const auto is_met = [&](const Dependency& dependency) { return IsMet(top, wait, dependency, ended); };
    if (wait.needs_any && !wait.dependencies.empty()) return std::ranges::any_of(wait.dependencies, is_met);
    return std::ranges::all_of(wait.dependencies, is_met);
  }

  std::vector<Top> tops_;
};

class Chance {
 public:
  explicit Chance(std::uint32_t seed) : bits_(seed) {}
  std::uint32_t Below(std::uint32_t n) { return static_cast<std::uint32_t>(bits_() % n); }

 private:
  std::mt19937 bits_;
};

struct Submitted {
  JobId id;
  std::uint32_t elements = 0;
};

Dependency RandomDependency(Chance& chance, const std::vector<Submitted>& jobs) {
  Dependency dependency;
  if (chance.Below(5) == 0) {
    dependency.kind = DependencyKind::kSingleton;
    return dependency;
  }
  dependency.kind = chance.Below(2) == 0 ? DependencyKind::kAfterAny : DependencyKind::kAfterOk;
  const Submitted& target = jobs[chance.Below(static_cast<std::uint32_t>(jobs.size()))];
  dependency.job = target.id;
  if (target.elements == 0 || chance.Below(2) == 0) return dependency;
  const std::uint32_t element = chance.Below(target.elements);
  if (chance.Below(2) == 0) dependency.element = element;
  else dependency.job = ElementId(target.id, element);
  return dependency;
}

JobChanges RandomChanges(Chance& chance, const std::vector<Submitted>& jobs) {
  JobChanges changes;
  if (chance.Below(4) == 0) {
    changes.name = std::string(1, static_cast<char>('a' + chance.Below(2)));
    return changes;
  }
  JobChanges::Dependencies dependencies;
  for (std::uint32_t i = 0, count = chance.Below(3); i < count; ++i)
    dependencies.all.push_back(RandomDependency(chance, jobs));
  dependencies.needs_any = chance.Below(3) == 0;
  changes.dependencies = std::move(dependencies);
  return changes;
}

/// Lets every job start and end; returns whether none is left.
bool RunsDry(World& world) {
  std::vector<JobId> held;
  for (const auto& [id, record] : world.controller_.live()) held.push_back(id);
  for (const JobId id : held) static_cast<void>(world.controller_.Release(id, kNoTime, world.ada_, world.now_));
  for (int turn = 0; turn < 200 && !world.controller_.live().empty(); ++turn) {
    for (const JobId job : World::Launched(world.Turn())) world.Exit(job, 0);
  }
  return world.controller_.live().empty();
}

TEST(DependencyCycles, AreRefusedExactlyWhenTheJobsCouldNeverEnd) {
  int refused = 0, accepted = 0;
  for (std::uint32_t seed = 1; seed <= 150; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    Chance chance(seed);
    World world(0);
    Model model;
    std::vector<Submitted> jobs;
    for (int i = 0; i < 6; ++i) {
      const std::uint32_t elements = chance.Below(3) == 0 ? 1 + chance.Below(3) : 0;
      const JobId id = world.Submit(0, elements);
      ASSERT_TRUE(world.controller_.Hold(id, world.ada_, world.now_));
      jobs.push_back({id, elements});
      model.Add(id, elements, Wait());
    }
    for (int step = 0; step < 25; ++step) {
      const Submitted& target = jobs[chance.Below(6)];
      const bool is_element = target.elements > 0 && chance.Below(2) == 0;
      const JobId id = is_element ? ElementId(target.id, chance.Below(target.elements)) : target.id;
      const JobChanges changes = RandomChanges(chance, jobs);
      Model after = model;
      after.Change(id, changes);
      const auto done = world.controller_.Update(id, changes, world.ada_, world.now_, World::NoHistory());
      ASSERT_EQ(done.has_value(), after.CanAllEnd()) << "step " << step << (done ? "" : ": " + done.error().message);
      ASSERT_EQ(world.controller_.CheckInvariants(), "");
      if (done) {
        model = after;
        ++accepted;
      } else {
        ASSERT_NE(done.error().message.find(" after "), std::string::npos) << done.error().message;
        ++refused;
      }
    }
    ASSERT_TRUE(RunsDry(world));
  }
  EXPECT_GT(refused, 200);
  EXPECT_GT(accepted, 200);
}

TEST(DependencyCycles, ALongChainIsTraversedOnce) {
  constexpr int kJobs = 5'000;
  World world(0);
  const JobId first = world.Submit(0);
  JobId last = first;
  for (int i = 0; i < kJobs; ++i) last = world.Submit(0, 0, {{DependencyKind::kAfterAny, last, {}, Duration(0)}});
  JobChanges changes;
  changes.dependencies = JobChanges::Dependencies{{{DependencyKind::kAfterAny, last, {}, Duration(0)}}, false};
  const auto done = world.controller_.Update(first, changes, world.ada_, world.now_, World::NoHistory());
  ASSERT_FALSE(done);
  EXPECT_EQ(done.error().message,
            "dependency: job 1 would wait for itself: 1 after 5001 after 5000 after 4999 after 4998 after ... "
            "after 5 after 4 after 3 after 2 after 1");
}

}  // namespace controller_cycles_test
}  // namespace divvy
