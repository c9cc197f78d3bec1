// Generates headers of GPU scripts with their meaning; see slurm_corpus_test.cc. They are the same on every machine.
#pragma once

#include <algorithm>
#include <fstream>
#include <map>
#include <random>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/text.h"
#include "dialect/slurm/slurm.h"

namespace divvy::dialect::corpus {

inline constexpr std::size_t kHeaders = 675;
using Facts = std::multimap<std::string, std::string>;

inline std::string Spaced(std::string text) {
  for (auto at = text.find("%20"); at != std::string::npos; at = text.find("%20")) text.replace(at, 3, " ");
  return text;
}

inline Facts ReadFacts(std::string_view text) {
  Facts facts;
  for (const std::string_view word : SplitWords(text)) {
    const auto equals = word.find('=');
    facts.emplace(word.substr(0, equals), Spaced(std::string(word.substr(equals + 1))));
  }
  return facts;
}

inline std::vector<std::string> FileLines(const std::string& name) {
  std::ifstream file(DIVVY_SOURCE_DIR "/tests/data/slurm_headers/" + name);
  std::vector<std::string> lines;
  for (std::string line; std::getline(file, line);) {
    if (!line.empty() && line.front() != '#') lines.push_back(line);
  }
  return lines;
}

/// One option of a header, before it is formatted.
struct Said {
  std::string name;
  std::string value;
  bool has_value = true;
};

struct Choice {
  int weight = 1;
  std::vector<Said> options;
  Facts facts;
};
struct Group {
  std::string name;
  std::size_t headers = 0;
  std::vector<Choice> choices;
};

inline Said ReadSaid(std::string_view text) {
  const auto equals = text.find('=');
  if (equals == std::string_view::npos) return {std::string(text), "", false};
  return {std::string(text.substr(0, equals)), std::string(text.substr(equals + 1)), true};
}

inline std::vector<Group> ReadGroups() {
  std::vector<Group> groups;
  for (const std::string& line : FileLines("options.txt")) {
    const std::vector<std::string_view> fields = Split(line, '\t');
    if (fields.size() == 1) {
      const std::vector<std::string_view> words = SplitWords(line);
      groups.push_back({std::string(words.at(1)), static_cast<std::size_t>(ParseInteger(words.at(2)).value_or(0)), {}});
      continue;
    }
    Choice choice;
    choice.weight = static_cast<int>(ParseInteger(fields[0]).value_or(1));
    std::string_view rest = fields.at(1);
    for (auto plus = rest.find(" + "); plus != std::string_view::npos; plus = rest.find(" + ")) {
      choice.options.push_back(ReadSaid(rest.substr(0, plus)));
      rest.remove_prefix(plus + 3);
    }
    choice.options.push_back(ReadSaid(rest));
    choice.facts = ReadFacts(fields.at(2));
    groups.back().choices.push_back(std::move(choice));
  }
  return groups;
}

/// Random numbers that are equal on every machine, unlike those of the standard distributions.
class Chance {
 public:
  std::size_t Below(std::size_t most) { return engine_() % most; }
  bool In(std::size_t part, std::size_t whole) { return Below(whole) < part; }
  template <typename T>
  const T& One(const std::vector<T>& list) {
    return list[Below(list.size())];
  }

 private:
  std::mt19937 engine_{20261121};
};

/// Draws the request for nodes, tasks, GPUs, CPUs and memory, with its meaning by Slurm's manual.
inline void AddSize(Chance& chance, std::size_t header, std::vector<Said>& options, Facts& facts) {
  const auto number = [](std::int64_t n) { return std::to_string(n); };
  const auto say = [&](std::string name, std::string value) { options.push_back({std::move(name), std::move(value)}); };
  const std::int64_t each = chance.One<std::int64_t>({1, 1, 1, 2, 4, 4, 8, 8});
  const bool says_nodes = !chance.In(8, 100);
  const std::int64_t nodes = says_nodes ? chance.One<std::int64_t>({1, 1, 1, 2, 2, 4, 8, 16, 32}) : 1;
  const std::string type = chance.One<std::string>({"", "", "", "", "a100", "h100", "v100"});
  const std::string typed = type.empty() ? "" : type + ":";
  if (says_nodes) say("nodes", chance.In(1, 60) ? number(nodes) + "-" + number(nodes) : number(nodes));
  // Tasks: 79 in 100 headers give a number per node, 13 a total, a few both.
  std::int64_t tasks = nodes;
  const std::size_t style = header % 100;
  if (style < 79) {
    const std::int64_t per_node = chance.One<std::int64_t>({1, 1, each, 4});
    say(chance.In(1, 20) ? "tasks-per-node" : "ntasks-per-node", number(per_node));
    tasks = nodes * per_node;
  }
  if ((style >= 79 && style < 90) || style < 2) {
    if (style >= 79) tasks = nodes * chance.One<std::int64_t>({1, 2, 4});
    say("ntasks", number(tasks));
  }
  const bool says_tasks = tasks != nodes || style < 90;
  // GPUs: 86 in 100 use --gres, 9 --gpus-per-node, the others count by job, task or socket.
  const std::size_t way = (header * 41) % 100;
  std::int64_t gpus = nodes * each;
  if (way < 86) {
    const bool says_none = chance.In(1, 60);
    const bool is_listed = !says_none && chance.In(1, 40);
    if (says_none) gpus = nodes;
    say("gres", says_none ? "gpu" : "gpu:" + typed + number(each) + (is_listed ? ",nvme:1" : ""));
  } else if (way < 95) {
    say("gpus-per-node", typed + number(each));
  } else if (!says_tasks) {
    say("gpus", typed + number(gpus));
    say("ntasks-per-gpu", "2");
    tasks = gpus * 2;
  } else if (way < 97) {
    say("gpus", typed + number(gpus));
  } else if (way < 99) {
    const bool is_tres = chance.In(1, 4);
    say(is_tres ? "tres-per-task" : "gpus-per-task", (is_tres ? "gres/gpu:" : "") + typed + "1");
    gpus = tasks;
  } else {
    say("sockets-per-node", "2");
    say("gpus-per-socket", typed + number(each));
    gpus = nodes * each * 2;
  }
  const bool is_untyped_gres = options.back().value == "gpu";
  std::int64_t cpus = 0;
  if (chance.In(83, 100)) {
    const std::int64_t per_task = chance.One<std::int64_t>({1, 4, 6, 8, 10, 12, 16, 24, 32});
    say("cpus-per-task", number(per_task));
    cpus = tasks * per_task;
  } else if (chance.In(1, 10)) {
    say("cpus-per-gpu", "8");
    cpus = gpus * 8;
  }
  std::int64_t memory = 0;
  const std::size_t kind = (header * 53) % 100;
  if (kind < 46) {
    const auto [text, mib] = chance.One<std::pair<std::string, std::int64_t>>({{"0", 0},
                                                                               {"32G", 32768},
                                                                               {"64G", 65536},
                                                                               {"128GB", 131072},
                                                                               {"480G", 491520},
                                                                               {"16000", 16000},
                                                                               {"1T", 1 << 20},
                                                                               {"800M", 800}});
    say("mem", text);
    memory = mib * nodes;
  } else if (kind < 49) {
    say("mem-per-cpu", "2G");
    memory = std::max(cpus, tasks) * 2048;
  } else if (kind < 50) {
    say("mem-per-gpu", "40G");
    memory = gpus * 40960;
  }
  facts.emplace("nodes", number(nodes));
  facts.emplace("tasks", number(tasks));
  facts.emplace("gpus", number(gpus));
  facts.emplace("cpus", number(cpus));
  facts.emplace("memory_mib", number(memory));
  const bool has_type = !type.empty() && !is_untyped_gres && std::ranges::any_of(options, [&](const Said& one) {
    return one.value.find(type) != std::string::npos;
  });
  facts.emplace("own_type", has_type ? type : "");
}

struct Header {
  std::vector<Said> options;
  Facts facts;
  std::string text;
};

/// Exactly group.headers of all headers get one of its choices. The draw is reproducible.
inline void Spread(const Group& group, Chance& chance, std::vector<Header>& headers) {
  std::vector<std::size_t> order(headers.size());
  for (std::size_t i = 0; i < order.size(); ++i) order[i] = i;
  for (std::size_t i = order.size(); i > 1; --i) std::swap(order[i - 1], order[chance.Below(i)]);
  std::vector<const Choice*> weighted;
  for (const Choice& choice : group.choices)
    weighted.insert(weighted.end(), static_cast<std::size_t>(choice.weight), &choice);
  for (std::size_t i = 0; i < group.headers; ++i) {
    Header& header = headers[order[i]];
    // First use each choice once, so that the rarest is included.
    const Choice& choice = i < group.choices.size() ? group.choices[i] : *weighted[chance.Below(weighted.size())];
    header.options.insert(header.options.end(), choice.options.begin(), choice.options.end());
    header.facts.insert(choice.facts.begin(), choice.facts.end());
  }
}

/// A way to write an option, with its observed frequency.
class Writer {
 public:
  explicit Writer(Chance& chance) : chance_(chance) {}

  std::string Line(const Said& said) {
    const std::string word = Word(said);
    return "#SBATCH " + word + Comment();
  }
  std::string Word(const Said& said) {
    const std::string plain = Plain(said.value);
    if (!said.has_value) {
      const char letter = LetterOf(said.name);
      if (letter != 0 && chance_.In(1, 4)) return Count("letter"), std::string("-") + letter;
      return Count("flag"), "--" + said.name;
    }
    const std::string abbreviation = AbbreviationOf(said.name);
    if (!abbreviation.empty() && chance_.In(1, 40)) return Count("abbreviated"), "--" + abbreviation + "=" + plain;
    const char letter = LetterOf(said.name);
    // Well-known letters are used in more than one of twelve cases, because most options have no letter.
    if (letter != 0 && chance_.In(1, 5)) {
      if (chance_.In(1, 40)) return Count("glued"), std::string("-") + letter + plain;
      return Count("letter"), std::string("-") + letter + " " + plain;
    }
    if (said.value.empty() || TakesOnlyEquals(said.name)) return Count("equals"), "--" + said.name + "=" + plain;
    if (chance_.In(1, 32)) return Count("space"), "--" + said.name + " " + plain;
    Count("equals");
    return "--" + said.name + "=" + plain;
  }
  std::string SwitchedOff(const Said& said) {
    Count("switched off");
    return (chance_.In(1, 2) ? "##SBATCH --" : "# SBATCH --") + said.name + "=" + said.value;
  }
  void Count(const std::string& form) { ++counts_[form]; }
  const std::map<std::string, int>& counts() const { return counts_; }

 private:
  std::string Plain(const std::string& value) {
    if (value.find('$') != std::string::npos) Count("shell variable");
    if (value.find_first_of(" &|<>()*") != std::string::npos || chance_.In(1, 200)) {
      Count("quoted");
      const char quote = chance_.In(1, 2) ? '"' : '\'';
      return quote + value + quote;
    }
    return value;
  }
  std::string Comment() {
    if (!chance_.In(1, 4)) return "";
    Count("comment");
    return chance_.One<std::string>(
        {" # per node", "   # change me", "\t# --gpus=99", " #SBATCH --time=1", " # it's \"quoted"});
  }
  char LetterOf(const std::string& name) const {
    const auto found = std::ranges::find(table_, std::string_view(name), &Option::name);
    return found == table_.end() ? '\0' : found->letter;
  }
  bool TakesOnlyEquals(const std::string& name) const {
    const auto found = std::ranges::find(table_, std::string_view(name), &Option::name);
    return found != table_.end() && found->takes == Takes::kOptionalValue;
  }
  static std::string AbbreviationOf(const std::string& name) {
    static const std::map<std::string, std::string> kShort = {{"output", "out"},
                                                              {"error", "err"},
                                                              {"partition", "part"},
                                                              {"account", "acc"},
                                                              {"job-name", "job"},
                                                              {"constraint", "const"},
                                                              {"cpus-per-task", "cpus-per-t"},
                                                              {"ntasks-per-node", "ntasks-per-n"},
                                                              {"reservation", "reserv"},
                                                              {"mail-type", "mail-t"},
                                                              {"gpus-per-node", "gpus-per-n"}};
    const auto found = kShort.find(name);
    return found == kShort.end() ? "" : found->second;
  }

  Chance& chance_;
  std::map<std::string, int> counts_;
  JobSpec scratch_;
  ParseContext nowhere_;
  std::vector<Option> table_ = SbatchOptions(scratch_, nowhere_);
};

/// A type in --gres and a model in --constraint must both be satisfied.
inline void JoinTypes(Facts& facts) {
  const std::string own = facts.find("own_type")->second;
  facts.erase("own_type");
  const auto wanted = facts.find("type");
  const std::string condition = wanted == facts.end() ? "" : wanted->second;
  facts.erase("type");
  std::string both = condition.empty() ? own : condition;
  if (!condition.empty() && !own.empty()) {
    both.clear();
    for (const std::string_view one : Split(condition, '|')) {
      both += (both.empty() ? "" : "|") + (one == own ? own : own + "&" + std::string(one));
    }
  }
  facts.emplace("type", both);
}

inline void Write(Header& header, Chance& chance, Writer& writer) {
  std::string text = chance.In(1, 5) ? "#!/bin/sh\n" : "#!/bin/bash -l\n";
  for (std::size_t i = header.options.size(); i > 1; --i)
    std::swap(header.options[i - 1], header.options[chance.Below(i)]);
  for (std::size_t i = 0; i < header.options.size(); ++i) {
    if (chance.In(1, 150)) text += writer.SwitchedOff({"time", "99"}) + "\n";
    if (chance.In(1, 12)) text += chance.One<std::string>({"\n", "# what it needs\n", "#\n"});
    if (i + 1 < header.options.size() && chance.In(1, 300)) {
      writer.Count("several on a line");
      text += "#SBATCH " + writer.Word(header.options[i]) + " " + writer.Word(header.options[i + 1]) + "\n";
      ++i;
      continue;
    }
    text += writer.Line(header.options[i]) + "\n";
  }
  header.text = text + "\nsrun python train.py\n";
}

struct Corpus {
  std::vector<Header> headers;
  std::map<std::string, int> forms;
};

inline Corpus MakeCorpus() {
  Chance chance;
  Corpus corpus;
  corpus.headers.resize(kHeaders);
  for (std::size_t i = 0; i < kHeaders; ++i) AddSize(chance, i, corpus.headers[i].options, corpus.headers[i].facts);
  for (const Group& group : ReadGroups()) Spread(group, chance, corpus.headers);
  Writer writer(chance);
  for (Header& header : corpus.headers) {
    JoinTypes(header.facts);
    Write(header, chance, writer);
  }
  corpus.forms = writer.counts();
  return corpus;
}

}  // namespace divvy::dialect::corpus
