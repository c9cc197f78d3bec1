// sprio: the priority of waiting jobs. Only a job's own --priority and --nice fit into Slurm's columns. divvy why
// explains divvy's queue order.
#include <algorithm>
#include <cstdio>

#include "base/text.h"
#include "cli/shims/slurm_look/slurm.h"
#include "cli/shims/slurm_look/slurm_common.h"
#include "cli/shims/slurm_look/slurm_fetch.h"
#include "cli/shims/slurm_look/slurm_format.h"
#include "cli/shims/slurm_look/slurm_json.h"
#include "cli/shims/slurm_look/slurm_places.h"
#include "dialect/slurm/slurm_environment.h"

namespace divvy::cli {
namespace {

using namespace slurm;
using dialect::Takes;

using PriorityField = Field<wire::JobView>;

struct SprioFlags {
  std::string letters;
  std::vector<std::string> jobs;
  std::vector<std::string> users;
  std::vector<std::string> partitions;
  AnswerForm form;
  bool has_no_header = false;
  bool is_long = false;
  bool shows_weights = false;
};

constexpr std::string_view kDefault = "%.15i %9r %.10Y %.10S %.10A %.10F %.10J";
constexpr std::string_view kLong = "%.15i %9r %.8u %.10Y %.10S %.10A %.10B %.10F %.10J %.10P %.10Q %.11N %.20T";

std::vector<PriorityField> Fields() {
  std::vector<PriorityField> fields = {
      {'i', "", "JOBID", [](const wire::JobView& job) { return JobIdText(job); }},
      {'u', "", "USER", [](const wire::JobView& job) { return job.user; }},
      {'o', "", "ACCOUNT", [](const wire::JobView& job) { return OrNull(job.account); }},
      {'n', "", "QOS", [](const wire::JobView& job) { return OrNull(job.qos); }},
      {'r', "", "PARTITION", [](const wire::JobView& job) { return Partition(job); }},
      {'c', "", "CLUSTER", [](const wire::JobView&) { return std::string(dialect::kSlurmCluster); }},
      {'Y', "", "PRIORITY", [](const wire::JobView& job) { return std::to_string(job.priority); }},
      {'S', "", "SITE", [](const wire::JobView& job) { return std::to_string(job.priority); }},
  };
  for (const auto& [letter, header] :
       {std::pair('A', "AGE"), std::pair('B', "ASSOC"), std::pair('F', "FAIRSHARE"), std::pair('J', "JOBSIZE"),
        std::pair('P', "PARTITION"), std::pair('Q', "QOS"), std::pair('N', "NICE"), std::pair('T', "TRES")})
    fields.push_back(
        {letter, "", header, [letter = letter](const wire::JobView&) { return letter == 'T' ? "" : "0"; }});
  for (const auto& [letter, header] :
       {std::pair('a', "AGE"), std::pair('b', "ASSOC"), std::pair('f', "FAIRSHARE"), std::pair('j', "JOBSIZE"),
        std::pair('p', "PARTITION"), std::pair('q', "QOS"), std::pair('y', "PRIORITY"), std::pair('t', "TRES")})
    fields.push_back({letter, "", header, [](const wire::JobView&) { return "0.0000000"; }});
  return fields;
}

std::vector<dialect::Option> SprioTable(SprioFlags& wish) {
  std::vector<dialect::Option> options = {
      List("jobs", 'j', "IDS", "These jobs only", wish.jobs),
      List("user", 'u', "NAMES", "Jobs of these users", wish.users),
      List("partition", 'p', "NAMES", "Jobs of these partitions", wish.partitions),
      Text("format", 'o', "FORMAT", "Columns by letter: \"%.15i %Y\"", wish.letters),
      Flag("noheader", 'h', "No header", wish.has_no_header),
      Flag("long", 'l', "More columns", wish.is_long),
      Flag("weights", 'w', "Show the weight of each factor", wish.shows_weights),
      Ignored("norm", 'n', Takes::kNothing),
      Ignored("verbose", 'v', Takes::kNothing),
      Ignored("clusters", 'M', Takes::kValue),
      Ignored("sort", 'S', Takes::kValue),
  };
  AddAnswerForms(options, wish.form);
  return options;
}

/// Columns with the same header become one field, with the value of the first.
std::vector<Record> RecordsOf(const std::vector<wire::JobView>& jobs, const std::vector<PriorityField>& fields) {
  std::vector<Record> records;
  for (const wire::JobView& job : jobs) {
    Record& record = records.emplace_back();
    for (const PriorityField& field : fields) record.emplace(ToLower(field.header), field.text(job));
    record["job_id"] = ToString(job.id);
  }
  return records;
}

Result<std::vector<wire::JobView>> Rows(Api& api, const SprioFlags& wish) {
  wire::JobSelector select;
  select.user = wish.users.size() == 1 ? wish.users.front() : "all";
  select.states = {"queued", "held"};
  select.pools = PoolsOf(wish.partitions);
  for (const std::string& list : wish.jobs) {
    DIVVY_TRY(const std::vector<std::string> ids, SplitJobIds(list));
    select.ids.insert(select.ids.end(), ids.begin(), ids.end());
  }
  DIVVY_TRY(std::vector<wire::JobView> jobs, FetchJobs(api, select));
  std::erase_if(jobs, [&](const wire::JobView& job) {
    return !IsPending(job) || (!wish.users.empty() && std::ranges::find(wish.users, job.user) == wish.users.end());
  });
  SortLikeSqueue(jobs);
  return jobs;
}

}  // namespace

int SprioMain(const std::vector<std::string>& words) {
  SprioFlags wish;
  const std::vector<dialect::Option> options = SprioTable(wish);
  if (Greets("sprio", "[OPTIONS]", options, words)) return 0;
  const auto parsed = dialect::ParseOptions(options, words);
  NameUsers(wish.users);
  if (!parsed) return FailAs("sprio", parsed.error().message);
  if (!parsed->positional.empty()) return FailAs("sprio", "unexpected word '" + parsed->positional.front() + "'");
  const std::vector<PriorityField> fields = Fields();
  const std::string_view letters = !wish.letters.empty() ? std::string_view(wish.letters)
                                   : wish.is_long        ? kLong
                                                         : kDefault;
  const auto columns = ParseLetters(letters, fields, "job");
  if (!columns) return FailAs("sprio", columns.error().message);
  if (wish.form.lists_parsers) return PrintParsers();
  std::string text = wish.has_no_header || wish.form.any() ? "" : HeaderLine(*columns);
  if (!wish.shows_weights) {
    auto api = Api::Connect();
    if (!api) return FailAs("sprio", api.error());
    const auto jobs = Rows(*api, wish);
    if (!jobs && jobs.error().code != ErrorCode::kNotFound) return FailAs("sprio", jobs.error());
    if (jobs && wish.form.any()) {
      text = RecordsJson("sprio", "jobs", RecordsOf(*jobs, fields));
    } else if (jobs) {
      for (const wire::JobView& job : *jobs) text += RowLine(*columns, job);
    }
    if (jobs && jobs->empty() && !wish.jobs.empty())
      std::fprintf(stderr, "Unable to find jobs matching user/id(s) specified\n");
  }
  PrintAnswer(text, wish.form);
  return 0;
}

}  // namespace divvy::cli
