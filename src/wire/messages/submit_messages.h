// What the page's Submit asks beside POST /v1/jobs: a job that is to be submitted once more, what a script's lines say,
// and how the command line says the same. See messages.h for the conventions.
#pragma once

#include <string>
#include <vector>

#include "model/job.h"

namespace divvy::wire {

/// GET /v1/jobs/ID/again. Members that are as a specification has them unless it says otherwise are not there.
struct AgainView {
  JobSpec spec;                       // For POST /v1/jobs; of an element of an array that element alone.
  std::vector<std::string> left_out;  // What has no sense another time, with why.
};

/// POST /v1/words.
struct WordsQuestion {
  JobSpec spec;
};
/// An option of divvy submit.
struct WordView {
  std::string text;                  // "--topology nvlink:required", as a shell would have it.
  std::vector<std::string> members;  // "request/topology": without these of the specification it is gone.
  bool is_option = true;             // False: no option says it, and the text is for people.
  bool is_of_script = false;         // The script's own lines say the same.
};
struct WordsAnswer {
  std::vector<WordView> words;  // All but what is run.
  std::string line;             // "divvy submit ... -- ...", which is read as just this; empty: see `refusal`.
  std::string refusal;          // Why no command line says the same.
};

/// POST /v1/script.
struct ScriptQuestion {
  std::string text;
  std::string directory;  // Where it will run; empty: the caller's home.
};
struct ScriptAnswer {
  JobSpec spec;         // What its own lines ask for (#SBATCH, # GFLOW, # DIVVY), and the script; as in AgainView.
  std::string refusal;  // What is wrong with them: "script.sh line 3: ..."; then `spec` is empty.
};

}  // namespace divvy::wire
