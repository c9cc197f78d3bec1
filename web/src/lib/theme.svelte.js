// Light, dark, or as the system has it.
const kNames = ['system', 'light', 'dark'];
const stored = localStorage.getItem('divvy-theme');
let name = $state(kNames.includes(stored) ? stored : 'system');
const apply = () => {
  if (name === 'system') delete document.documentElement.dataset.theme;
  else document.documentElement.dataset.theme = name;
};
apply();

/** Changes when colours do: for what is drawn and not styled. */
let version = $state(0);
matchMedia('(prefers-color-scheme: dark)').addEventListener('change', () => ++version);

export const useTheme = () => ({
  get name() {
    return name;
  },
  get version() {
    return version;
  },
  turn() {
    name = kNames[(kNames.indexOf(name) + 1) % kNames.length];
    localStorage.setItem('divvy-theme', name);
    apply();
    ++version;
  },
});
/** As it is now, light or dark: a variable may name both (light-dark), which only a colour of an element decides. */
export function colour(variable, part = 1) {
  const probe = document.createElement('i');
  probe.style.color = part < 1 ? `color-mix(in srgb, var(${variable}) ${part * 100}%, transparent)` : `var(${variable})`;
  probe.hidden = true;
  document.body.append(probe);
  const shown = getComputedStyle(probe).color;
  probe.remove();
  return shown;
}
