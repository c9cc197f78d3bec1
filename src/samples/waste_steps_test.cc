#include "samples/waste_steps.h"

#include <gtest/gtest.h>

#include <sstream>

#include "base/scenario_test_files.h"

namespace divvy::samples {
namespace waste_steps_test {

/// Commands: "action stop", "warn_every 15m" and "warnings 2" set the rules. "idle 10m" and "busy 10m" simulate that
/// time, with one observation per minute. "done" and "fails" set the result of later actions.
class World {
 public:
  std::string Run(const std::string& commands) {
    std::istringstream lines(commands);
    for (std::string line; std::getline(lines, line);) {
      std::istringstream words(line);
      std::string word, value;
      words >> word >> value;
      if (word.empty() || word.front() == '#') continue;
      if (word == "action") action_ = WasteActionOf(value).value();
      else if (word == "warn_every") rules_.warn_every = ReadDuration(value);
      else if (word == "warnings") rules_.warnings = std::stoi(value);
      else if (word == "done" || word == "fails") can_act_ = word == "done";
      else if (word == "idle" || word == "busy") Pass(word == "idle", ReadDuration(value));
      else ADD_FAILURE() << "no command: " << line;
    }
    return said_.str();
  }

 private:
  void Pass(bool is_wasteful, Duration span) {
    for (Duration at(0); at < span; at += std::chrono::minutes(1), now_ += 60) {
      const auto due = steps_.Look(is_wasteful, action_, rules_, now_);
      if (due == WasteSteps::Due::kWarning) Say("warning " + std::to_string(steps_.warnings()));
      if (due != WasteSteps::Due::kAction) continue;
      steps_.OnAction(can_act_, rules_, now_);
      Say(std::string(Name(action_)) + (can_act_ ? "" : ", in vain"));
    }
  }
  void Say(const std::string& what) {
    said_ << now_ / 60 << " min: " << what;
    if (const auto at = steps_.ActionAt(rules_)) said_ << ", " << Name(action_) << " at " << *at / 60 << " min";
    said_ << "\n";
  }

  WasteSteps steps_;
  WasteRules rules_;
  WasteAction action_ = WasteAction::kNone;
  bool can_act_ = true;
  Second now_ = 0;
  std::ostringstream said_;
};

class WasteScenario : public testing::TestWithParam<std::string> {};

TEST_P(WasteScenario, MatchesItsExpectedActions) {
  ShowScenario(GetParam(), [](const std::string& commands) { return World().Run(commands); });
}

INSTANTIATE_TEST_SUITE_P(Files, WasteScenario, testing::ValuesIn(ScenarioFiles("waste")), ScenarioName);

TEST(WasteAction, NamesAreReadBack) {
  for (const WasteAction action :
       {WasteAction::kNone, WasteAction::kPark, WasteAction::kPause, WasteAction::kRequeue, WasteAction::kStop})
    EXPECT_EQ(WasteActionOf(Name(action)), action);
  EXPECT_EQ(WasteActionOf("kill"), std::nullopt);
}

}  // namespace waste_steps_test
}  // namespace divvy::samples
