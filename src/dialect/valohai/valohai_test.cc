#include "dialect/valohai/valohai.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <filesystem>
#include <fstream>

#include "sweep/sweep_rule.h"

namespace divvy::dialect {
namespace valohai_test {

constexpr std::string_view kExample = R"(- step:
    name: single-gpu-experiment
    image: tensorflow/tensorflow:latest-gpu
    command:
      - echo vis=$CUDA_VISIBLE_DEVICES; sleep 3
    environment-variables:
      - name: VH_GPUS
        default: 1
- step:
    name: full-training
    image: pytorch/pytorch:2.0.0-cuda11.7-cudnn8-runtime
    command:
      - echo vis=$CUDA_VISIBLE_DEVICES; sleep 3
    environment-variables:
      - name: VH_GPUS
        default: 4
)";

ParseContext Around() {
  ParseContext around;
  around.now = TimeFromSeconds(1'700'000'000);
  around.directory = "/home/ada/project";
  around.home = "/home/ada";
  around.user = "ada";
  around.hostname = "gpu1";
  return around;
}

/// A project with one step, which has these lines below its name, image and command.
std::string Step(const std::string& lines, const std::string& command = "echo {parameters}") {
  return "- step:\n    name: train\n    image: img\n    command:\n      - " + command + "\n" + lines;
}

Result<JobSpec> Execute(const std::string& text, const ExecutionRequest& request = {}, std::string_view step = "") {
  auto project = ParseValohaiYaml(text, "valohai.yaml");
  if (!project) return project.error();
  return MakeExecution(*project, step.empty() ? project->steps.front().name : step, request, Around());
}

std::string FirstError(const std::string& text) {
  auto project = ParseValohaiYaml(text, "valohai.yaml");
  return project ? "" : project.error().message;
}

bool Holds(const std::string& text, std::string_view part) { return text.find(part) != std::string::npos; }
bool HasVariable(const JobSpec& spec, const std::string& variable) {
  return std::count(spec.extra_environment.begin(), spec.extra_environment.end(), variable) == 1;
}

/// The command of Step() with its placeholders filled.
std::string Command(const std::string& command, const std::string& lines, const ExecutionRequest& request = {}) {
  auto spec = Execute(Step(lines, "|\n        " + command), request);
  if (!spec) return spec.error().message;
  auto at = spec->script.rfind("set -e\n");
  std::string out = spec->script.substr(at + 7);
  while (out.ends_with('\n')) out.pop_back();
  return out;
}

TEST(Valohai, ReadsTheMixedExampleUnmodified) {
  auto one = Execute(std::string(kExample), {}, "single-gpu-experiment");
  ASSERT_TRUE(one) << one.error().message;
  EXPECT_EQ(one->request.gpus, 1);
  EXPECT_EQ(one->dialect, Dialect::kValohai);
  EXPECT_TRUE(one->script.starts_with("#!/bin/bash\n"));
  EXPECT_TRUE(Holds(one->script, "set -e\necho vis=$CUDA_VISIBLE_DEVICES; sleep 3\n"));
  EXPECT_TRUE(HasVariable(*one, "VH_GPUS=1"));
  auto four = Execute(std::string(kExample), {}, "full");
  ASSERT_TRUE(four) << four.error().message;
  EXPECT_EQ(four->request.gpus, 4);
}

TEST(Valohai, CommandLineVariablesWinOverDefaults) {
  ExecutionRequest request;
  request.variables = {{"VH_GPUS", "4"}, {"SEED", "7"}};
  auto spec = Execute(std::string(kExample), request, "single");
  ASSERT_TRUE(spec) << spec.error().message;
  EXPECT_EQ(spec->request.gpus, 4);
  EXPECT_TRUE(HasVariable(*spec, "VH_GPUS=4"));
  EXPECT_TRUE(HasVariable(*spec, "SEED=7"));
}

TEST(Valohai, WithoutVhGpusAStepGetsOneGpuAndZeroIsAllowed) {
  EXPECT_EQ(Execute(Step(""))->request.gpus, 1);
  ExecutionRequest none;
  none.variables = {{"VH_GPUS", "0"}};
  EXPECT_EQ(Execute(Step(""), none)->request.gpus, 0);
  ExecutionRequest no_gpus_here;
  no_gpus_here.default_gpus = 0;
  EXPECT_EQ(Execute(Step(""), no_gpus_here)->request.gpus, 0);
  EXPECT_EQ(Execute(Step("    resources: {devices: {nvidia.com/gpu: 2}}\n"))->request.gpus, 2);
}

TEST(Valohai, NamesTheLineAndTheNearestKeyOfAnError) {
  EXPECT_EQ(FirstError("- step:\n    name: train\n    command: x\n    image: i\n    imge: y\n"),
            "valohai.yaml:5: step 'train': unknown key 'imge'; did you mean 'image'?");
}

TEST(Valohai, ParametersAreInDeclarationOrderAndQuoted) {
  const std::string lines =
      "    parameters:\n      - {name: lr, type: float, default: 0.1}\n      - {name: note, default: two words}\n"
      "      - {name: epochs, type: integer, default: 3, pass-as: '-e {value}'}\n";
  EXPECT_EQ(Command("python t.py {parameters}", lines), "python t.py --lr=0.1 '--note=two words' -e 3");
  EXPECT_EQ(Command("python t.py {params}", lines), "python t.py --lr=0.1 '--note=two words' -e 3");
  EXPECT_EQ(Command("t {parameter:epochs} {parameter-value:note}", lines), "t -e 3 'two words'");
}

TEST(Valohai, UnknownBracesAreLeftForTheShell) {
  const std::string lines = "    parameters:\n      - {name: lr, default: x}\n";
  EXPECT_EQ(Command("echo ${HOME} ${parameters} {a,b} {\"k\": 1} {parameter:nope} {}", lines),
            "echo ${HOME} ${parameters} {a,b} {\"k\": 1} {parameter:nope} {}");
}

TEST(Valohai, MultipleValuesAreJoinedOrRepeated) {
  const std::string lines =
      "    parameters:\n      - {name: a, default: [x, y], multiple: separate}\n"
      "      - {name: b, default: [1, 2], multiple: repeat, pass-as: '--{name} {v}'}\n"
      "      - {name: c, optional: true, multiple: separate, multiple-separator: ':'}\n";
  EXPECT_EQ(Command("t {parameters}", lines), "t --a=x,y --b 1 --b 2");
  ExecutionRequest request;
  request.parameters = {{"c", {"p", "q"}}, {"a", {}}};
  EXPECT_EQ(Command("t {parameters}", lines, request), "t --b 1 --b 2 --c=p:q");
}

TEST(Valohai, FalseFlagsEmitNothing) {
  const std::string lines =
      "    parameters:\n      - {name: fast, type: flag, default: true}\n      - {name: dry, type: flag}\n"
      "      - {name: aug, type: flag, pass-true-as: '--aug', pass-false-as: '--no-aug'}\n";
  EXPECT_EQ(Command("t {parameters}", lines), "t --fast --no-aug");
  ExecutionRequest request;
  request.parameters = {{"aug", {"true"}}, {"fast", {"false"}}, {"dry", {"yes"}}};
  EXPECT_EQ(Command("t {parameters} {parameter-value:dry}", lines, request), "t --dry --aug true");
}

TEST(Valohai, SourcePathIsFilledIn) {
  EXPECT_EQ(Command("cd {source-path}", "    source-path: models/a b\n"), "cd 'models/a b'");
  EXPECT_EQ(Command("cd {source-path}", ""), "cd .");
}

TEST(Valohai, CommandsBecomeOneScriptThatStopsAtTheFirstFailure) {
  auto spec = Execute(
      "- step:\n    name: s\n    image: i\n    command:\n      - export A=1\n      - false && true\n      - echo $A\n");
  ASSERT_TRUE(spec) << spec.error().message;
  EXPECT_TRUE(Holds(spec->script, "set -e\nexport A=1\nfalse && true\nvh_status\necho $A\n"));
}

TEST(Valohai, AShebangStaysFirst) {
  auto shell = Execute("- step:\n    name: s\n    image: i\n    command: |\n      #!/bin/sh -x\n      echo hi\n");
  ASSERT_TRUE(shell) << shell.error().message;
  EXPECT_TRUE(shell->script.starts_with("#!/bin/sh -x\n")) << shell->script;
  auto python =
      Execute("- step:\n    name: s\n    image: i\n    command: |\n      #!/usr/bin/env python3\n      print(1)\n");
  ASSERT_TRUE(python) << python.error().message;
  EXPECT_TRUE(python->script.starts_with("#!/bin/bash\n"));
  EXPECT_TRUE(Holds(python->script, "'VH_END_OF_COMMANDS'\n#!/usr/bin/env python3\nprint(1)\nVH_END_OF_COMMANDS\n"));
}

TEST(Valohai, AnExecutionGetsItsDirectoriesAndConfiguration) {
  ExecutionRequest request;
  request.execution_id = "11111111-2222-4333-8444-555555555555";
  request.root = "/data/e1";
  request.repository = "/data/e1/repository";
  auto spec = Execute(
      Step("    parameters:\n      - {name: lr, type: float, default: 1e-3}\n      - {name: n, default: 'a\"b'}\n"),
      request);
  ASSERT_TRUE(spec) << spec.error().message;
  EXPECT_EQ(spec->directory, "/data/e1/repository");
  for (const char* variable :
       {"VH_CONFIG_DIR=/data/e1/config", "VH_INPUTS_DIR=/data/e1/inputs", "VH_OUTPUTS_DIR=/data/e1/outputs",
        "VH_REPOSITORY_DIR=/data/e1/repository", "VH_JOB_ID=exec-11111111-2222-4333-8444-555555555555",
        "VH_EXECUTION_ID=11111111-2222-4333-8444-555555555555"}) {
    EXPECT_TRUE(HasVariable(*spec, variable)) << variable;
  }
  EXPECT_EQ(spec->labels["valohai.parameters"], R"({"lr": 0.001, "n": "a\"b"})");
  EXPECT_TRUE(Holds(spec->script, R"("valohai.execution-counter": '"${DIVVY_JOB_ID:-0}"', )")) << spec->script;
}

TEST(Valohai, InputsAreLinkedOrFetched) {
  const std::string lines =
      "    inputs:\n      - {name: data, default: [file:///srv/a.csv, more/b.csv, 'https://h.example/d/c.bin?x=1']}\n"
      "      - {name: deep, default: /srv/x/y.csv, keep-directories: full}\n"
      "      - {name: late, default: /srv/z, download: on-demand}\n";
  auto spec = Execute(Step(lines));
  ASSERT_TRUE(spec) << spec.error().message;
  EXPECT_TRUE(Holds(spec->script, "vh_link /srv/a.csv \"$VH_INPUTS_DIR\"/data/a.csv\n"));
  EXPECT_TRUE(Holds(spec->script, "vh_link /home/ada/project/more/b.csv \"$VH_INPUTS_DIR\"/data/b.csv\n"));
  EXPECT_TRUE(Holds(spec->script, "vh_fetch 'https://h.example/d/c.bin?x=1' \"$VH_INPUTS_DIR\"/data/c.bin\n"));
  EXPECT_TRUE(Holds(spec->script, "\"$VH_INPUTS_DIR\"/deep/srv/x/y.csv\n"));
  EXPECT_FALSE(Holds(spec->script, "vh_link /srv/z"));
}

TEST(Valohai, AStepIsFoundByPrefixAndPartOfItsName) {
  auto project = ParseValohaiYaml(kExample, "valohai.yaml");
  ASSERT_TRUE(project);
  EXPECT_EQ((*FindValohaiStep(*project, "sing"))->name, "single-gpu-experiment");
  EXPECT_EQ((*FindValohaiStep(*project, "TRAIN"))->name, "full-training");
  EXPECT_TRUE(
      Holds(FindValohaiStep(*project, "n").error().message, "could be the steps single-gpu-experiment, full-training"));
  EXPECT_TRUE(
      Holds(FindValohaiStep(*project, "zz").error().message, "there is no step 'zz'; there is single-gpu-experiment"));
}

TEST(Valohai, DurationsAreSumsOfUnits) {
  EXPECT_EQ(*ParseValohaiDuration("90"), 90s);
  EXPECT_EQ(*ParseValohaiDuration("1h 30m 5s"), 5405s);
  EXPECT_EQ(*ParseValohaiDuration("2 Hours, 3 minutes"), 7380s);
  EXPECT_EQ(*ParseValohaiDuration("1.5d"), 36h);
  EXPECT_EQ(*ParseValohaiDuration("1w"), 168h);
  for (const char* wrong : {"", "0", "0s", "-5", "5x", "h", "1h30", "1e30s"})
    EXPECT_FALSE(ParseValohaiDuration(wrong)) << wrong;
}

TEST(Valohai, MergedMapsProvideTheirKeys) {
  auto spec = Execute("- step: &base\n    name: a\n    image: i\n    command: x\n- step:\n    <<: *base\n    name: b\n",
                      {}, "b");
  ASSERT_TRUE(spec) << spec.error().message;
  EXPECT_TRUE(Holds(spec->script, "set -e\nx\n"));
}

TEST(Valohai, ReportsEveryProblemInLineOrder) {
  auto reading = ReadValohaiYaml(
      "- step:\n    name: a\n    image: i\n    command: 'echo {parameter:gone}'\n    nam: x\n- step:\n    name: a\n    "
      "command: y\n",
      "v.yaml");
  std::vector<std::string> lines;
  for (const auto& problem : reading.problems)
    lines.push_back(std::to_string(problem.line) + (problem.is_warning ? "w" : "e"));
  EXPECT_EQ(lines, (std::vector<std::string>{"2w", "5e", "7e", "7e"}));
}

TEST(ValohaiTask, AGridIsTheProductOfItsParameters) {
  const std::string text =
      Step(
          "    parameters:\n      - {name: lr, type: float, default: 1}\n      - {name: n, type: integer, default: "
          "1}\n") +
      "- task:\n    name: sweep\n    step: train\n    type: Grid-Search\n    execution-batch-size: 2\n    parameters:\n"
      "      - {name: lr, style: multiple, rules: {items: [0.1, 0.2]}}\n"
      "      - {name: n, style: linear, rules: {start: 1, end: 5, step: 2}}\n";
  auto project = ParseValohaiYaml(text, "valohai.yaml");
  ASSERT_TRUE(project) << project.error().message;
  ExecutionRequest request;
  request.root = "/data/t";
  request.execution_id = "11111111-2222-4333-8444-555555555555";
  auto executions = MakeTask(*project, "sweep", request, Around());
  ASSERT_TRUE(executions) << executions.error().message;
  ASSERT_EQ(executions->size(), 6U);
  EXPECT_TRUE(Holds((*executions)[0].script, "echo --lr=0.1 --n=1"));
  EXPECT_TRUE(Holds((*executions)[5].script, "echo --lr=0.2 --n=5"));
  EXPECT_TRUE(HasVariable((*executions)[5], "VH_OUTPUTS_DIR=/data/t/5/outputs"));
  EXPECT_TRUE(HasVariable((*executions)[5], "VH_EXECUTION_ID=11111111-2222-4333-8444-000000000006"));
  EXPECT_EQ((*executions)[5].group_limit, 2);
}

TEST(ValohaiTask, RandomSearchIsDeterministicAndStaysWithinBounds) {
  const std::string text =
      Step("    parameters:\n      - {name: lr, type: float, default: 1}\n") +
      "- task:\n    name: sweep\n    step: train\n    type: random_search\n    execution-count: 5\n    parameters:\n"
      "      - {name: lr, style: random, rules: {min: 1, max: 2, seed: 7}}\n";
  auto project = ParseValohaiYaml(text, "valohai.yaml");
  ASSERT_TRUE(project) << project.error().message;
  auto first = MakeTask(*project, "sweep", {}, Around()), second = MakeTask(*project, "sweep", {}, Around());
  ASSERT_TRUE(first) << first.error().message;
  ASSERT_EQ(first->size(), 5U);
  for (std::size_t i = 0; i < 5; ++i) {
    const std::string& text_i = (*first)[i].labels["valohai.parameters"];
    EXPECT_EQ(text_i, (*second)[i].labels["valohai.parameters"]);
    EXPECT_TRUE(text_i.starts_with("{\"lr\": 1.")) << text_i;
  }
  EXPECT_NE((*first)[0].labels["valohai.parameters"], (*first)[1].labels["valohai.parameters"]);
}

class ValohaiTaskSweep : public ::testing::Test {
 protected:
  /// A task of this step, whose parameters are lr and opt.
  void Read(const std::string& task, const std::string& command = "python train.py {parameters}") {
    const std::string text =
        "- step:\n    name: train\n    image: i\n    command:\n      - " + command +
        "\n    parameters:\n      - {name: lr, type: float, default: 1}\n      - {name: opt, default: adam}\n"
        "      - {name: fast, type: flag}\n- task:\n    name: search\n    step: train\n" +
        task;
    auto project = ParseValohaiYaml(text, "valohai.yaml");
    ASSERT_TRUE(project) << project.error().message;
    project_ = *project;
    request_.root = "/data/t";
    request_.execution_id = "11111111-2222-4333-8444-555555555555";
  }
  Result<JobSpec> Make() { return MakeTaskSweep(project_, "search", request_, Around()); }
  std::string Refusal() {
    const auto made = Make();
    return made ? "" : made.error().message;
  }
  /// The script of an execution, as its node fills it.
  static std::string ScriptOf(const JobSpec& spec, std::uint64_t ordinal) {
    return FillParameters(spec.script, ElementAt(spec, ordinal).parameters);
  }

  static constexpr const char* kGrid =
      "    type: grid_search\n    execution-batch-size: 2\n    optimization-target-metric: accuracy\n    parameters:\n"
      "      - {name: lr, style: logspace, rules: {start: -2, end: -1, count: 2}}\n"
      "      - {name: opt, style: multiple, rules: {items: [adam, sgd]}}\n";
  ValohaiProject project_;
  ExecutionRequest request_;
};

TEST_F(ValohaiTaskSweep, ATaskIsOneArrayWithTheMetricAndTheBatchSize) {
  Read(kGrid);
  const auto spec = Make();
  ASSERT_TRUE(spec) << spec.error().message;
  EXPECT_EQ(*ElementCount(*spec), 4u);
  EXPECT_EQ(ElementAt(*spec, 2).parameters, (std::map<std::string, std::string>{{"lr", "0.1"}, {"opt", "adam"}}));
  const auto rule = sweep::ParseRule(spec->labels.at(std::string(sweep::kRuleLabel)));
  ASSERT_TRUE(rule) << rule.error().message;
  EXPECT_EQ(rule->metric, "accuracy");
  EXPECT_EQ(rule->goal, sweep::Goal::kMaximize);
  EXPECT_EQ(rule->parallel, 2);
  EXPECT_EQ(rule->method, "grid_search");
  EXPECT_EQ(spec->group, "task-11111111-2222-4333-8444-555555555555");
}

TEST_F(ValohaiTaskSweep, EachExecutionHasTheCommandsAndParametersThatASeparateJobWouldHave) {
  Read(kGrid);
  const auto spec = Make();
  const auto jobs = MakeTask(project_, "search", request_, Around());
  ASSERT_TRUE(spec && jobs);
  ASSERT_EQ(jobs->size(), 4u);
  for (std::uint64_t i = 0; i < jobs->size(); ++i) {
    const std::string script = ScriptOf(*spec, i);
    const std::string& lr = ElementAt(*spec, i).parameters.at("lr");
    const std::string& opt = ElementAt(*spec, i).parameters.at("opt");
    EXPECT_TRUE(Holds((*jobs)[i].script, "train.py --lr=" + lr + " --opt=" + opt)) << (*jobs)[i].script;
    EXPECT_TRUE(Holds(script, "train.py --lr=" + lr + " --opt=" + opt)) << script;
    const std::string json = "vh_config parameters '" + (*jobs)[i].labels.at("valohai.parameters") + "'\n";
    EXPECT_TRUE(Holds(script, json)) << script;
    EXPECT_TRUE(Holds(script, "\"valohai.execution-title\": \"search lr=" + lr + " opt=" + opt + "\""));
    EXPECT_EQ(ExecutionOfTask(spec->labels.at("valohai.execution"), i), (*jobs)[i].labels.at("valohai.execution"));
  }
}

TEST_F(ValohaiTaskSweep, AValueInQuotesOfTheStepIsTheSameAsInASeparateJob) {
  Read(kGrid, "train --lr \"{parameter-value:lr}\" -c 'f({parameter-value:lr}, \"{parameter-value:opt}\")' $((x))");
  const auto spec = Make();
  const auto jobs = MakeTask(project_, "search", request_, Around());
  ASSERT_TRUE(spec && jobs) << Refusal();
  for (std::uint64_t i = 0; i < jobs->size(); ++i) {
    const std::string& lr = ElementAt(*spec, i).parameters.at("lr");
    const std::string& opt = ElementAt(*spec, i).parameters.at("opt");
    const std::string command = "train --lr \"" + lr + "\" -c 'f(" + lr + ", \"" + opt + "\")' $((x))";
    EXPECT_TRUE(Holds((*jobs)[i].script, command)) << (*jobs)[i].script;
    EXPECT_TRUE(Holds(ScriptOf(*spec, i), command)) << ScriptOf(*spec, i);
  }
}

TEST_F(ValohaiTaskSweep, AnExecutionFindsItsOwnFolderAndIdentity) {
  Read(kGrid, "echo \"$VH_OUTPUTS_DIR $VH_EXECUTION_ID\"; cat \"$VH_CONFIG_DIR/execution.json\"");
  const auto spec = Make();
  ASSERT_TRUE(spec) << spec.error().message;
  const auto folder = std::filesystem::temp_directory_path() / ("task-sweep-" + std::to_string(::getpid()));
  std::filesystem::create_directories(folder);
  std::ofstream(folder / "script") << ScriptOf(*spec, 2);
  const std::string command =
      "cd " + folder.string() +
      " && DIVVY_ARRAY_INDEX=2 DIVVY_JOB_ID=15 VH_CONFIG_DIR=t/config VH_INPUTS_DIR=t/inputs "
      "VH_OUTPUTS_DIR=t/outputs VH_EXECUTION_ID=11111111-2222-4333-8444-555555555555 bash script";
  std::string output;
  FILE* pipe = ::popen(command.c_str(), "r");
  ASSERT_NE(pipe, nullptr);
  char part[4096];
  while (std::fgets(part, sizeof part, pipe) != nullptr) output += part;
  EXPECT_EQ(::pclose(pipe), 0);
  EXPECT_TRUE(output.starts_with("t/2/outputs 11111111-2222-4333-8444-000000000003\n")) << output;
  EXPECT_TRUE(Holds(output, "\"valohai.execution-id\": \"11111111-2222-4333-8444-000000000003\"")) << output;
  EXPECT_TRUE(Holds(output, "\"valohai.execution-counter\": 15")) << output;
  EXPECT_TRUE(std::filesystem::exists(folder / "t/2/outputs"));
  EXPECT_FALSE(std::filesystem::exists(folder / "t/config"));
  std::filesystem::remove_all(folder);
}

TEST_F(ValohaiTaskSweep, RandomManualAndBayesianTasksAreSweepsToo) {
  const std::string random =
      "    execution-count: 5\n    parameters:\n      - {name: lr, style: random, rules: {min: 1, max: 2, seed: 7}}\n";
  for (const char* type : {"random_search", "bayesian_tpe", "Bayesian"}) {
    Read("    type: " + std::string(type) + "\n" + random);
    const auto spec = Make();
    ASSERT_TRUE(spec) << spec.error().message;
    EXPECT_EQ(*ElementCount(*spec), 5u);
    const auto is_about_draws = [](const std::string& note) {
      return note.starts_with("bayesian_tpe: values are drawn");
    };
    EXPECT_EQ(std::ranges::count_if(spec->notes, is_about_draws), std::string(type) == "random_search" ? 0 : 1);
  }
  Read("    type: manual_search\n    parameter-sets:\n      - {lr: 0.1, opt: a}\n      - {lr: 0.2, opt: b}\n");
  const auto spec = Make();
  ASSERT_TRUE(spec) << spec.error().message;
  EXPECT_EQ(ElementAt(*spec, 1).parameters, (std::map<std::string, std::string>{{"lr", "0.2"}, {"opt", "b"}}));
}

TEST_F(ValohaiTaskSweep, WhatAnArrayCannotExpressStaysSeparateJobs) {
  const auto manual = [](const std::string& sets) {
    return "    type: manual_search\n    parameter-sets: [" + sets + "]\n";
  };
  Read(manual("{fast: true}, {fast: false}"));
  EXPECT_TRUE(Holds(Refusal(), "parameter 'fast': it is a flag")) << Refusal();
  Read(manual("{opt: \"it's\"}"));
  EXPECT_TRUE(Holds(Refusal(), "parameter 'opt': its value 'it's' needs quotes")) << Refusal();
  Read(manual("{opt: a b}"));
  EXPECT_TRUE(Holds(Refusal(), "parameter 'opt': its value 'a b' needs quotes")) << Refusal();
  Read(manual("{}, {}"));
  EXPECT_TRUE(Holds(Refusal(), "its executions have no parameters")) << Refusal();
  Read(manual("{lr: .5}"));
  EXPECT_TRUE(Holds(Refusal(), "parameter 'lr': its value '.5' needs quotes")) << Refusal();
  Read(manual("{lr: 1, opt: a}, {lr: 2}"));
  EXPECT_TRUE(Holds(Refusal(), "parameter 'opt': some parameter sets do not have it")) << Refusal();
  Read(manual("{lr: 1}, {lr: 2, opt: a}"));
  EXPECT_TRUE(Holds(Refusal(), "some parameter sets have other parameters")) << Refusal();
  Read(manual("{lr: 1}"), "\"python -c 'print(f\\\"{lr}\\\")' {parameters}\"");
  EXPECT_TRUE(Holds(Refusal(), "the step contains '{lr}', which an array would replace")) << Refusal();
}

TEST(ValohaiTask, LogspaceReachesBothEnds) {
  const std::string text = Step("    parameters:\n      - {name: lr, type: float, default: 1}\n") +
                           "- task:\n    name: sweep\n    step: train\n    parameters:\n"
                           "      - {name: lr, style: logspace, rules: {start: -3, end: -1, count: 3}}\n";
  auto project = ParseValohaiYaml(text, "valohai.yaml");
  ASSERT_TRUE(project) << project.error().message;
  EXPECT_EQ(project->tasks[0].parameters[0].values, (std::vector<std::string>{"0.001", "0.01", "0.1"}));
}

TEST(Valohai, ValuesAreReadFromJsonAndYaml) {
  auto values = ParseValohaiValues(R"({"lr": 0.1, "names": ["a", "b"]})", "p.json");
  ASSERT_TRUE(values) << values.error().message;
  EXPECT_EQ((*values)["lr"], std::vector<std::string>{"0.1"});
  EXPECT_EQ((*values)["names"], (std::vector<std::string>{"a", "b"}));
  EXPECT_FALSE(ParseValohaiValues("[1, 2]", "p.yaml"));
}

TEST(Valohai, AliasesCountAsTheValuesThatTheyStandFor) {
  std::string step = "- step: &a {name: s, image: i, command: [";
  for (int i = 0; i < 4'000; ++i) step += "c,";
  step += "c]}\n";
  EXPECT_TRUE(ParseValohaiYaml(step, "valohai.yaml"));
  for (int i = 0; i < 100; ++i) step += "- step: *a\n";
  std::string merges = "- &a {";
  for (int i = 0; i < 1'000; ++i) merges += "k" + std::to_string(i) + ": 1, ";
  merges += "z: 1}\n";
  for (int i = 0; i < 200; ++i) merges += "- step: {<<: *a}\n";
  std::string lists = "- &a0 [x]\n";
  for (int i = 1; i < 40; ++i) {
    const std::string alias = "*a" + std::to_string(i - 1);
    lists += "- &a" + std::to_string(i) + " [" + alias + "," + alias + "]\n";
  }
  std::string chain = "- &a0 [x]\n";
  for (int i = 1; i < 500; ++i) chain += "- &a" + std::to_string(i) + " [*a" + std::to_string(i - 1) + "]\n";
  const std::string own_list = "&a [*a]\n", own_map = "- step: &a {name: s, image: *a}\n";
  for (const std::string& text : {step, merges, lists, chain, own_list, own_map}) {
    const auto reading = ReadValohaiYaml(text, "valohai.yaml");
    ASSERT_EQ(reading.problems.size(), 1u);
    EXPECT_TRUE(Holds(reading.problems[0].text, "more than 200000 values")) << reading.problems[0].text;
    EXPECT_TRUE(reading.project.steps.empty());
  }
}

TEST(Valohai, ProblemsAreBoundedAndErrorsShowBehindWarnings) {
  std::string same;
  for (int i = 0; i < 300; ++i) same += "- step: {name: a, image: b, command: c}\n";
  EXPECT_EQ(ReadValohaiYaml(same, "valohai.yaml").problems.size(), 200u);
  std::string warnings = "- step: {name: a, image: b, command: '";
  for (int i = 0; i < 300; ++i) warnings += "{parameter:x}";
  warnings += "'}\n";
  EXPECT_TRUE(ParseValohaiYaml(warnings, "valohai.yaml"));
  warnings += "- task: {name: t, step: none, parameter-sets: [{a: 1}]}\n";
  const auto project = ParseValohaiYaml(warnings, "valohai.yaml");
  ASSERT_FALSE(project);
  EXPECT_TRUE(Holds(project.error().message, "there is no step 'none'")) << project.error().message;
}

TEST(Valohai, ExplainShowsAStepsRequestOrItsErrors) {
  auto good = ExplainValohai(kExample, "valohai.yaml");
  EXPECT_FALSE(good.had_errors) << good.text;
  EXPECT_TRUE(Holds(good.text, "step full-training\n  asks for      4 GPUs (VH_GPUS)\n")) << good.text;
  auto bad = ExplainValohai("- step: {name: a}\n", "valohai.yaml");
  EXPECT_TRUE(bad.had_errors);
  EXPECT_TRUE(Holds(bad.text, "error: valohai.yaml:1: step 'a': needs the key 'image'")) << bad.text;
}

}  // namespace valohai_test
}  // namespace divvy::dialect
