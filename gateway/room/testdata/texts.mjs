/** The few TOML forms the text files use: tables, and keys with strings. */
export function textsOf(toml) {
  const texts = {};
  let table = texts;
  for (const line of toml.split("\n")) {
    const header = /^\[([\w.]+)\]/.exec(line);
    if (header) table = header[1].split(".").reduce((t, key) => (t[key] ??= {}), texts);
    const pair = /^(\w+) = ("(?:[^"\\]|\\.)*")/.exec(line);
    if (pair) table[pair[1]] = JSON.parse(pair[2]);
  }
  return texts;
}
