#include "dialect/options/options.h"

#include <algorithm>

#include "base/text.h"
#include "dialect/options/quoted.h"

namespace divvy::dialect {
namespace {

bool HasName(const Option& option, std::string_view name) {
  return option.name == name || std::ranges::find(option.aliases, name) != option.aliases.end();
}

bool HasNameBeginning(const Option& option, std::string_view prefix) {
  return option.name.starts_with(prefix) ||
         std::ranges::any_of(option.aliases, [&](std::string_view alias) { return alias.starts_with(prefix); });
}

class Parser {
 public:
  Parser(std::span<const Option> options, std::span<const std::string> words, const ParseRules& rules)
      : options_(options), words_(words), rules_(rules) {}

  Result<Parsed> Run() {
    while (next_ < words_.size()) {
      const std::string& word = words_[next_++];
      if (word == "--") {
        parsed_.saw_dashes = true;
        parsed_.after_dashes.assign(words_.begin() + static_cast<std::ptrdiff_t>(next_), words_.end());
        break;
      }
      if (word.starts_with("--")) {
        DIVVY_CHECK(ReadLong(std::string_view(word).substr(2), "--"));
      } else if (word.size() > 1 && word[0] == '-') {
        DIVVY_CHECK(ReadShort(word));
      } else {
        parsed_.positional.push_back(word);
        if (rules_.stops_at_first_positional) {
          parsed_.positional.insert(parsed_.positional.end(), words_.begin() + static_cast<std::ptrdiff_t>(next_),
                                    words_.end());
          break;
        }
      }
    }
    return std::move(parsed_);
  }

 private:
  const Option* FindExactly(std::string_view name) const {
    const auto found = std::ranges::find_if(options_, [&](const Option& option) { return HasName(option, name); });
    return found == options_.end() ? nullptr : &*found;
  }

  const Option* FindLetter(char letter) const {
    const auto found = std::ranges::find_if(options_, [&](const Option& option) { return option.letter == letter; });
    return found == options_.end() ? nullptr : &*found;
  }

  std::string_view NearestTo(std::string_view name) const {
    std::vector<std::string_view> known;
    // List names before aliases: if two are equally near, suggest the one that --help shows.
    for (const Option& option : options_) {
      if (!option.is_hidden) known.push_back(option.name);
    }
    for (const Option& option : options_) {
      if (!option.is_hidden) known.insert(known.end(), option.aliases.begin(), option.aliases.end());
    }
    // Edit distance costs letters x letters, and option names are short.
    return name.size() > 64 ? std::string_view() : Nearest(name, known);
  }

  /// The shortest option that begins with this word: "gpus" for the "gpu" of --gpu-count. Empty for short words.
  std::string_view ShortestOf(std::string_view word) const {
    std::string_view shortest;
    for (const Option& option : options_) {
      if (option.is_hidden || word.size() < 3 || !option.name.starts_with(word)) continue;
      if (shortest.empty() || option.name.size() < shortest.size()) shortest = option.name;
    }
    return shortest;
  }

  /// Decides about an unknown option. Returns false if it is refused.
  bool TakesUnknown(std::string_view name, std::optional<std::string_view> value) {
    if (!rules_.take_unknown || name.empty() || HasBegun(name) || !NearestTo(name).empty()) return false;
    const std::string_view next = next_ < words_.size() ? std::string_view(words_[next_]) : std::string_view();
    const UnknownIs is = rules_.take_unknown({name, value, next});
    if (is == UnknownIs::kTakenWithNext) ++next_;
    return is != UnknownIs::kRefused;
  }

  bool HasBegun(std::string_view name) const {
    return std::ranges::any_of(options_, [&](const Option& option) { return HasNameBeginning(option, name); });
  }

  Result<const Option*> Find(std::string_view name, std::string_view dashes) const {
    if (const Option* option = FindExactly(name)) return option;
    std::vector<const Option*> begun;
    if (rules_.allows_abbreviations && !name.empty()) {
      for (const Option& option : options_) {
        if (!option.is_hidden && HasNameBeginning(option, name)) begun.push_back(&option);
      }
    }
    // Options that --help hides can still be abbreviated.
    if (rules_.allows_abbreviations && begun.empty() && name.size() > 2) {
      for (const Option& option : options_) {
        if (option.is_hidden && HasNameBeginning(option, name)) begun.push_back(&option);
      }
    }
    if (begun.size() == 1) return begun.front();
    const std::string written = Quoted(std::string(dashes) + std::string(name));
    if (!begun.empty()) {
      std::string names;
      std::vector<std::string_view> meant;
      for (const Option* option : begun) meant.push_back(option->name);
      if (const std::string_view near = Nearest(name, meant); !near.empty())
        return InvalidArgument(written + " is ambiguous; did you mean --" + std::string(near) + "?");
      for (const Option* option : begun) names += (names.empty() ? "--" : ", --") + std::string(option->name);
      return InvalidArgument(written + " is ambiguous; it could be " + names);
    }
    if (name == "help") {
      return InvalidArgument("unknown option " + written + "; it is accepted only as the first word of a command line");
    }
    std::string_view near = NearestTo(name);
    if (near.empty()) near = ShortestOf(name.substr(0, name.find('-')));
    return InvalidArgument(
        "unknown option " + written +
        (near.empty() ? std::string("; --help lists all options") : "; did you mean --" + std::string(near) + "?"));
  }

  /// True if the word is a known long option, so that it is not the value of the option before it.
  bool IsKnownLongOption(std::string_view word) const {
    return word.starts_with("--") && (word.size() == 2 || FindExactly(word.substr(2, word.find('=') - 2)) != nullptr);
  }

  Status ReadLong(std::string_view text, std::string_view dashes) {
    const std::size_t equals = text.find('=');
    const auto found = Find(text.substr(0, equals), dashes);
    if (!found) {
      std::optional<std::string_view> value;
      if (equals != std::string_view::npos) value = text.substr(equals + 1);
      return TakesUnknown(text.substr(0, equals), value) ? Status() : Status(found.error());
    }
    const Option* option = *found;
    const std::string shown = "--" + std::string(option->name);
    if (equals != std::string_view::npos) {
      if (option->takes == Takes::kNothing) return InvalidArgument(shown + " takes no value; remove it");
      return ApplyValue(*option, shown, text.substr(equals + 1));
    }
    if (option->takes == Takes::kValue) return ApplyNextWord(*option, shown);
    return ApplyValue(*option, shown, "");
  }

  Status ReadShort(const std::string& word) {
    if (rules_.allows_single_dash_long) {
      const std::string_view text = std::string_view(word).substr(1);
      if (text.size() > 1 && FindExactly(text.substr(0, text.find('='))) != nullptr) return ReadLong(text, "-");
    }
    for (std::size_t i = 1; i < word.size(); ++i) {
      const Option* option = FindLetter(word[i]);
      if (option == nullptr) return UnknownLetter(word, i);
      const std::string shown = std::string("-") + word[i] + " (--" + std::string(option->name) + ")";
      if (option->takes == Takes::kNothing) {
        DIVVY_CHECK(ApplyValue(*option, shown, ""));
        continue;
      }
      std::string_view rest = std::string_view(word).substr(i + 1);
      if (rest.empty())
        return option->takes == Takes::kValue ? ApplyNextWord(*option, shown) : ApplyValue(*option, shown, "");
      // getopt does not accept "-g=2", but its meaning is clear.
      if (rest.front() == '=') rest.remove_prefix(1);
      return ApplyValue(*option, shown, rest);
    }
    return {};
  }

  Error UnknownLetter(const std::string& word, std::size_t at) const {
    std::string message = "unknown option " + Quoted(std::string("-") + word[at]);
    if (word.size() > 2) message += " in " + Quoted(word);
    const std::string_view name = std::string_view(word).substr(1);
    if (at == 1 && name.size() > 1 && FindExactly(name.substr(0, name.find('='))) != nullptr) {
      return InvalidArgument(message + "; long options begin with two dashes: " + Quoted("-" + word));
    }
    return InvalidArgument(message + "; --help lists all options");
  }

  Status ApplyNextWord(const Option& option, const std::string& shown) {
    if (next_ == words_.size()) return MissingValue(option, shown);
    const std::string& value = words_[next_];
    if (IsKnownLongOption(value)) return MissingValue(option, shown);
    ++next_;
    return ApplyValue(option, shown, value);
  }

  static Error MissingValue(const Option& option, const std::string& shown) {
    return InvalidArgument(shown + " needs a value" +
                           (option.value_name.empty() ? std::string() : ": " + std::string(option.value_name)));
  }

  static Status ApplyValue(const Option& option, const std::string& shown, std::string_view value) {
    // Neither process arguments nor file names can contain a NUL.
    if (value.find('\0') != std::string_view::npos)
      return InvalidArgument(shown + ": the value contains a NUL character; remove it");
    if (!option.apply) return {};
    Status status = option.apply(value);
    if (!status) status.error().message = shown + ": " + status.error().message;
    return status;
  }

  std::span<const Option> options_;
  std::span<const std::string> words_;
  const ParseRules& rules_;
  std::size_t next_ = 0;
  Parsed parsed_;
};

}  // namespace

std::string_view Heading(OptionGroup group) {
  switch (group) {
    case OptionGroup::kNone:
      return "";
    case OptionGroup::kMostUsed:
      return "Most used";
    case OptionGroup::kResources:
      return "Resources";
    case OptionGroup::kGpuSharing:
      return "GPU sharing";
    case OptionGroup::kPlacement:
      return "Placement";
    case OptionGroup::kTimeAndOrder:
      return "Time and order";
    case OptionGroup::kDependencies:
      return "Dependencies";
    case OptionGroup::kArraysAndSweeps:
      return "Arrays and sweeps";
    case OptionGroup::kInputAndOutput:
      return "Input and output";
    case OptionGroup::kMultiNode:
      return "Multi-node";
    case OptionGroup::kContainers:
      return "Containers";
    case OptionGroup::kNotifications:
      return "Notifications";
    case OptionGroup::kOther:
      return "Other";
  }
  return "";
}

std::string_view WithoutDefault(std::string_view help) { return help.substr(0, help.find(" (default: ")); }

Result<Parsed> ParseOptions(std::span<const Option> options, std::span<const std::string> words,
                            const ParseRules& rules) {
  return Parser(options, words, rules).Run();
}

}  // namespace divvy::dialect
