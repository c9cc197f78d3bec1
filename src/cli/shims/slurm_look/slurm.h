// divvy called by the names of Slurm's commands. Each function takes the words after the name and returns the exit
// code. The output equals that of Slurm's commands, so that scripts keep working. docs/slurm.md lists the differences.
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
int SstatMain(const std::vector<std::string>& words);
int SattachMain(const std::vector<std::string>& words);

}  // namespace divvy::cli
