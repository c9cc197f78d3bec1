// Texts of the commands that show usage. registry.cc has their positions in --help.
#include "cli/client/commands.h"

namespace divvy::cli {

Command MetricsCommand() {
  return {
      "metrics",
      "Show how a job, a GPU, a machine or all of them were used, as curves",
      "divvy metrics ID... | --gpu N [--node NAME] | --node NAME | --cluster [OPTIONS]; divvy metrics --add "
      "NAME=NUMBER... [ID]",
      "Curves of what was sampled each second: use, memory, power and temperature of GPUs; CPU time, memory and disk "
      "traffic; and the numbers that a job prints as JSON objects, a line each ({\"step\": 10, \"loss\": 0.3} is "
      "own.step and own.loss) or adds. Of a job all of its run is known, also after its end; of the rest seconds for "
      "ten "
      "minutes, 10 s for a day, minutes for a month, quarters of an hour for two years.",
      {{"divvy metrics 17", "all of job 17; 20-25 or 17_0-3 is each of these"},
       {"divvy metrics 17 -m own.loss,gpu_utilization", "two curves of it"},
       {"divvy metrics 17 --processes", "its processes on GPUs, and what each uses"},
       {"divvy metrics --gpu 0 --since 2h -w", "GPU 0, as it goes on"},
       {"divvy metrics --cluster --since 7d --csv", "for a table"},
       {"divvy metrics --add loss=0.3 step=10", "in a job's script, whatever becomes of its output"}},
      "Jobs",
      MetricsOptions,
      "job",
      MetricsMain,
      false};
}

Command ReportCommand() {
  return {
      "report",
      "Say what this server's history shows",
      "divvy report usage|shares|waste|efficiency|fairness|predictions|speeds [OPTIONS]",
      "usage: GPU-hours, jobs and waiting by user, team, job name, GPU model, pool, machine or hour; of a job that "
      "was started several times all runs count, as one job. shares: who held how many GPUs over time, by the same but "
      "hours. waste: GPU-hours that were not used, by what usage has and by job (the worst first, ended ones among "
      "them), and who wastes GPUs now, with what to do about it. efficiency: mean use of GPUs and CPUs, and the peak "
      "of "
      "GPU memory, by the same. fairness: how long users (teams, job names, models, pools) waited for what they ran, "
      "or "
      "what started in each hour, and how even that and the GPU-hours are. predictions: the latest jobs that ended "
      "(10,000 at most), run through the prediction of run times in the order of their ends, as if each had been "
      "predicted from those before it; for all and by user, team, name, model, pool or hour. speeds: how fast jobs of "
      "one kind (user, name, command, GPUs) are on which GPU model, learned from the "
      "progress that they reported, else from how long those ran that ended well.",
      {{"divvy report usage --by team --since 30d", "who had the GPUs this month"},
       {"divvy report usage --by hour --since 7d --html >week.html", "a page with plots"},
       {"divvy report shares --by team --since 30d --html >month.html", "who held what, drawn over time"},
       {"divvy report waste --by user", "who left GPUs unused, and what to do about it"},
       {"divvy report waste --by job --since 30d", "the worst jobs of the month, ended ones too"},
       {"divvy report efficiency --by model", "how well GPUs and CPUs were used"},
       {"divvy report fairness", "who waited longest for what they ran"},
       {"divvy report predictions", "how good estimates are here"},
       {"divvy report speeds", "what is faster on which GPU"}},
      "Planning",
      ReportOptions,
      "",
      ReportMain,
      false};
}

Command NotifyCommand() {
  return {
      "notify",
      "Be told when jobs start, end, fail or waste their GPUs",
      "divvy notify [list] | add NAME --webhook URL | --command TEXT | --mail ADDRESS [--on EVENTS] | remove NAME... | "
      "test NAME",
      "Receivers of one's own hear of all of one's jobs that do not say otherwise (--notify). A webhook gets each "
      "event "
      "as JSON, signed; a command runs as you, with the event in its environment and as JSON on its standard input. "
      "What cannot be delivered is tried again for a day. list shows what was sent, what waits, and what went wrong; "
      "administrators see those of divvy.toml as well. test sends something now and says how that went.",
      {{"divvy notify add phone --webhook https://hooks.example.org/x --on end,waste", "prints the secret, once"},
       {"divvy notify add chat --command '~/bin/say \"$DIVVY_TEXT\"' --on fail", ""},
       {"divvy notify add me --mail ada@example.org --on end", ""},
       {"divvy notify test phone", "does it work?"},
       {"divvy submit --notify end -- ./train", "of this job alone, whatever they hear of otherwise"}},
      "Jobs",
      NotifyOptions,
      "",
      NotifyMain,
      false};
}

}  // namespace divvy::cli
