// 675 generated headers of GPU scripts. Options and their forms occur in about the proportions of public scripts. Every
// header must be accepted with the meaning that Slurm's manual gives. tests/data/slurm_headers has the options
// (options.txt), and whole headers with handwritten meanings (whole.txt). Nodes, tasks and GPUs depend on each other,
// so they are drawn here. Their meaning follows the manual's rules, not the parser's code.
#include <gtest/gtest.h>

#include <algorithm>
#include <set>

#include "base/text.h"
#include "dialect/options/quantities.h"
#include "dialect/options/slurm_request.h"
#include "dialect/options/test_surroundings.h"
#include "dialect/slurm/slurm.h"
#include "dialect/slurm/slurm_corpus_test_headers.h"

namespace divvy::dialect {
namespace slurm_corpus_test {

using namespace corpus;

/// The parsed value of a fact.
std::string ValueOf(const JobSpec& spec, const std::string& name) {
  const Request& request = spec.request;
  if (name == "components") return std::to_string(request.components());
  // A name such as "1.gpus" is a fact about one component of a heterogeneous job.
  if (name.size() > 2 && name[1] == '.') {
    const auto number = static_cast<std::size_t>(name[0] - '0');
    JobSpec component = spec;
    component.request = ComponentOf(request, number);
    if (number > 0) component.labels = request.others[number - 1].labels;
    if (number > 0) component.pool = request.others[number - 1].pool;
    return ValueOf(component, name.substr(2));
  }
  if (name == "nodes") {
    const std::int64_t least = request.nodes;
    const auto written = slurm::ParseNodes(slurm::Value(spec, "nodes").value_or("1"));
    const bool is_range = written && written->most > least && written->most != written->least;
    return std::to_string(least) + (is_range ? "-" + std::to_string(written->most) : "");
  }
  if (name == "tasks") return std::to_string(request.tasks);
  // Without a component number, a fact describes the whole job.
  if (name == "gpus") return std::to_string(request.gpus_in_all());
  if (name == "cpus") return std::to_string(request.cpus * request.nodes);
  if (name == "memory_mib") return std::to_string(request.memory.count() * request.nodes >> 20);
  if (name == "type") return request.gpu_type;
  if (name == "gpu_gb") return std::to_string(request.gpu_memory.count() / 1'000'000'000);
  if (name == "name") return spec.name;
  if (name == "output") return spec.output;
  if (name == "error") return spec.error;
  if (name == "input") return spec.input;
  if (name == "time") return std::to_string(spec.time_limit / 1min);
  if (name == "partition") return spec.pool;
  if (name == "account") return spec.account;
  if (name == "comment") return spec.comment;
  if (name == "dir") return spec.directory;
  if (name == "array") return spec.array ? spec.array->indices.ToString() : "";
  if (name == "at_once") return spec.array ? std::to_string(spec.array->at_once) : "";
  if (name == "any") return spec.needs_any_dependency ? "1" : "0";
  if (name == "keeps") return spec.keeps_waiting ? "1" : "0";
  if (name == "signal") return std::to_string(spec.warn.signal);
  if (name == "before") return std::to_string(spec.warn.before / 1s);
  if (name == "batch") return spec.warn.batch_only ? "1" : "0";
  if (name == "requeue") return spec.requeues_after_reboot ? "1" : "0";
  if (name == "append") return spec.appends_output ? "1" : "0";
  if (name == "held") return spec.is_held ? "1" : "0";
  if (name == "priority") return std::to_string(spec.priority);
  if (name == "begin") return std::to_string((spec.begin - kTestNow) / 1s);
  if (name == "end_by") return std::to_string((spec.end_by - kTestNow) / 1s);
  if (name == "env") return Join(spec.extra_environment, ",");
  if (name == "dep") {
    std::vector<std::string> list;
    for (const Dependency& dependency : spec.dependencies) list.push_back(FormatDependency(dependency));
    return Join(list, ",");
  }
  const std::string label = name.starts_with("label.") ? name.substr(6) : name;
  if (label == "export") {
    const auto found = spec.labels.find("divvy.export");
    return found == spec.labels.end() ? "(none)" : found->second;
  }
  return slurm::Value(spec, label).value_or("(none)");
}

/// The first fact that does not hold; "" if all do.
std::string Differs(const JobSpec& spec, const Facts& facts) {
  for (const auto& [name, wanted] : facts) {
    if (name == "note") {
      const auto says = [&](const std::string& note) { return note.find(wanted) != std::string::npos; };
      if (std::ranges::none_of(spec.notes, says)) return "no note says '" + wanted + "'";
    } else if (const std::string got = ValueOf(spec, name); got != wanted) {
      return name + " is '" + got + "', not '" + wanted + "'";
    }
  }
  return "";
}

Result<JobSpec> ReadHeader(const std::string& text) {
  const ParseContext around = TestParseContext();
  JobSpec spec;
  DIVVY_CHECK(ApplySlurmLines(text, "job.sh", around, spec));
  DIVVY_CHECK(FinishSlurm(spec));
  return spec;
}

TEST(SlurmCorpus, EveryHeaderIsReadAsSlurmDocuments) {
  const Corpus corpus = MakeCorpus();
  std::set<std::string> different;
  int refused = 0;
  int wrong = 0;
  for (const Header& header : corpus.headers) {
    different.insert(header.text);
    const auto spec = ReadHeader(header.text);
    if (!spec) {
      if (++refused <= 5) ADD_FAILURE() << spec.error().message << "\n" << header.text;
      continue;
    }
    const std::string difference = Differs(*spec, header.facts);
    if (!difference.empty() && ++wrong <= 5) ADD_FAILURE() << difference << "\n" << header.text;
  }
  EXPECT_EQ(refused, 0);
  EXPECT_EQ(wrong, 0);
  EXPECT_EQ(different.size(), kHeaders) << "each is a kind of its own";
}

TEST(SlurmCorpus, UsesEveryOptionSyntaxInARealisticProportion) {
  const Corpus corpus = MakeCorpus();
  int lines = 0;
  for (const Header& header : corpus.headers) lines += static_cast<int>(header.options.size());
  const auto& forms = corpus.forms;
  const auto share = [&](const std::string& form) {
    return forms.contains(form) ? 100.0 * forms.at(form) / lines : 0.0;
  };
  EXPECT_GT(share("equals"), 70);
  EXPECT_GT(share("comment"), 20);
  EXPECT_GT(share("letter"), 5);
  EXPECT_GT(share("space"), 1);
  for (const std::string form :
       {"quoted", "switched off", "several on a line", "glued", "shell variable", "abbreviated", "flag"}) {
    EXPECT_GE(forms.contains(form) ? forms.at(form) : 0, 10) << form;
  }
}

TEST(SlurmCorpus, ContainsEveryOptionOfSbatch) {
  std::set<std::string> used;
  for (const Header& header : MakeCorpus().headers) {
    for (const Said& said : header.options) used.insert(said.name);
  }
  for (const std::string name : {"nodes",
                                 "job-name",
                                 "output",
                                 "time",
                                 "gres",
                                 "partition",
                                 "cpus-per-task",
                                 "ntasks-per-node",
                                 "tasks-per-node",
                                 "ntasks",
                                 "exclusive",
                                 "error",
                                 "mem",
                                 "gpus-per-node",
                                 "account",
                                 "gpus",
                                 "constraint",
                                 "hint",
                                 "qos",
                                 "mail-user",
                                 "gpus-per-task",
                                 "mail-type",
                                 "mem-per-cpu",
                                 "requeue",
                                 "no-requeue",
                                 "reservation",
                                 "array",
                                 "wait-all-nodes",
                                 "export",
                                 "nodelist",
                                 "dependency",
                                 "exclude",
                                 "ntasks-per-core",
                                 "gpu-bind",
                                 "cpus-per-gpu",
                                 "distribution",
                                 "signal",
                                 "chdir",
                                 "open-mode",
                                 "mem-per-gpu",
                                 "comment",
                                 "ntasks-per-gpu",
                                 "ntasks-per-socket",
                                 "switches",
                                 "segment",
                                 "time-min",
                                 "get-user-env",
                                 "begin",
                                 "licenses",
                                 "threads-per-core",
                                 "nice",
                                 "container-image",
                                 "container-mounts",
                                 "uenv",
                                 "view",
                                 "bb",
                                 "power-cap",
                                 "disable-dcgm",
                                 "disable-perfparanoid",
                                 "gpus-per-socket",
                                 "tres-per-task"}) {
    EXPECT_TRUE(used.contains(name)) << name;
  }
}

TEST(SlurmCorpus, WholeHeadersMatchTheirExpectation) {
  int seen = 0;
  for (const std::string& line : FileLines("whole.txt")) {
    const std::vector<std::string_view> fields = Split(line, '\t');
    ASSERT_EQ(fields.size(), 2u) << line;
    ++seen;
    std::string header(fields[0]);
    for (auto at = header.find(" : "); at != std::string::npos; at = header.find(" : "))
      header.replace(at, 3, "\n#SBATCH hetjob\n#SBATCH ");
    const auto spec = ReadHeader("#!/bin/sh\n#SBATCH " + header + "\nsrun x\n");
    if (!spec) {
      ADD_FAILURE() << line << ": " << spec.error().message;
      continue;
    }
    EXPECT_EQ(Differs(*spec, ReadFacts(fields[1])), "") << line;
  }
  EXPECT_GE(seen, 60);
}

}  // namespace slurm_corpus_test
}  // namespace divvy::dialect
