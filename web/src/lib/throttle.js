// Why a GPU's clocks are held back: NVML's bits, in the words of src/cli/term/throttle_text.cc.
const kReasons = [
  [0x2, 'clocks that were set', false],
  [0x4, 'power cap', false],
  [0x8, 'hardware slowdown', true],
  [0x10, 'sync boost', false],
  [0x20, 'heat (driver)', true],
  [0x40, 'heat (hardware)', true],
  [0x80, 'power brake', true],
  [0x100, 'display clocks', false],
];
const kKnown = kReasons.reduce((all, [bit]) => all | bit, 1);

/** 'power cap, heat (driver)'; 'none' without a reason. */
export function throttleText(bits) {
  const words = kReasons.filter(([bit]) => bits & bit).map(([, text]) => text);
  if (bits & ~kKnown) words.push('an unknown reason');
  return words.join(', ') || 'none';
}
/** 'slowed by heat (driver)': a cooler or a supply that does not suffice; '' without. */
export function slowdownText(bits) {
  const words = kReasons.filter(([bit, , isSlowdown]) => isSlowdown && bits & bit).map(([, text]) => text);
  return words.length ? `slowed by ${words.join(', ')}` : '';
}
