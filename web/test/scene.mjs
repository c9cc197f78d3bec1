// A daemon at work, for pictures and for axe: jobs that run, wait, are held and have ended; GPUs with use and memory.
import { until } from './world.mjs';

export const kTeams = '[teams.vision]\nquota = 4\nusers = ["root"]\n[teams.speech]\nquota = 2\nusers = ["root"]\n[teams.robotics]\nquota = 2\nusers = ["root"]\n[users.root]\nteam = "vision"\n[waste]\ngrace = "0s"\nidle_after = "20s"\n';

export async function work(daemon) {
  const long = ['--', 'sleep', '3000'];
  const submit = (...words) => daemon.submit(...words);
  const borrowing = ['--preemptible', 'requeue']; // More than the team's quota.
  const talk = 'i=0; while [ $i -lt 3000 ]; do i=$((i+1)); echo "{\\"step\\": $i, \\"loss\\": $(awk "BEGIN{print 2.3*exp(-$i/40)+0.12+0.04*sin($i)}"), \\"learning_rate\\": $(awk "BEGIN{print 0.001/(1+$i/50)}")}"; sleep 0.5; done';
  // What ran before: short, of all sizes, more than there was room for at once.
  const early = [];
  for (let i = 0; i < 26; ++i) early.push(submit('--gpus', String([1, 2, 1, 2, 1, 1, 2][i % 7]), '--name', ['train', 'evaluate', 'search'][i % 3], '--team', ['vision', 'speech', 'robotics'][i % 3], '--', 'sh', '-c', `sleep ${(0.4 + (i % 5) * 0.5).toFixed(1)}; exit ${i % 9 === 8 ? 1 : 0}`));
  await until('what ran before', () => early.every((id) => ['succeeded', 'failed'].includes(daemon.json('show', id).state)), 60);
  for (const [name, code] of [['tokenise', 0], ['convert', 0], ['smoke-test', 1], ['export-onnx', 0]]) {
    const id = submit('--gpus', '0', '--name', name, '--', 'sh', '-c', `echo ${name} done; exit ${code}`);
    await until(`the end of ${name}`, () => ['succeeded', 'failed'].includes(daemon.json('show', id).state));
  }
  const first = submit('--gpus', '2', '--time', '6h', '--name', 'llama-finetune', '--team', 'vision', '--', 'sh', '-c', talk);
  submit('--gpus', '2', '--time', '12h', '--name', 'resnet-sweep', '--team', 'vision', ...long);
  submit(...borrowing, '--gpus', '6', '--time', '4h', '--name', 'diffusion-xl', '--team', 'speech', ...long);
  submit('--gpus', '0.5', '--name', 'notebook-ada', '--team', 'speech', ...long);
  submit('--gpus', '0.25', '--name', 'notebook-grace', '--team', 'speech', ...long);
  submit('--gpus', '1', '--time', '30m', '--name', 'eval-checkpoints', '--team', 'robotics', ...long);
  submit('--gpus', '1', '--array', '0-23%2', '--time', '20m', '--name', 'hyperparameters', '--team', 'robotics', ...long);
  submit(...borrowing, '--gpus', '4', '--time', '2h', '--name', 'speech-large', '--team', 'speech', ...long);
  submit('--gpus', '1', '--hold', '--name', 'nightly-report', ...long);
  submit(...borrowing, '--gpus', '8', '--time', '24h', '--name', 'pretrain-7b', '--team', 'robotics', ...long);
  await until('the first to run', () => daemon.json('show', first).state === 'running');
  // One of the two GPUs of resnet-sweep does nothing.
  const use = [91, 88, 64, 0, 95, 71, 38, 0];
  use.forEach((percent, gpu) => daemon.divvy('emulate', 'utilisation', String(gpu), String(percent), String(Math.round(percent / 2))));
  [61, 58, 33, 1, 71, 69, 12, 0].forEach((size, gpu) => size && daemon.divvy('emulate', 'memory', String(gpu), `${size}GiB`));
  return first;
}
