// Asks the pure libraries random questions and writes their answers, bit by bit (doubles in hexadecimal), to the file
// named by DIVVY_DUMP. scripts/determinism compares the files of two compilers. Each random draw is a statement of its
// own or in braces, because a compiler may evaluate the arguments of a call in any order.
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <concepts>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <string>
#include <utility>
#include <vector>

#include "engine/core/state/test_world.h"
#include "engine/gpu_sets.h"
#include "engine/shares.h"
#include "research/gavel.h"
#include "research/rates/fair_rounds.h"
#include "research/rates/fair_tree.h"
#include "research/rates/max_min.h"
#include "research/rates/price_game.h"
#include "research/rates/seats.h"
#include "research/rates/slack.h"
#include "research/shockwave.h"
#include "simulate/experiment.h"
#include "simulate/fill.h"
#include "simulate/report.h"
#include "simulate/traces/trace_formats.h"

namespace divvy {
namespace {

using core::Draws;

class Answers : public testing::Test {
 protected:
  void TearDown() override {
    EXPECT_GT(text_.size(), 1000u);
    if (const char* file = std::getenv("DIVVY_DUMP")) std::ofstream(file, std::ios::app) << text_;
  }

  void Tell(const std::string& text) { text_ += text + "\n"; }
  void Tell(double value) {
    std::array<char, 32> text{};
    std::snprintf(text.data(), text.size(), "%a", value);
    Tell(std::string(text.data()));
  }
  template <std::integral T>
  void Tell(T value) {
    Tell(std::to_string(value));
  }
  template <typename T>
  void Tell(const std::vector<T>& values) {
    for (const T& value : values) Tell(value);
  }
  void Title(const std::string& what, std::uint64_t number) { Tell(what + " " + std::to_string(number)); }

 private:
  std::string text_;
};

std::size_t Index(Draws& draws, std::size_t size) { return draws.Next() % size; }
/// A number that has no short binary representation.
double Odd(Draws& draws, int below) { return (1 + draws.Below(below * 1000)) / 997.0; }

// --- Sets of GPUs ---------------------------------------------------------------------------------------------------

std::vector<GpuFacts> RandomNode(Draws& draws) {
  constexpr std::array kLinks = {"NV18", "NV12", "NV4", "PIX", "PXB", "PHB", "NODE", "SYS"};
  const auto count = static_cast<std::size_t>(2 + draws.Below(draws.Below(8) == 0 ? 15 : 7));
  const std::size_t kinds = 1 + Index(draws, kLinks.size());
  std::vector<GpuFacts> gpus(count);
  for (std::size_t a = 0; a < count; ++a) {
    gpus[a].index = static_cast<GpuIndex>(a);
    gpus[a].numa_node = draws.Below(2);
    gpus[a].links.assign(count, "X");
    for (std::size_t b = 0; b < a; ++b) gpus[a].links[b] = gpus[b].links[a] = kLinks[Index(draws, kinds)];
  }
  return gpus;
}

TEST_F(Answers, GpuSets) {
  for (std::uint64_t seed = 0; seed < 300; ++seed) {
    Draws draws(seed);
    Title("seed", seed);
    const GpuTopology node(RandomNode(draws));
    for (int i = 0; i < 20; ++i) {
      const GpuSet idle = GpuSet::FromBits(draws.Next()) & GpuSet::FirstN(node.size());
      const int count = 1 + draws.Below(node.size());
      SizeDemand demand = UsualSizeDemand();
      for (std::size_t size = 1; size < 9; ++size) demand[size] = static_cast<std::uint32_t>(draws.Below(100));
      const auto set = node.Pick(idle, count, demand, static_cast<TopologyNeed>(draws.Below(3)));
      Tell(set ? set->bits() : 0);
      Tell(set ? node.ValueOf(idle - *set, demand) : 0);
    }
  }
}

// --- Shares ---------------------------------------------------------------------------------------------------------

Claim RandomClaim(Draws& draws) {
  Claim claim;
  claim.demand = draws.Below(30'000);
  claim.quota = draws.Below(5) == 0 ? kNoBound : draws.Below(10'000);
  if (draws.Below(3) == 0) claim.limit = draws.Below(20'000);
  claim.weight = static_cast<std::uint64_t>(draws.Below(5));
  claim.priority = draws.Below(3);
  return claim;
}

rates::ShareNode RandomTree(Draws& draws, int depth) {
  rates::ShareNode node;
  node.name = std::to_string(draws.Below(1000));
  node.shares = static_cast<std::uint64_t>(1 + draws.Below(7));
  node.is_user = depth == 0 || (depth < 3 && draws.Below(3) == 0);
  if (node.is_user) node.usage = draws.Below(4) == 0 ? 0 : Odd(draws, 1000);
  for (int i = node.is_user ? 0 : 1 + draws.Below(4); i > 0; --i) node.children.push_back(RandomTree(draws, depth - 1));
  return node;
}

TEST_F(Answers, Shares) {
  for (std::uint64_t seed = 0; seed < 500; ++seed) {
    Draws draws(seed);
    Title("seed", seed);
    std::vector<Claim> claims;
    for (int i = 1 + draws.Below(8); i > 0; --i) claims.push_back(RandomClaim(draws));
    Tell(Divide(draws.Below(60'000), claims, 1000));
    DecayedUsage usage(std::chrono::hours(1 + draws.Below(300)));
    for (int at = 0; at < 2'000'000; at += 1 + draws.Below(300'000)) {
      usage.Add(Odd(draws, 5000), core::At(at));
      Tell(usage.At(core::At(at + 777)));
    }
    for (const rates::ShareRank& rank : rates::FairTree(RandomTree(draws, 3))) {
      Tell(rank.account + "/" + rank.user);
      Tell(rank.factor);
      Tell(rank.level);
    }
    std::vector<double> used, total;
    for (int i = 0; i < 4; ++i) {
      used.push_back(Odd(draws, 50));
      total.push_back(Odd(draws, 100));
    }
    Tell(rates::DominantShare(used, total));
  }
}

// --- Rates ----------------------------------------------------------------------------------------------------------

TEST_F(Answers, MaxMinShares) {
  for (std::uint64_t seed = 0; seed < 400; ++seed) {
    Draws draws(seed);
    Title("seed", seed);
    std::vector<double> gpus(static_cast<std::size_t>(1 + draws.Below(4)));
    for (double& count : gpus) count = draws.Below(40);
    std::vector<rates::RatedJob> jobs(static_cast<std::size_t>(1 + draws.Below(seed % 10 == 0 ? 200 : 20)));
    for (rates::RatedJob& job : jobs) {
      for (std::size_t type = 0; type < gpus.size(); ++type)
        job.rates.push_back(draws.Below(6) == 0 ? 0.0 : Odd(draws, 10));
      job.gpus = 1 << draws.Below(4);
      job.weight = Odd(draws, 3);
    }
    const rates::Shares shares = rates::MaxMinShares(jobs, gpus);
    Tell(shares.level);
    Tell(shares.time);
    rates::FairRounds rounds(std::vector<int>(gpus.begin(), gpus.end()), 180);
    for (std::size_t job = 0; job < jobs.size(); ++job) rounds.Join(job, jobs[job].gpus);
    std::vector<std::size_t> types;
    for (std::size_t type = 0; type < gpus.size(); ++type) types.push_back(type);
    for (int round = 0; round < 10; ++round) {
      Title("round", static_cast<std::uint64_t>(round));
      if (round % 4 == 0) rounds.Settle(1440.7, shares.time);
      for (const rates::FairRounds::Place& place : rounds.Pick(types)) {
        Tell(place.job);
        Tell(place.type);
        rounds.Ran(place.job, place.type, 360.1 + draws.Below(9));
      }
    }
  }
}

TEST_F(Answers, PriceGames) {
  for (std::uint64_t seed = 0; seed < 400; ++seed) {
    Draws draws(seed);
    Title("seed", seed);
    const auto rows = static_cast<std::size_t>(1 + draws.Below(5));
    std::vector<std::vector<double>> columns(static_cast<std::size_t>(1 + draws.Below(30)));
    for (std::vector<double>& column : columns) {
      for (std::size_t row = 0; row < rows; ++row) column.push_back(draws.Below(4) == 0 ? 0 : Odd(draws, 3));
    }
    const rates::GameResult game = rates::SolvePriceGame(columns, rows);
    Tell(game.value);
    Tell(game.mix);
    Tell(game.price);
  }
}

TEST_F(Answers, SeatsAndSlack) {
  for (std::uint64_t seed = 0; seed < 300; ++seed) {
    Draws draws(seed);
    Title("seed", seed);
    rates::Speeds speeds(4, 3);
    for (std::size_t kind = 0; kind < 4; ++kind) {
      for (std::size_t type = 0; type < 3; ++type) {
        speeds.SetAlone(kind, type, Odd(draws, 1));
        for (std::size_t other = 0; other <= kind; ++other) {
          const std::pair<double, double> both{Odd(draws, 1), Odd(draws, 1)};
          if (draws.Below(4) != 0) speeds.SetLocality(kind, other, type, both);
        }
      }
    }
    const std::vector<int> gpus{1 + draws.Below(12), 1 + draws.Below(12), draws.Below(12)};
    std::vector<rates::SeatJob> jobs(static_cast<std::size_t>(1 + draws.Below(40)));
    std::vector<rates::NodeAllocation> seats;
    std::vector<double> got(jobs.size());
    for (rates::SeatJob& job : jobs) {
      job.kind = Index(draws, 4);
      job.gpus = 1 << draws.Below(3);
    }
    for (int round = 1; round < 12; ++round) {
      Title("round", static_cast<std::uint64_t>(round));
      for (std::size_t job = 0; job < jobs.size(); ++job) {
        jobs[job].weight = rates::ProgressWeight(360.3 * round, got[job], 720);
        Tell(jobs[job].weight);
      }
      seats = rates::BestSeats(jobs, speeds, gpus, seats, {.together = seed % 2 == 0});
      for (const rates::NodeAllocation& seat : seats) {
        Tell(seat.type);
        Tell(seat.first);
        Tell(seat.second);
        got[seat.first] += 360.3 * speeds.Alone(jobs[seat.first].kind, seat.type);
      }
    }
    std::vector<rates::SlackJob> slack;
    for (int i = 1 + draws.Below(40); i > 0; --i)
      slack.push_back({Odd(draws, 900), Odd(draws, 900), Odd(draws, 9000), Odd(draws, 30), 1 << draws.Below(4),
                       draws.Below(2) == 0});
    Tell(rates::PickByLeastSlack(slack, 900.7, 32, {}));
  }
}

// --- The simulator --------------------------------------------------------------------------------------------------

placement::Shape RandomShape(Draws& draws) {
  placement::Shape shape;
  shape.cpu_milli = 500 * draws.Below(40);
  shape.memory_mib = 1024 * draws.Below(60);
  const int kind = draws.Below(10);
  if (kind == 0) return shape;
  shape.gpus = static_cast<std::int16_t>(kind < 7 ? 1 : 1 << draws.Below(4));
  shape.parts = static_cast<std::int16_t>(kind < 5 ? 50 * (1 + draws.Below(19)) : placement::kGpuParts);
  if (draws.Below(4) == 0) shape.models = static_cast<placement::ModelSet>(1 + draws.Below(7));
  return shape;
}

TEST_F(Answers, Fills) {
  Draws draws(1);
  simulate::OpenbNodes cluster;
  cluster.models = {"a", "b", "c"};
  for (int i = 0; i < 40; ++i) {
    const int gpus = 1 << draws.Below(4);
    const int cpu_milli = 16'000 * (1 + draws.Below(6));
    cluster.nodes.push_back(placement::MakeNode(cpu_milli, 8 * cpu_milli, gpus, draws.Below(3)));
  }
  std::vector<simulate::OpenbJob> jobs;
  for (int i = 0; i < 300; ++i) jobs.push_back({"job-" + std::to_string(i), RandomShape(draws)});
  for (const std::string_view policy : simulate::FillPolicies()) {
    for (const int moves : {0, 2}) {
      simulate::FillOptions options;
      options.policy = policy;
      options.seeds = {1, 2, 3};
      options.moves_per_job = moves;
      const auto filled = simulate::RunFill(cluster, jobs, options);
      ASSERT_TRUE(filled) << filled.error().message;
      for (const simulate::FillRun& run : filled->runs) {
        Title(options.policy, run.seed);
        for (const std::int64_t count : {run.arrived, run.refused, run.moves, run.saved}) Tell(count);
        Tell(run.allocation_percent);
      }
      Tell(filled->DeviationAt(100));
    }
  }
}

std::string WriteFile(const std::string& name, const std::string& text) {
  std::string path = testing::TempDir() + "divvy-determinism-" + name;
  std::ofstream(path) << text;
  return path;
}

std::string Clock(int minutes) {
  std::array<char, 48> text{};
  std::snprintf(text.data(), text.size(), "2020-09-%02d %02d:%02d:00", 1 + minutes / 1440, minutes / 60 % 24,
                minutes % 60);
  return text.data();
}

/// A trace in the format of Helios, with users who submit similar jobs again and again.
std::string HeliosTrace(int jobs) {
  Draws draws(7);
  std::string text = "job_id,user,vc,jobname,gpu_num,state,submit_time,duration\n";
  for (int job = 0, minutes = 0; job < jobs; ++job) {
    minutes += draws.Below(25);
    const int user = draws.Below(12);
    const int name = draws.Below(4);
    const int gpus = draws.Below(9) == 0 ? 16 : 1 << draws.Below(4);
    const int seconds = (1 + user * name) * (60 + draws.Below(600));
    text += std::to_string(job) + ",u" + std::to_string(user) + ",vc" + std::to_string(user % 3) + ",train" +
            std::to_string(name) + "," + std::to_string(gpus) + ",COMPLETED," + Clock(minutes) + "," +
            std::to_string(seconds) + "\n";
  }
  return text;
}

std::string PhillyTrace(int jobs) {
  Draws draws(8);
  std::string text = "timestamp,duration,num_gpus,gpu_time,cluster\n";
  for (int job = 0, minutes = 0; job < jobs; ++job) {
    minutes += draws.Below(25);
    const int gpus = 1 << draws.Below(5);
    const int seconds = 10 << draws.Below(11);
    text += Clock(minutes) + "," + std::to_string(seconds) + "," + std::to_string(gpus) + "," +
            std::to_string(seconds * gpus) + ",c" + std::to_string(draws.Below(3)) + "\n";
  }
  return text;
}

std::string ReplayJson(const std::string& format, const std::string& path) {
  auto workload = simulate::ReadWorkload(format, {path});
  if (!workload) return workload.error().message;
  std::vector<simulate::PlannedRun> plan;
  for (const std::string policy :
       {"small-first", "fifo", "fair", "shortest", "shortest:true", "fifo-strict", "sjf-skip"}) {
    const auto choice = simulate::ParsePolicy(policy, {});
    if (!choice) return choice.error().message;
    plan.push_back({policy, *choice, {{{.count = 5, .gpus = 8}}}, &*workload});
  }
  auto runs = simulate::RunAll(plan, 2, {});
  if (!runs) return runs.error().message;
  simulate::Report report{format, workload->notes, std::move(*runs)};
  for (simulate::PolicyRun& run : report.runs)
    run.replayed.decide_cpu_seconds = 0;  // The only measured value; it differs between runs.
  std::string json = simulate::ReportJson(report);
  std::ranges::replace(json, ',', '\n');  // One figure per line.
  return json + simulate::GridCsv(simulate::JobGrid(report));
}

TEST_F(Answers, Replays) {
  for (const auto& [format, text] : {std::pair("helios", HeliosTrace(600)), std::pair("philly", PhillyTrace(600))}) {
    const std::string path = WriteFile(std::string(format) + ".csv", text);
    Tell(ReplayJson(format, path));
    std::remove(path.c_str());
  }
}

/// Steps per second of every model that is drawn, alone and with another model, for each number of GPUs that jobs use.
research::GavelThroughputs Throughputs() {
  Draws draws(9);
  std::vector<std::string> models;
  const std::vector<std::pair<std::string, std::vector<int>>> families = {
      {"ResNet-18", {16, 32, 64, 128, 256}},
      {"ResNet-50", {16, 32, 64, 128}},
      {"Transformer", {16, 32, 64, 128, 256}},
      {"LM", {5, 10, 20, 40, 80}},
      {"Recommendation", {512, 1024, 2048, 4096, 8192}}};
  for (const auto& [family, batches] : families)
    for (const int batch : batches) models.push_back(family + " (batch size " + std::to_string(batch) + ")");
  models.insert(models.end(), {"A3C", "CycleGAN"});
  std::string text;
  for (const std::string worker : {"v100", "p100", "k80"}) {
    text += (text.empty() ? "{\"" : "},\"") + worker + "\": {";
    bool is_first = true;
    for (const std::string& model : models) {
      for (const int gpus : {1, 2, 4, 8}) {
        const std::string suffix = "', " + std::to_string(gpus) + ")\": ";
        const double rate = Odd(draws, 40) * gpus;
        text += (is_first ? "\"('" : ",\"('") + model + suffix + "{\"null\": " + std::to_string(rate);
        is_first = false;
        for (const std::string& other : models) {
          const double mine = rate * (0.4 + draws.Below(60) / 100.0);
          const double theirs = Odd(draws, 20);
          text += ", \"('" + other + suffix + "[" + std::to_string(mine) + ", " + std::to_string(theirs) + "]";
        }
        text += "}";
      }
    }
  }
  return *research::GavelThroughputs::Parse(text + "}}", "throughputs");
}

TEST_F(Answers, RoundsOfGavel) {
  const research::GavelThroughputs throughputs = Throughputs();
  for (const char* policy : {"agnostic", "max-min", "progress", "progress-packed"}) {
    research::GavelOptions options;
    options.policy = research::ParseGavelPolicy(policy).value();
    options.v100 = options.p100 = options.k80 = 8;
    options.jobs_per_hour = 0.5;
    options.measured_from = 20;
    options.measured_to = 120;
    options.multi_gpu = true;
    const auto result = research::RunGavel(options, throughputs);
    ASSERT_TRUE(result) << result.error().message;
    Tell(std::string(policy));
    Tell(result->jct_h);
    for (const double value : {result->mean_jct_h, result->p99_jct_h, result->busy, result->moves_per_round})
      Tell(value);
  }
}

TEST_F(Answers, RoundsOfShockwave) {
  Draws draws(10);
  std::vector<research::ShockwaveJob> jobs;
  double arrival_s = 0;
  for (int i = 0; i < 60; ++i) {
    arrival_s += Odd(draws, 200);
    const auto mode = static_cast<research::BatchMode>(draws.Below(3));
    const int gpus = 1 << draws.Below(3);
    jobs.push_back({"LM", 5 << draws.Below(5), gpus, mode, 20'000.0 + draws.Below(100'000), arrival_s});
  }
  const research::GavelThroughputs throughputs = Throughputs();
  for (const char* policy : {"max-min", "slack", "slack-profiled"}) {
    research::ShockwaveOptions options;
    options.policy = research::ParseShockwavePolicy(policy).value();
    options.gpus = 16;
    const auto result = research::RunShockwave(options, jobs, throughputs);
    ASSERT_TRUE(result) << result.error().message;
    Tell(std::string(policy));
    for (const auto& job : result->jobs) {
      Tell(job.jct_s);
      Tell(job.rho);
    }
    for (const double value : {result->makespan_s, result->mean_jct_s, result->busy}) Tell(value);
  }
}

}  // namespace
}  // namespace divvy
