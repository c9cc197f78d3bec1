#include <algorithm>
#include <array>
#include <cctype>

#include "base/text.h"
#include "cli/shims/valohai/vh_run.h"

namespace divvy::cli {
namespace {

using dialect::ValohaiParameter;
using dialect::ValohaiStep;
using dialect::ValohaiType;

enum class Value { kNone, kNeeded, kOptional };

struct RunOption {
  std::string_view name;
  char letter;
  Value value;
  std::string_view note;  // If not empty: accepted, but without effect here; this text says why.
};

constexpr std::string_view kNoContainer = "does not apply on one server";
constexpr std::array<RunOption, 35> kOptions = {{
    {"commit", 'c', Value::kNeeded, "the working directory is used as it is, not a commit"},
    {"environment", 'e', Value::kNeeded, ""},
    {"environment-variable-groups", 0, Value::kNeeded, "groups are stored at Valohai; set the variables with --var"},
    {"image", 'i', Value::kNeeded, ""},
    {"title", 't', Value::kNeeded, ""},
    {"watch", 'w', Value::kNone, ""},
    {"var", 'v', Value::kNeeded, ""},
    {"tag", 0, Value::kNeeded, ""},
    {"adhoc", 'a', Value::kNone, ""},
    {"yaml", 0, Value::kNeeded, ""},
    {"parameter-file", 0, Value::kNeeded, ""},
    {"autorestart", 0, Value::kNone, ""},
    {"no-autorestart", 0, Value::kNone, ""},
    {"priority", 0, Value::kOptional, ""},
    {"help", 0, Value::kNone, ""},
    {"open-browser", 0, Value::kNone, "there is no page to open"},
    {"sync", 's', Value::kNeeded, "outputs are on this machine already: vh exec outputs shows where"},
    {"git-packaging", 'g', Value::kNone, "--adhoc copies what no ignore file names, with or without git"},
    {"no-git-packaging", 'G', Value::kNone, "--adhoc copies what no ignore file names, with or without git"},
    {"validate-adhoc", 0, Value::kNone, "valohai.yaml is always checked first"},
    {"no-validate-adhoc", 0, Value::kNone, "valohai.yaml is always checked first"},
    {"debug-port", 0, Value::kNeeded, kNoContainer},
    {"debug-key-file", 0, Value::kNeeded, kNoContainer},
    {"ssh", 0, Value::kNone, kNoContainer},
    {"k8s-cpu-min", 0, Value::kNeeded, kNoContainer},
    {"k8s-cpu-max", 0, Value::kNeeded, kNoContainer},
    {"k8s-memory-min", 0, Value::kNeeded, kNoContainer},
    {"k8s-memory-max", 0, Value::kNeeded, kNoContainer},
    {"k8s-device", 0, Value::kNeeded, "ask for GPUs with VH_GPUS=N"},
    {"k8s-device-none", 0, Value::kNone, kNoContainer},
    {"k8s-preset", 0, Value::kNeeded, kNoContainer},
    {"k8s-cache-volume", 0, Value::kNeeded, kNoContainer},
    {"ignore-env-vars", 0, Value::kNone, kNoContainer},
    {"download-directory", 'd', Value::kNeeded, "outputs are on this machine already: vh exec outputs shows where"},
    {"no-watch", 0, Value::kNone, ""},
}};

bool IsVariableName(std::string_view text) {
  return !text.empty() && std::isdigit(static_cast<unsigned char>(text[0])) == 0 &&
         std::all_of(text.begin(), text.end(), [](unsigned char c) { return std::isalnum(c) != 0 || c == '_'; });
}

/// "Learning_Rate" and "learning-rate" are the same option.
std::string Folded(std::string_view name) {
  std::string out = ToLower(name);
  for (char& c : out) c = c == '_' || c == ' ' ? '-' : c;
  return out;
}

template <typename T>
const T* FindFolded(const std::vector<T>& things, std::string_view name) {
  for (const T& thing : things) {
    if (thing.name == name) return &thing;
  }
  for (const T& thing : things) {
    if (Folded(thing.name) == Folded(name)) return &thing;
  }
  return nullptr;
}

class WordReader {
 public:
  WordReader(const std::vector<std::string>& words, bool is_task,
             const std::function<Result<dialect::ValohaiProject>(const std::string&)>& read_project)
      : words_(words), is_task_(is_task), read_project_(read_project) {}

  Result<VhRun> Parse() {
    // The step's options are only known once its file is, so look for --yaml first.
    for (std::size_t i = 0; i < words_.size(); ++i) {
      if (words_[i].starts_with("--yaml=")) out_.yaml = words_[i].substr(7);
      if (words_[i] == "--yaml" && i + 1 < words_.size()) out_.yaml = words_[i + 1];
    }
    for (at_ = 0; at_ < words_.size(); ++at_) {
      const std::string& word = words_[at_];
      if (word.size() > 2 && word.starts_with("--")) {
        DIVVY_CHECK(Long(std::string_view(word).substr(2)));
      } else if (word.size() > 1 && word[0] == '-' && word != "--") {
        DIVVY_CHECK(Letters(std::string_view(word).substr(1)));
      } else if (word != "--") {
        DIVVY_CHECK(Plain(word));
      }
    }
    return std::move(out_);
  }

 private:
  Status Plain(const std::string& word) {
    auto equals = word.find('=');
    if (equals != std::string::npos && IsVariableName(word.substr(0, equals))) return Variable(word);
    if (!out_.target.empty()) {
      return InvalidArgument("'" + word + "' is an unexpected argument after " +
                             std::string(is_task_ ? "task '" : "step '") + out_.target +
                             "'; write --NAME=VALUE for a parameter, NAME=VALUE for a variable");
    }
    DIVVY_TRY(project_, read_project_(out_.yaml));
    out_.target = word;
    if (is_task_) {
      DIVVY_TRY(const dialect::ValohaiTask* task, dialect::FindValohaiTask(project_, word));
      DIVVY_TRY(step_, dialect::FindValohaiStep(project_, task->step));
    } else {
      DIVVY_TRY(step_, dialect::FindValohaiStep(project_, word));
    }
    return {};
  }

  Status Variable(const std::string& text) {
    auto equals = text.find('=');
    std::string name = text.substr(0, equals);
    if (equals == std::string::npos || !IsVariableName(name)) {
      return InvalidArgument("--var: '" + text + "' is not NAME=VALUE");
    }
    out_.sets_gpus = out_.sets_gpus || name == "VH_GPUS";
    out_.request.variables.emplace_back(name, text.substr(equals + 1));
    return {};
  }

  Status Long(std::string_view text) {
    auto equals = text.find('=');
    std::string_view name = text.substr(0, equals);
    std::optional<std::string> value;
    if (equals != std::string_view::npos) value = std::string(text.substr(equals + 1));
    // After the step's name, its own options have priority: a parameter may be called "title".
    if (step_ != nullptr) {
      if (const ValohaiParameter* parameter = FindFolded(step_->parameters, name))
        return Parameter(*parameter, value, false);
      if (name.starts_with("no-")) {
        const ValohaiParameter* flag = FindFolded(step_->parameters, name.substr(3));
        if (flag != nullptr && flag->type == ValohaiType::kFlag) return Parameter(*flag, "false", true);
      }
      if (const dialect::ValohaiInput* input = FindFolded(step_->inputs, name)) {
        DIVVY_TRY(std::string url, NeededValue(name, value));
        auto& urls = out_.request.inputs[input->name];
        if (!url.empty()) urls.push_back(url);
        return {};
      }
    }
    for (const RunOption& option : kOptions) {
      if (option.name == name) return Known(option, value);
    }
    return Unknown(name);
  }

  Status Letters(std::string_view letters) {
    if (letters == "h") {
      out_.wants_help = true;
      return {};
    }
    for (const RunOption& option : kOptions) {
      if (option.letter != letters[0]) continue;
      std::optional<std::string> value;
      if (option.value != Value::kNone && letters.size() > 1) value = std::string(letters.substr(1));
      if (option.value == Value::kNone && letters.size() > 1) {
        DIVVY_CHECK(Known(option, value));
        return Letters(letters.substr(1));
      }
      return Known(option, value);
    }
    return InvalidArgument("unknown option -" + std::string(1, letters[0]) + "; vh exec run --help lists them");
  }

  Status Unknown(std::string_view name) {
    std::vector<std::string_view> names;
    for (const RunOption& option : kOptions) names.push_back(option.name);
    std::string what = "unknown option --" + std::string(name);
    if (step_ != nullptr) {
      for (const ValohaiParameter& parameter : step_->parameters) names.push_back(parameter.name);
      for (const dialect::ValohaiInput& input : step_->inputs) names.push_back(input.name);
      what += ": step '" + step_->name + "' has no such parameter or input";
    }
    std::string_view nearest = Nearest(name, names);
    if (!nearest.empty()) return InvalidArgument(what + "; did you mean --" + std::string(nearest) + "?");
    return InvalidArgument(what + (step_ == nullptr ? "; a step's own options come after its name" : ""));
  }

  Result<std::string> NeededValue(std::string_view name, const std::optional<std::string>& value) {
    if (value) return *value;
    if (at_ + 1 >= words_.size()) return InvalidArgument("--" + std::string(name) + " needs a value");
    return words_[++at_];
  }

  Status Parameter(const ValohaiParameter& parameter, std::optional<std::string> value, bool is_negated) {
    if (parameter.type == ValohaiType::kFlag) {
      if (!value) value = "true";
    } else if (is_negated || !value) {
      DIVVY_TRY(value, NeededValue(parameter.name, std::nullopt));
    }
    if (auto status = dialect::CheckValohaiValue(parameter, *value); !status) return status;
    auto& values = out_.request.parameters[parameter.name];
    if (parameter.multiple == dialect::ValohaiMultiple::kNone) values.clear();  // The last one wins.
    values.push_back(*value);
    return {};
  }

  Status Known(const RunOption& option, std::optional<std::string> value) {
    if (option.value == Value::kNone && value)
      return InvalidArgument("--" + std::string(option.name) + " takes no value");
    if (option.value == Value::kNeeded) {
      DIVVY_TRY(value, NeededValue(option.name, value));
    }
    if (!option.note.empty()) {
      out_.notes.push_back("--" + std::string(option.name) + ": " + std::string(option.note));
      return {};
    }
    dialect::ExecutionRequest& request = out_.request;
    if (option.name == "environment") request.environment = *value;
    else if (option.name == "image") request.image = *value;
    else if (option.name == "title") request.title = *value;
    else if (option.name == "watch") out_.is_watched = true;
    else if (option.name == "no-watch") out_.is_watched = false;
    else if (option.name == "var") return Variable(*value);
    else if (option.name == "tag") request.tags.push_back(*value);
    else if (option.name == "adhoc") out_.is_adhoc = true;
    else if (option.name == "yaml") out_.yaml = *value;
    else if (option.name == "parameter-file") out_.parameter_file = *value;
    else if (option.name == "autorestart") request.restarts = true;
    else if (option.name == "no-autorestart") request.restarts = false;
    else if (option.name == "priority") return Priority(value);
    else out_.wants_help = true;
    return {};
  }

  Status Priority(std::optional<std::string> value) {
    // "--priority" alone means 1; "--priority 3" and "--priority=3" give the number.
    if (!value && at_ + 1 < words_.size() && ParseInteger(words_[at_ + 1])) value = words_[++at_];
    auto number = ParseInteger(value.value_or("1"));
    if (!number || *number < 0 || *number > dialect::kMostPriority)
      return InvalidArgument("--priority: '" + *value + "' is not a number from 0 to " +
                             std::to_string(dialect::kMostPriority));
    out_.request.priority = static_cast<int>(*number);
    return {};
  }

  const std::vector<std::string>& words_;
  bool is_task_;
  const std::function<Result<dialect::ValohaiProject>(const std::string&)>& read_project_;
  std::size_t at_ = 0;
  dialect::ValohaiProject project_;
  const ValohaiStep* step_ = nullptr;
  VhRun out_;
};

}  // namespace

Result<VhRun> ParseVhRun(const std::vector<std::string>& words, bool is_task,
                         const std::function<Result<dialect::ValohaiProject>(const std::string& yaml)>& read_project) {
  return WordReader(words, is_task, read_project).Parse();
}

}  // namespace divvy::cli
