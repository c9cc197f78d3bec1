// Texts of the commands that show usage. registry.cc has their positions in --help.
#include "cli/client/commands.h"

namespace divvy::cli {

Command MetricsCommand() {
  return {"metrics",
          "Show metrics of a job, GPU, node or the cluster as curves",
          "divvy metrics ID... | --gpu N [--node NAME] | --node NAME | --cluster [OPTIONS]; divvy metrics --add "
          "NAME=NUMBER... [ID]",
          "Shows samples taken every second: utilisation, memory, power and temperature of GPUs; CPU time, memory and "
          "disk traffic; and metrics that a job prints as JSON objects, one on each line ({\"step\": 10, \"loss\": "
          "0.3} becomes own.step and own.loss), or records with --add. A job's metrics cover its whole run and stay "
          "available after its end. Other metrics are kept at one second for ten minutes, at 10 seconds for a day, at "
          "one minute for a month, and at 15 minutes for two years.",
          {{"divvy metrics 17", "all metrics of job 17; 20-25 or 17_0-3 selects several jobs"},
           {"divvy metrics 17 -m own.loss,gpu_utilization", "two of its metrics"},
           {"divvy metrics 17 --processes", "its GPU processes and what each uses"},
           {"divvy metrics --gpu 0 --since 2h -w", "GPU 0, live"},
           {"divvy metrics --cluster --since 7d --csv", "as CSV"},
           {"divvy metrics --add loss=0.3 step=10", "in a job's script, independent of its output"}},
          "Reports",
          MetricsOptions,
          "job",
          MetricsMain,
          false};
}

Command ReportCommand() {
  return {
      "report",
      "Report usage, waste, efficiency, fairness and predictions",
      "divvy report usage|shares|waste|efficiency|fairness|predictions|speeds [OPTIONS]",
      "usage: GPU-hours, jobs and waiting times by user, team, job name, GPU model, pool, node or hour; all runs of a "
      "restarted job count as one job. shares: who used how many GPUs over time, by the same except hours. waste: "
      "unused GPU-hours, by the same as usage and by job (the worst first, including ended jobs), and who wastes GPUs "
      "now, with advice. efficiency: mean utilisation of GPUs and CPUs and peak GPU memory, by the same. fairness: how "
      "long users (teams, job names, models, pools) waited compared with their run times, or the jobs that started in "
      "each hour, and how even waiting and GPU-hours are. predictions: accuracy of run time predictions for the latest "
      "ended jobs (at most 10,000), each predicted only from jobs that ended before it; in total and by user, team, "
      "name, model, pool or hour. speeds: relative speed of GPU models for similar jobs (same user, name, command and "
      "GPU count), learned from reported progress, or else from the run times of successful jobs.",
      {{"divvy report usage --by team --since 30d", "who used the GPUs this month"},
       {"divvy report usage --by hour --since 7d --html >week.html", "an HTML page with plots"},
       {"divvy report shares --by team --since 30d --html >month.html", "who used how many GPUs over time, as plots"},
       {"divvy report waste --by user", "who left GPUs unused, with advice"},
       {"divvy report waste --by job --since 30d", "the worst jobs of the month, including ended ones"},
       {"divvy report efficiency --by model", "how well GPUs and CPUs were used"},
       {"divvy report fairness", "who waited longest, compared with run times"},
       {"divvy report predictions", "how accurate predictions are"},
       {"divvy report speeds", "which GPU model is faster for which jobs"}},
      "Reports",
      ReportOptions,
      "",
      ReportMain,
      false};
}

Command NotifyCommand() {
  return {
      "notify",
      "Send notifications when jobs start, end, fail or waste GPUs",
      "divvy notify [list] | add NAME --webhook URL | --command TEXT | --mail ADDRESS [--on EVENTS] | remove NAME... | "
      "test NAME",
      "Your receivers get the events of all your jobs, except jobs submitted with their own --notify. A webhook gets "
      "each event as signed JSON. A command runs as you, with the event in its environment and as JSON on standard "
      "input. Failed deliveries are retried for a day. list shows what was sent, what is waiting and what failed; "
      "administrators also see the receivers of divvy.toml. test sends a test event now and reports the result.",
      {{"divvy notify add phone --webhook https://hooks.example.org/x --on end,waste", "prints the secret once"},
       {"divvy notify add chat --command '~/bin/say \"$DIVVY_TEXT\"' --on fail", ""},
       {"divvy notify add me --mail ada@example.org --on end", ""},
       {"divvy notify test phone", "send a test event"},
       {"divvy submit --notify end -- ./train", "set the events of this job only"}},
      "Jobs",
      NotifyOptions,
      "",
      NotifyMain,
      false};
}

}  // namespace divvy::cli
