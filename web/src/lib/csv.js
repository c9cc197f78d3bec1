// Tables as files.

/** A cell that a spreadsheet takes for text, whatever it begins with. */
function cell(value) {
  let text = value === undefined || value === null ? '' : String(value);
  if (/^-?\d{1,3}(,\d{3})+(\.\d+)?$/.test(text)) text = text.replaceAll(',', '');  // A number, its thousands set apart for people.
  if (/^[=+\-@\t\r]/.test(text) && !/^-?\d+(\.\d+)?$/.test(text)) text = "'" + text;
  return /[",\r\n]/.test(text) ? `"${text.replaceAll('"', '""')}"` : text;
}

export function csvOf(columns, rows) {
  const wanted = columns.filter((column) => column.label);
  const lines = [wanted.map((column) => cell(column.unit ? `${column.label} (${column.unit})` : column.label)).join(',')];
  for (const row of rows) lines.push(wanted.map((column) => cell((column.csv ?? column.text)(row))).join(','));
  return lines.join('\r\n') + '\r\n';
}

export function download(name, text, type = 'text/csv') {
  const url = URL.createObjectURL(new Blob([text], { type: `${type};charset=utf-8` }));
  const link = document.createElement('a');
  link.href = url;
  link.download = name;
  link.click();
  setTimeout(() => URL.revokeObjectURL(url), 1000);
}
