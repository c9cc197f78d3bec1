// Requests of the web submit form in addition to POST /v1/jobs: resubmits a job, reads the options in a script, and
// shows the equivalent command line. See messages.h for the conventions.
#pragma once

#include <string>
#include <vector>

#include "model/job.h"

namespace divvy::wire {

/// GET /v1/jobs/ID/again. Leaves out members that have their default value.
struct AgainView {
  JobSpec spec;                       // For POST /v1/jobs. For an array element: that element alone.
  std::vector<std::string> left_out;  // Settings that make no sense for another run, and why.
};

/// POST /v1/words.
struct WordsQuestion {
  JobSpec spec;
};
/// An option of divvy submit.
struct WordView {
  std::string text;                  // "--topology nvlink:required", as a shell would have it.
  std::vector<std::string> members;  // The spec members that this option sets: "request/topology".
  bool is_option = true;             // False: there is no such option, and the text is for people.
  bool is_of_script = false;         // The script's own option lines set the same.
};
struct WordsAnswer {
  std::vector<WordView> words;  // All options, without the command.
  std::string line;             // "divvy submit ... -- ...", which parses to exactly this spec. Empty: see `refusal`.
  std::string refusal;          // Why no command line can express the spec.
};

/// POST /v1/script.
struct ScriptQuestion {
  std::string text;
  std::string directory;  // The directory where it will run. Empty: the caller's home.
};
struct ScriptAnswer {
  JobSpec spec;         // The script, and the options of its own lines (#SBATCH, # GFLOW, # DIVVY). See
                        // AgainView::spec.
  std::string refusal;  // Why the lines are invalid: "script.sh line 3: ...". Then `spec` is empty.
};

}  // namespace divvy::wire
