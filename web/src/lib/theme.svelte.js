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
export const colour = (variable) => getComputedStyle(document.documentElement).getPropertyValue(variable).trim();
