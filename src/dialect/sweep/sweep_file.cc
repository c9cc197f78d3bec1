#include "dialect/sweep/sweep_file.h"

#include <algorithm>
#include <array>
#include <cmath>

#include "dialect/options/job_options.h"
#include "dialect/valohai/valohai_fields.h"
#include "sweep/halving.h"

namespace divvy::dialect {
namespace {

constexpr std::size_t kMostSweepText = 1 << 20;

template <std::size_t N>
using KeyList = std::array<std::string_view, N>;

constexpr std::pair<std::string_view, SweepMethod> kSweepMethods[] = {{"grid", SweepMethod::kGrid},
                                                                      {"random", SweepMethod::kRandom},
                                                                      {"ask", SweepMethod::kAsk},
                                                                      {"bayes", SweepMethod::kAsk}};

/// Parameters have the names that --param allows.
Status CheckParameterName(const std::string& name) {
  JobSpec scratch;
  return ParseParameter(name + "=1", scratch);
}

bool IsWholeNumber(const std::optional<double>& number) { return number && *number == std::round(*number); }

class SweepReader {
 public:
  explicit SweepReader(Problems& problems) : problems_(problems) {}

  SweepPlan Read(const YAML::Node& root) {
    static constexpr KeyList<17> kKeys = {"program",  "method", "metric",  "parameters",  "early_terminate", "command",
                                          "run_cap",  "trials", "name",    "description", "project",         "entity",
                                          "parallel", "seed",   "options", "resource",    "controller"};
    Fields fields(problems_, root, "the sweep", kKeys);
    if (!root.IsMap()) return std::move(plan_);
    const std::string method = fields.Required("method");
    if (const auto known = SweepMethodFromName(method)) plan_.method = *known;
    else if (fields.Get("method")) fields.Complain(*fields.Get("method"), known.error().message);
    if (method == "bayes")
      plan_.notes.push_back(
          "method: bayes runs as method: ask: an optimiser chooses the values with divvy sweep ask and divvy sweep "
          "tell, see examples/sweep-optuna.py");
    plan_.name = fields.Text("name");
    plan_.trials = static_cast<std::uint32_t>(
        fields.Whole(fields.Get("run_cap") ? "run_cap" : "trials", 0, 1, static_cast<int>(kMostTrials)));
    plan_.rule.parallel = fields.Whole("parallel", 0, 0, static_cast<int>(kMostTrials));
    plan_.seed = static_cast<std::uint64_t>(fields.Whole("seed", 1, 0, 2'000'000'000));
    plan_.rule.resource = fields.Text("resource", plan_.rule.resource);
    if (fields.Get("project")) plan_.options.push_back("--project=" + fields.Text("project"));
    ReadMetric(fields);
    ReadSpace(fields);
    ReadEarlyTerminate(fields);
    ReadCommand(fields);
    ReadOptions(fields);
    return std::move(plan_);
  }

 private:
  void ReadMetric(Fields& fields) {
    static constexpr KeyList<3> kKeys = {"name", "goal", "target"};
    static constexpr KeyList<2> kGoals = {"minimize", "maximize"};
    const auto node = fields.Get("metric");
    if (!node) return;
    Fields metric(problems_, *node, "metric", kKeys);
    plan_.rule.metric = metric.Required("name");
    if (metric.Word("goal", "minimize", kGoals) == "maximize") plan_.rule.goal = sweep::Goal::kMaximize;
    plan_.rule.target = metric.Number("target");
  }

  void ReadSpace(Fields& fields) {
    const auto node = fields.Get("parameters");
    if (!node) return;
    Fields space(problems_, *node, "parameters", {});
    // Parameters are read in the order of the file, which is the order of the grid.
    if (!node->IsMap()) return;
    for (const auto& pair : *node) {
      if (pair.first.IsScalar() && pair.first.Scalar() != "<<") ReadParameter(pair.first.Scalar(), pair.second);
    }
  }

  void ReadParameter(const std::string& name, const YAML::Node& node) {
    static constexpr KeyList<10> kKeys = {"value", "values", "min", "max",           "distribution",
                                          "mu",    "sigma",  "q",   "probabilities", "description"};
    Fields fields(problems_, node, "parameter " + Quoted(name), kKeys);
    if (!node.IsMap()) return;
    if (const Status good = CheckParameterName(name); !good) return fields.Complain(good.error().message);
    sweep::SpaceParameter parameter;
    parameter.name = name;
    for (const char* key : {"values", "value"}) {
      for (std::string& value : fields.Texts(key)) parameter.values.push_back(std::move(value));
    }
    for (const std::string& weight : fields.Texts("probabilities")) {
      const auto number = ParseNumber(weight);
      if (!number) return fields.Complain("the probability " + Quoted(weight) + " is not a number");
      parameter.weights.push_back(*number);
    }
    const auto min = fields.Number("min"), max = fields.Number("max");
    parameter.min = min.value_or(0);
    parameter.max = max.value_or(0);
    parameter.mu = fields.Number("mu").value_or(0);
    parameter.sigma = fields.Number("sigma").value_or(1);
    parameter.q = fields.Number("q").value_or(1);
    if (const auto named = fields.Get("distribution")) {
      const std::string text = fields.Text("distribution");
      const bool has_exponents = text == "log_uniform" || text == "q_log_uniform";
      const auto known = sweep::DistributionFromName(has_exponents ? text + "_values" : text);
      if (!known) return fields.Complain(*named, known.error().message);
      parameter.distribution = *known;
      // In Weights & Biases, min and max are exponents of e for this distribution.
      if (has_exponents) parameter.min = std::exp(parameter.min), parameter.max = std::exp(parameter.max);
    } else if (parameter.values.empty() && (min || max)) {
      parameter.distribution =
          IsWholeNumber(min) && IsWholeNumber(max) ? sweep::Distribution::kIntUniform : sweep::Distribution::kUniform;
    }
    const bool needs_bounds = parameter.distribution >= sweep::Distribution::kUniform &&
                              parameter.distribution <= sweep::Distribution::kQLogUniform;
    if (needs_bounds && (!min || !max)) return fields.Complain("needs both min and max");
    plan_.space.push_back(std::move(parameter));
    lines_.push_back(LineOf(node));
    if (const Status good = sweep::CheckParameter(plan_.space.back()); !good)
      problems_.push_back({lines_.back(), false, good.error().message});
  }

  void ReadEarlyTerminate(Fields& fields) {
    static constexpr KeyList<7> kKeys = {"type", "min_iter", "max_iter", "eta", "s", "strict", "park_losers"};
    static constexpr KeyList<3> kTypes = {"asha", "asha_promotion", "hyperband"};
    const auto node = fields.Get("early_terminate");
    if (!node) return;
    Fields rule(problems_, *node, "early_terminate", kKeys);
    const std::string type = rule.Word("type", "asha", kTypes);
    sweep::HalvingRule& halving = plan_.rule.halving;
    halving.stop = sweep::EarlyStopFromName(type).value_or(sweep::EarlyStop::kAsha);
    halving.min = rule.Number("min_iter").value_or(1);
    halving.max = rule.Number("max_iter").value_or(0);
    halving.eta = rule.Whole("eta", 3, 2, 1000);
    plan_.rule.parks_losers = rule.Truth("park_losers", false);
    // The hyperband of Weights & Biases stops each run by itself at its rungs.
    const bool has_brackets = rule.Get("s").has_value();
    if (type != "hyperband" || (halving.max > 0 && !has_brackets)) return;
    halving.stop = sweep::EarlyStop::kAsha;
    if (has_brackets && halving.max > 0)
      halving.min = std::max(halving.max / std::pow(halving.eta, rule.Whole("s", 1, 1, 40)), 1e-9);
    plan_.notes.push_back(
        "early_terminate: hyperband with min_iter or s, as Weights & Biases has it, runs as type: asha; with max_iter "
        "alone it is the Hyperband of Li et al.");
  }

  void ReadCommand(Fields& fields) {
    static constexpr KeyList<7> kMacros = {"${env}",      "${interpreter}",     "${program}",
                                           "${args}",     "${args_no_hyphens}", "${args_no_boolean_flags}",
                                           "${args_json}"};
    const std::string program = fields.Text("program");
    std::vector<std::string> words = fields.Texts("command");
    if (plan_.name.empty()) plan_.name = program.substr(program.rfind('/') + 1);
    if (words.empty() && !program.empty()) words = {"${env}", "${interpreter}", "${program}", "${args}"};
    for (const std::string& word : words) {
      if (word == "${env}") plan_.command.push_back("/usr/bin/env");
      else if (word == "${interpreter}") plan_.command.push_back("python");
      else if (word == "${program}") plan_.command.push_back(program);
      else if (word == "${args}" || word == "${args_no_boolean_flags}")
        for (const auto& one : plan_.space) plan_.command.push_back("--" + one.name + "={" + one.name + "}");
      else if (word == "${args_no_hyphens}")
        for (const auto& one : plan_.space) plan_.command.push_back(one.name + "={" + one.name + "}");
      else if (word == "${args_json}" || word.starts_with("${"))
        fields.Complain(*fields.Get("command"), "command: the macro " + Quoted(word) + " is not supported" +
                                                    Fields::NearestOf(word, std::span(kMacros).first(6)));
      else plan_.command.push_back(word);
    }
    const bool needs_program = std::ranges::find(words, "${program}") != words.end();
    if (needs_program && program.empty()) fields.Complain("needs the key 'program'");
  }

  // "options: {gpus: 1, time: 2h}": the options of divvy submit.
  void ReadOptions(Fields& fields) {
    const auto node = fields.Get("options");
    if (!node) return;
    Fields options(problems_, *node, "options", {});
    for (const auto& [name, value] : options.values()) {
      for (const std::string& text : options.Texts(name)) {
        if (text == "true") plan_.options.push_back("--" + name);
        else if (text != "false") plan_.options.push_back("--" + name + "=" + text);
      }
    }
  }

  Problems& problems_;
  SweepPlan plan_;
  std::vector<int> lines_;
};

}  // namespace

Result<SweepMethod> SweepMethodFromName(std::string_view name) {
  for (const auto& [text, method] : kSweepMethods) {
    if (text == name) return method;
  }
  return InvalidArgument("method " + Quoted(name) + " is not known; use grid, random or ask");
}

Result<SweepPlan> ReadSweepFile(std::string_view text, std::string_view path) {
  if (text.size() > kMostSweepText) return InvalidArgument(std::string(path) + ": the file is larger than 1 MiB");
  Problems problems;
  SweepPlan plan;
  try {
    plan = SweepReader(problems).Read(YAML::Load(std::string(text)));
  } catch (const YAML::Exception& error) {
    problems.push_back({error.mark.line + 1, false, "not YAML: " + OneLine(error.msg)});
  }
  std::ranges::stable_sort(problems, {}, &ValohaiProblem::line);
  if (!problems.empty()) return InvalidArgument(FormatProblem(path, problems.front()));
  return plan;
}

Result<sweep::SpaceParameter> ParseDraw(std::string_view text) {
  const auto equals = text.find('=');
  const std::vector<std::string_view> parts = Split(text.substr(std::min(equals, text.size() - 1) + 1), ':');
  const auto first = parts.size() == 3 ? ParseNumber(parts[1]) : std::nullopt;
  const auto second = parts.size() == 3 ? ParseNumber(parts[2]) : std::nullopt;
  if (equals == std::string_view::npos || !first || !second)
    return InvalidArgument(Quoted(text) +
                           " is not NAME=DISTRIBUTION:MIN:MAX; write it like "
                           "lr=log_uniform_values:1e-5:0.1");
  sweep::SpaceParameter parameter;
  parameter.name = Trim(text.substr(0, equals));
  DIVVY_CHECK(CheckParameterName(parameter.name));
  DIVVY_TRY(parameter.distribution, sweep::DistributionFromName(parts[0]));
  parameter.min = parameter.mu = *first;
  parameter.max = parameter.sigma = *second;
  DIVVY_CHECK(sweep::CheckParameter(parameter));
  return parameter;
}

Result<sweep::HalvingRule> ParseHalving(std::string_view text, sweep::EarlyStop stop) {
  const std::vector<std::string_view> parts = Split(text, ':');
  sweep::HalvingRule rule;
  rule.stop = stop;
  bool is_good = parts.size() <= 3;
  for (std::size_t i = 0; is_good && i < parts.size(); ++i) {
    const auto number = ParseNumber(parts[i]);
    is_good = number && (i < 2 || (IsWholeNumber(number) && *number >= 2 && *number <= 1000));
    if (is_good && i == 0) rule.min = *number;
    else if (is_good && i == 1) rule.max = *number;
    else if (is_good) rule.eta = static_cast<int>(*number);
  }
  if (is_good) return rule;
  return InvalidArgument(Quoted(text) + " is not MIN:MAX[:ETA]; write it like 1:81:3");
}

Status CompleteSweep(SweepPlan plan, JobSpec& spec) {
  for (const sweep::SpaceParameter& parameter : plan.space) DIVVY_CHECK(sweep::CheckParameter(parameter));
  if (spec.array) return InvalidArgument("--array does not work with a sweep; its trials are its array");
  if (plan.method != SweepMethod::kGrid && !spec.parameters.empty())
    return InvalidArgument("--param lists the values of a grid; use --draw " + spec.parameters.front().name +
                           "=uniform:MIN:MAX, or --method grid");
  if (plan.space.empty() && spec.parameters.empty())
    return InvalidArgument(
        "the sweep has no parameters; add parameters: {lr: {values: [0.1, 0.01]}}, or --param "
        "lr=0.1,0.01");
  if (plan.trials == 0 && plan.rule.halving.stop == sweep::EarlyStop::kHyperband && plan.method != SweepMethod::kGrid) {
    DIVVY_CHECK(sweep::CheckRule(plan.rule));
    plan.trials = sweep::Halving::TrialsOfHyperband(plan.rule.halving);
  }
  if (plan.trials == 0 && plan.method != SweepMethod::kGrid)
    return InvalidArgument("the sweep needs the number of its trials; add run_cap: 100, or --trials 100");
  if (plan.trials > kMostTrials)
    return InvalidArgument("the sweep has " + std::to_string(plan.trials) + " trials, and at most " +
                           std::to_string(kMostTrials) + " are allowed; set a smaller run_cap");
  if (plan.method == SweepMethod::kGrid) {
    DIVVY_TRY(std::vector<Parameter> columns, sweep::GridColumns(plan.space, kMostTrials));
    columns.insert(columns.end(), spec.parameters.begin(), spec.parameters.end());
    spec.parameters = std::move(columns);
    DIVVY_TRY(const std::uint64_t points, ElementCount(spec));
    if (points > kMostTrials)
      return InvalidArgument("the grid has " + std::to_string(points) + " points, and a sweep has at most " +
                             std::to_string(kMostTrials) +
                             " trials; use fewer values, or method: random with run_cap: "
                             "100");
  } else if (plan.method == SweepMethod::kRandom) {
    spec.parameters = sweep::RandomColumns(plan.space, plan.trials, plan.seed);
    plan.rule.seed = plan.seed;
  } else {
    // divvy sweep tell fills the rows.
    spec.parameters.clear();
    for (const sweep::SpaceParameter& parameter : plan.space)
      spec.parameters.push_back({parameter.name, std::vector<std::string>(plan.trials), 0});
    spec.is_held = true;
    plan.rule.is_told = true;
  }
  plan.rule.method = std::ranges::find(kSweepMethods, plan.method, [](const auto& one) { return one.second; })->first;
  DIVVY_CHECK(sweep::CheckRule(plan.rule));
  spec.labels[std::string(sweep::kRuleLabel)] = sweep::FormatRule(plan.rule);
  if (spec.name.empty()) spec.name = plan.name;
  spec.notes.insert(spec.notes.end(), plan.notes.begin(), plan.notes.end());
  return {};
}

}  // namespace divvy::dialect
