// Config, versions, machine, certificate, and how to make a run again.

function facts(pairs) {
  const list = element("dl", { className: "facts" });
  for (const [name, value] of pairs)
    if (value) list.append(element("dt", { textContent: name }), element("dd", { textContent: value }));
  return list;
}

function command(text, what, id) {
  return element("div", { className: "command" },
    element("code", { textContent: text }), button("Copy", () => copy(text, what), { id, "aria-label": `Copy ${what}` }));
}

function codeBlock(title, text, id) {
  return element("details", { className: "code" }, element("summary", { textContent: title }),
    element("div", { className: "code-inside" },
      button("Copy", () => copy(text, title), { id, "aria-label": `Copy ${title}` }),
      element("pre", { tabIndex: 0, textContent: text })));
}

const inWords = (record) => Object.entries(record).map(([name, value]) => `${name} ${value}`).join(", ");

function aboutSection() {
  const made = section("about", "How to repeat it");
  const inner = element("div");
  made.append(inner);
  let last = "";
  function update() {
    const now = JSON.stringify([view.run, version]);
    if (now === last) return;
    last = now;
    if (group().kind === "tuning") {
      const { command: text, use, found } = group();
      inner.replaceChildren(
        element("h3", { textContent: "Search again" }), command(text, "the command", "copy-command"),
        element("h3", { textContent: "Compare with what was found" }), command(use, "the command", "copy-use"),
        codeBlock("params.toml", found, "copy-params"));
      return;
    }
    const known = group().about;
    const one = known.find((run) => run.label === view.run) ?? known[0];
    if (!one) return;
    const whole = group().command;
    inner.replaceChildren(
      ...(whole ? [element("h3", { textContent: "The whole comparison" }), command(whole, "the command", "copy-whole"),
        element("h3", { textContent: "A single run" })] : []),
      ...(known.length > 1 ? [element("div", { className: "controls" },
        choice("about-run", "Method", known.map((run) => [run.label, `${run.label}, seed ${run.seed}`]), one.label, (run) => change({ run })))] : []),
      ...(one.command ? [command(one.command, "the command", "copy-command")] : []),
      facts([
        ["Outcome", `${one.outcome}${one.message ? `: ${one.message}` : ""}`], ["Folder", one.folder],
        ["Certificate", one.certificate], ["Check anew", one.check], ["Versions", inWords(one.versions)],
        ["Machine", inWords(one.machine)], ["Notes", one.notes.join(" ")],
      ]),
      ...(one.config ? [codeBlock("config.toml", one.config, "copy-config")] : []));
  }
  return { element: made, update };
}
