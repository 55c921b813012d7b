// Tables that are sorted by a click and copied as they are sorted.

function sortedRows(table) {
  const [title, way] = view.sort.split(":");
  const place = table.titles.indexOf(title);
  const order = table.rows.map((_, number) => number);
  if (place < 0) return order;
  const sign = way === "down" ? -1 : 1;
  return order.sort((a, b) => {
    const one = table.rows[a].values[place], other = table.rows[b].values[place];
    if (isNumber(one) && isNumber(other)) return sign * (one - other);
    if (isNumber(one) !== isNumber(other)) return isNumber(one) ? -1 : 1; // blanks last
    return sign * table.rows[a].texts[place].localeCompare(table.rows[b].texts[place], "en", { numeric: true });
  });
}

function inOrder(copies, order) {
  const rows = copies.rows.length ? order.map((number) => copies.rows[number]) : [];
  return [...copies.head, ...rows, ...copies.foot].join("\n") + "\n";
}

function sortable(table, methods) {
  const order = sortedRows(table);
  const [by, way] = view.sort.split(":");
  const head = table.titles.map((title, place) => {
    const isBy = title === by;
    const sort = isBy ? (way === "down" ? "descending" : "ascending") : "none";
    const sign = isBy ? (way === "down" ? " ↓" : " ↑") : "";
    const turn = button(title + sign, () => change({ sort: `${title}:${isBy && way === "up" ? "down" : "up"}` }),
      { title: table.about[place] || `Sort by ${title}`, id: `sort-${table.name}-${place}` });
    const cell = element("th", { scope: "col", "aria-sort": sort }, turn);
    if (isNumeric(table, place)) cell.className = "number";
    return cell;
  });
  const body = order.map((number) => {
    const row = table.rows[number];
    return element("tr", {}, ...row.texts.map((text, place) => {
      const method = place ? null : methods.find((one) => one.label === row.label);
      const cell = element(place ? "td" : "th", place ? {} : { scope: "row" });
      if (method) cell.append(lineSample(method));
      cell.append(row.best[place] ? element("strong", { textContent: text }) : text);
      if (isNumeric(table, place)) cell.className = "number";
      return cell;
    }));
  });
  return element("div", { className: "scroll", tabIndex: 0, role: "region", "aria-label": `Table of ${table.name}` },
    element("table", { className: "sortable" },
      element("thead", {}, element("tr", {}, ...head)), element("tbody", {}, ...body)));
}

const isNumeric = (table, place) => table.rows.some((row) => isNumber(row.values[place]));

function tableSection(id, title, about) {
  const made = section(id, title, about);
  const place = element("div");
  const copying = element("div", { className: "buttons" });
  for (const kind of ["LaTeX", "Markdown", "CSV"])
    copying.append(button(kind, () => {
      const table = group().table;
      copy(inOrder(table.copies[kind], sortedRows(table)), kind);
    }, { id: `copy-${id}-${kind}`, "aria-label": `Copy the table as ${kind}` }));
  made.firstChild.append(element("div", { className: "copying" },
    element("span", { className: "quiet", textContent: "Copy as" }), copying));
  made.append(place);
  return { element: made, update: () => place.replaceChildren(sortable(group().table, group().methods)) };
}
