// divvy called by the names of Slurm's commands. Each takes the words after its name and gives the exit code; each
// prints what Slurm's own prints, so that scripts which read it go on working. docs/slurm.md says where they differ.
#pragma once

#include <string>
#include <vector>

namespace divvy::cli {

int SbatchMain(const std::vector<std::string>& words);
int SrunMain(const std::vector<std::string>& words);
int SallocMain(const std::vector<std::string>& words);
int ScancelMain(const std::vector<std::string>& words);
int SqueueMain(const std::vector<std::string>& words);
int SinfoMain(const std::vector<std::string>& words);
int SacctMain(const std::vector<std::string>& words);
int ScontrolMain(const std::vector<std::string>& words);
int SacctmgrMain(const std::vector<std::string>& words);
int SshareMain(const std::vector<std::string>& words);
int SprioMain(const std::vector<std::string>& words);
int SdiagMain(const std::vector<std::string>& words);
int SattachMain(const std::vector<std::string>& words);

}  // namespace divvy::cli
