// gflow's programs, spoken by divvy: the same flags, columns and answers, over divvy's own daemon. What gflow has and
// one divvy server has not (yet) is refused with what to do instead, never ignored. docs/gflow.md is the list.
#pragma once

#include <string>
#include <vector>

namespace divvy::cli {

// The words after the program's name; the answer is the exit code.
int GbatchMain(const std::vector<std::string>& words);  // gflow_batch.cc
int GqueueMain(const std::vector<std::string>& words);  // gflow_listings.cc
int GinfoMain(const std::vector<std::string>& words);
int GcancelMain(const std::vector<std::string>& words);  // gflow_actions.cc
int GjobMain(const std::vector<std::string>& words);     // gflow_job.cc
int GctlMain(const std::vector<std::string>& words);     // gflow_control.cc
int GflowdMain(const std::vector<std::string>& words);

}  // namespace divvy::cli
