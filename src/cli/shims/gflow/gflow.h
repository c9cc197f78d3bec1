// gflow's programs, implemented by divvy: the same flags, columns and answers, but with divvy's daemon. Features of
// gflow that divvy lacks are refused with an alternative, never ignored. docs/gflow.md lists them.
#pragma once

#include <string>
#include <vector>

namespace divvy::cli {

// Each takes the words after the program's name and returns the exit code.
int GbatchMain(const std::vector<std::string>& words);  // gflow_batch.cc
int GqueueMain(const std::vector<std::string>& words);  // gflow_listings.cc
int GinfoMain(const std::vector<std::string>& words);
int GcancelMain(const std::vector<std::string>& words);  // gflow_actions.cc
int GjobMain(const std::vector<std::string>& words);     // gflow_job.cc
int GctlMain(const std::vector<std::string>& words);     // gflow_control.cc
int GflowdMain(const std::vector<std::string>& words);

}  // namespace divvy::cli
