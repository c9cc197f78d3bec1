#include "daemon/requests/valohai_reading.h"

#include <gtest/gtest.h>

#include <algorithm>

namespace divvy {
namespace valohai_reading_test {

constexpr const char* kProject = R"(
- step:
    name: train
    image: pytorch/pytorch:2.0.0
    command: python train.py {parameters}
    environment-variables:
      - {name: VH_GPUS, default: 2}
    parameters:
      - {name: lr, type: float, default: 0.001, min: 0, max: 1}
      - {name: optimiser, choices: [adam, sgd], default: adam}
    inputs:
      - {name: data, default: data/train.csv, optional: true}
- step:
    name: evaluate
    image: pytorch/pytorch:2.0.0
    command: python evaluate.py
)";

class ValohaiReadingTest : public ::testing::Test {
 protected:
  ValohaiReadingTest() {
    question_.text = kProject;
    place_.around.home = "/home/ada";
    place_.around.user = "ada";
    place_.execution_id = "00000000-0000-4000-8000-000000000001";
    place_.root = "/var/executions/1";
  }
  wire::ValohaiAnswer Ask() { return ReadValohai(question_, place_); }
  static bool Has(const std::vector<std::string>& lines, const std::string& line) {
    return std::ranges::find(lines, line) != lines.end();
  }
  wire::ValohaiQuestion question_;
  ValohaiPlace place_;
};

TEST_F(ValohaiReadingTest, ListsStepsWithTheirParametersAndSubmitsNothingUntilOneIsChosen) {
  const auto answer = Ask();
  EXPECT_TRUE(answer.problems.empty());
  ASSERT_EQ(answer.steps.size(), 2u);
  const wire::ValohaiStepView& train = answer.steps.front();
  EXPECT_EQ(train.name, "train");
  ASSERT_EQ(train.parameters.size(), 2u);
  EXPECT_EQ(train.parameters[0].type, "float");
  EXPECT_EQ(train.parameters[0].max, 1);
  EXPECT_EQ(train.parameters[1].choices, (std::vector<std::string>{"adam", "sgd"}));
  EXPECT_EQ(train.variables.front().value, "2");
  EXPECT_TRUE(train.inputs.front().is_optional);
  EXPECT_FALSE(answer.spec);
}

TEST_F(ValohaiReadingTest, ListsTasksWithTheirVariedParameters) {
  question_.text +=
      "- task:\n    name: sweep\n    step: train\n    type: grid_search\n    parameters:\n      - name: lr\n"
      "        style: multiple\n        rules: {items: [0.1, 0.2]}\n";
  const auto answer = Ask();
  ASSERT_EQ(answer.tasks.size(), 1u) << (answer.problems.empty() ? "" : answer.problems.front().text);
  EXPECT_EQ(answer.tasks.front().name, "sweep");
  EXPECT_EQ(answer.tasks.front().step, "train");
  EXPECT_EQ(answer.tasks.front().parameters, std::vector<std::string>{"lr"});
}

TEST_F(ValohaiReadingTest, AStepBecomesAJobWithItsParameterValues) {
  question_.step = "train";
  question_.directory = "/srv/project";
  question_.parameters = {{"lr", {"0.5"}}};
  question_.variables = {{"VH_GPUS", "3"}};
  const auto answer = Ask();
  ASSERT_TRUE(answer.spec) << answer.refusal;
  EXPECT_EQ(answer.spec->request.gpus, 3);
  EXPECT_EQ(answer.spec->directory, "/srv/project");
  EXPECT_EQ(answer.spec->project, "project");
  EXPECT_NE(answer.spec->script.find("--lr=0.5 --optimiser=adam"), std::string::npos) << answer.spec->script;
  EXPECT_TRUE(Has(answer.spec->extra_environment, "VH_OUTPUTS_DIR=/var/executions/1/outputs"));
  EXPECT_TRUE(Has(answer.spec->extra_environment, "VH_EXECUTION_ID=" + place_.execution_id));
}

TEST_F(ValohaiReadingTest, DefaultsToTheHomeDirectoryAndTheUsualGpuCount) {
  question_.step = "evaluate";
  place_.default_gpus = 0;
  const auto answer = Ask();
  ASSERT_TRUE(answer.spec) << answer.refusal;
  EXPECT_EQ(answer.spec->directory, "/home/ada");
  EXPECT_EQ(answer.spec->request.gpus, 0);
}

TEST_F(ValohaiReadingTest, RefusesAParameterByNameAndStillListsTheSteps) {
  question_.step = "train";
  question_.parameters = {{"lr", {"7"}}};
  auto answer = Ask();
  EXPECT_FALSE(answer.spec);
  EXPECT_NE(answer.refusal.find("'lr'"), std::string::npos) << answer.refusal;
  EXPECT_EQ(answer.steps.size(), 2u);
  question_.parameters = {};
  question_.directory = "project";
  answer = Ask();
  EXPECT_NE(answer.refusal.find("give an absolute path"), std::string::npos) << answer.refusal;
}

TEST_F(ValohaiReadingTest, AnInvalidFileHasNoSteps) {
  question_.text = "- step:\n    name: train\n    imge: x\n    command: true\n";
  question_.step = "train";
  const auto answer = Ask();
  ASSERT_FALSE(answer.problems.empty());
  const auto unknown = std::ranges::find_if(answer.problems, [](const auto& problem) { return problem.line == 3; });
  ASSERT_NE(unknown, answer.problems.end());
  EXPECT_NE(unknown->text.find("did you mean 'image'"), std::string::npos) << unknown->text;
  EXPECT_TRUE(answer.steps.empty());
  EXPECT_FALSE(answer.spec);
}

}  // namespace valohai_reading_test
}  // namespace divvy
