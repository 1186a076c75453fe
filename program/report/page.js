/* Draws the charts of a report page: inflates the chart library that the page carries, gives every
   figure its specification, its data and the theme, and adds contents and buttons. What is folded is drawn
   when it unfolds; a link into it unfolds it. Without the library or without DecompressionStream the page
   stays as it is: text and tables. */
"use strict";
(() => {
  const root = document.documentElement;
  const system = matchMedia("(prefers-color-scheme: dark)");
  const choices = ["system", "light", "dark"];
  const part = (id) => document.getElementById(id);
  const read = (element) => JSON.parse(element.textContent);

  // A page opened from a file may have no storage; the choice then lasts as long as the page.
  let choice = "system";
  try { choice = localStorage.getItem("otattn-theme") || choice; } catch { /* no storage */ }
  if (!choices.includes(choice)) choice = "system";
  const dark = () => (choice === "system" ? system.matches : choice === "dark");

  const toggle = document.createElement("button");
  toggle.id = "theme-switch";
  toggle.type = "button";
  const applyChoice = () => {
    if (choice === "system") delete root.dataset.theme;
    else root.dataset.theme = choice;
    toggle.textContent = `Theme: ${choice}`;
  };
  applyChoice();
  document.querySelector("header").prepend(toggle);

  const inflate = (text) => {
    const packed = Uint8Array.from(atob(text), (letter) => letter.charCodeAt(0));
    return new Response(new Blob([packed]).stream().pipeThrough(new DecompressionStream("gzip")));
  };

  const save = (blob, name) => {
    const link = document.createElement("a");
    link.href = URL.createObjectURL(blob);
    link.download = name;
    link.click();
    setTimeout(() => URL.revokeObjectURL(link.href), 1000);
  };

  const charts = [...document.querySelectorAll("figure.chart")].map((figure, index) => ({
    figure, index, plot: figure.querySelector(".plot"), view: null,
  })).filter((chart) => chart.plot);
  for (const chart of charts) {
    chart.label = chart.plot.getAttribute("aria-label");
    chart.reading = document.createElement("p");
    chart.reading.className = "reading";
    chart.reading.setAttribute("aria-live", "polite");
    chart.plot.after(chart.reading);
  }

  const addButtons = (chart) => {
    const bar = document.createElement("div");
    bar.className = "tools";
    const title = chart.figure.querySelector("h3").textContent;
    const name = `${chart.figure.dataset.figure}-${chart.index + 1}`;
    for (const kind of ["SVG", "PNG"]) {
      const button = document.createElement("button");
      button.type = "button";
      button.textContent = `Save as ${kind}`;
      button.setAttribute("aria-label", `Save "${title}" as ${kind}`);
      button.addEventListener("click", async () => {
        if (kind === "SVG") {
          save(new Blob([await chart.view.toSVG()], { type: "image/svg+xml" }), `${name}.svg`);
        } else {
          (await chart.view.toCanvas(2)).toBlob((blob) => save(blob, `${name}.png`));
        }
      });
      bar.append(button);
    }
    const numbers = chart.figure.querySelector("details");
    if (numbers) numbers.append(bar);
    else chart.figure.querySelector("figcaption").after(bar);
  };

  // In a narrow chart the entries of a legend stand below each other, and the title of the horizontal axis
  // reaches to the left beyond the axis.
  const NARROW = 480;
  const fittedTheme = (theme, width) => (width >= NARROW ? theme : {
    ...theme,
    legend: { ...theme.legend, columns: 1 },
    axisX: { ...theme.axisX, titleAnchor: "end", titleLimit: width },
  });
  const fittedFigure = (figure, width) => (width >= NARROW ? figure
    : JSON.parse(JSON.stringify(figure), (key, value) => (
      key === "legend" && value !== null ? { ...value, columns: 1 } : value)));

  const refuse = () => Promise.reject(new Error("this page loads nothing"));

  // The head that was chosen last: charts of layers by heads mark it, and a click in one of them chooses.
  let chosen = null;
  const markHead = (chart) => {
    if (!chosen || !chart.heads) return;
    chart.view.signal("chosen_layer", chosen.layer).signal("chosen_head", chosen.head).runAsync();
  };
  const chooseHead = (layer, head) => {
    if (chosen && chosen.layer === layer && chosen.head === head) return;
    chosen = { layer, head };
    charts.filter((chart) => chart.view).forEach(markHead);
    root.dispatchEvent(new Event("headchosen"));
  };
  const chooseDatum = (item) => {
    const { layer, head } = item?.datum ?? {};
    if (Number.isInteger(layer) && Number.isInteger(head)) chooseHead(layer, head);
  };
  const listenForHeads = (chart, specification) => {
    chart.heads = (specification.params ?? []).some(({ name }) => name === "chosen_head");
    if (!chart.heads) return;
    chart.view.addEventListener("click", (event, item) => chooseDatum(item));
    markHead(chart);
  };

  // A chart is read point by point. Points are what has a tooltip; a series is what has a colour, or of cells a row.
  const colourIsName = (specification) => [specification, ...specification.layer ?? []]
    .some(({ encoding }) => encoding?.color?.field && encoding.color.type !== "quantitative");
  const pointsOf = (chart, specification) => {
    const found = new Map();
    const visit = (mark) => {
      for (const item of mark.items ?? []) {
        visit(item);
        // Cells that answer for the nearest point have it as their datum.
        const point = item.datum?.mark ? item.datum : item;
        if (!item.tooltip || !point._svg) continue;
        // The text in a cell says what the cell says.
        const told = JSON.stringify(item.tooltip);
        if (item.mark.marktype === "text" && found.has(told)) continue;
        found.set(told, Object.assign(point, { told: item.tooltip }));
      }
    };
    visit(chart.view.scenegraph().root);
    const middle = ({ bounds }) => (bounds.x1 + bounds.x2) / 2;
    const height = ({ bounds }) => Math.round((bounds.y1 + bounds.y2) / 2);
    const names = colourIsName(specification);
    const colour = (item) => [item.fill, item.stroke].find((paint) => paint && paint !== "transparent");
    const group = (item) => (names ? colour(item) : item.mark.marktype === "rect" ? height(item) : 0);
    const series = new Map();
    for (const item of found.values()) {
      if (!series.has(group(item))) series.set(group(item), []);
      series.get(group(item)).push(item);
    }
    const lists = [...series.values()];
    for (const list of lists) list.sort((a, b) => middle(a) - middle(b) || height(a) - height(b));
    if (!names) lists.sort((a, b) => group(a[0]) - group(b[0]));
    return lists.every((list) => list.length === 1) ? [lists.flat()] : lists;
  };

  const readOut = (chart, place) => {
    const list = chart.points[place.series];
    const item = list[place.index];
    const [box, plot] = [item._svg, chart.plot].map((element) => element.getBoundingClientRect());
    chart.place = place;
    chart.ring.hidden = false;
    const { scrollLeft, scrollTop } = chart.plot;
    chart.ring.style.cssText = `left:${box.left - plot.left + scrollLeft}px;top:${box.top - plot.top + scrollTop}px;`
      + `width:${box.width}px;height:${box.height}px`;
    chart.ring.scrollIntoView({ block: "nearest", inline: "nearest" });
    const said = Object.entries(item.told).map(([name, value]) => `${name} ${value}`).join(", ");
    chart.reading.textContent = `${said} (${place.index + 1} of ${list.length})`;
  };
  const leavePoints = (chart) => {
    chart.ring.hidden = true;
    chart.place = null;
    chart.reading.textContent = "";
  };
  const nearest = (list, item) => {
    const far = (other) => Math.abs(other.bounds.x1 + other.bounds.x2 - item.bounds.x1 - item.bounds.x2);
    return list.reduce((best, other, index) => (far(other) < far(list[best]) ? index : best), 0);
  };
  const moves = { ArrowRight: [0, 1], ArrowLeft: [0, -1], ArrowDown: [1, 0], ArrowUp: [-1, 0], Home: [0, -Infinity], End: [0, Infinity] };
  const within = (index, list) => Math.max(0, Math.min(list.length - 1, index));
  const readByKeys = (chart, specification) => {
    const { plot } = chart;
    chart.points = pointsOf(chart, specification);
    chart.ring = document.createElement("div");
    chart.ring.className = "crosshair";
    plot.append(chart.ring);
    leavePoints(chart);
    const count = chart.points.flat().length;
    if (count === 0) return;
    plot.tabIndex = 0;
    plot.setAttribute("role", "application");
    plot.setAttribute("aria-roledescription", "chart");
    plot.setAttribute("aria-label", `${chart.label} Arrow keys read its ${count} points.`);
    plot.querySelector("svg").setAttribute("aria-hidden", "true");
    plot.onblur = () => leavePoints(chart);
    plot.onkeydown = (event) => {
      if (event.ctrlKey || event.altKey || event.metaKey) return;
      const place = chart.place;
      if (event.key === "Escape") leavePoints(chart);
      else if (event.key === "Enter" && place && chart.heads) chooseDatum(chart.points[place.series][place.index]);
      else if (!moves[event.key]) return;
      else if (!place) readOut(chart, { series: 0, index: 0 });
      else {
        const [down, right] = moves[event.key];
        const series = within(place.series + down, chart.points);
        const list = chart.points[series];
        const from = series === place.series ? place.index : nearest(list, chart.points[place.series][place.index]);
        readOut(chart, { series, index: within(from + right, list) });
      }
      event.preventDefault();
    };
  };

  const named = (figure, axis) => JSON.parse(JSON.stringify(figure, (key, value) => (
    value === "$axis" ? axis : value)));

  const drawOne = async (chart, specifications, theme) => {
    if (chart.view) chart.view.finalize();
    const { figure, axis } = chart.figure.dataset;
    const specification = {
      ...named(fittedFigure(specifications[figure], chart.plot.clientWidth), axis),
      datasets: read(chart.figure.querySelector('script[type="application/json"]')),
    };
    const drawn = await window.vegaEmbed(chart.plot, specification, {
      actions: false, logLevel: 1, config: fittedTheme(theme, chart.plot.clientWidth), renderer: "svg", defaultStyle: false,
      tooltip: { disableDefaultStyle: true },
      loader: { load: refuse, sanitize: refuse, http: refuse, file: refuse },
    });
    chart.view = drawn.view;
    chart.dark = dark();
    // What scrolls within itself does so by the keyboard, too.
    const { scrollWidth, clientWidth, scrollHeight, clientHeight } = chart.plot;
    if (scrollWidth > clientWidth || scrollHeight > clientHeight) chart.plot.tabIndex = 0;
    listenForHeads(chart, specification);
    readByKeys(chart, specification);
  };

  // Those that can be seen and are not drawn in this theme.
  const folded = (chart) => chart.figure.closest("details:not([open])") !== null;
  const draw = async () => {
    const specifications = read(part("specifications"));
    const theme = read(part("theme"))[dark() ? "dark" : "light"];
    for (const chart of charts) {
      if (!folded(chart) && !(chart.view && chart.dark === dark())) await drawOne(chart, specifications, theme);
    }
    root.dataset.drawn = String(charts.filter((chart) => chart.view).length);
  };

  const explain = (reason) => {
    const note = document.createElement("p");
    note.className = "note";
    note.textContent = `The charts could not be drawn (${reason}); the numbers unfold below each of them.`;
    document.querySelector("main").prepend(note);
    for (const details of document.querySelectorAll("figure.chart details")) details.open = true;
  };

  // One drawing at a time: a theme changed in mid-drawing is drawn after it.
  let last = Promise.resolve();
  const redraw = () => { last = last.then(draw).catch((error) => explain(error.message)); };

  const start = async () => {
    if (!part("charts") || charts.length === 0) return;
    if (typeof DecompressionStream === "undefined") {
      explain("this browser is older than DecompressionStream");
      return;
    }
    try {
      Function(`"use strict";${await (await inflate(part("charts").textContent)).text()}`)();
      charts.forEach(addButtons);
      for (const fold of document.querySelectorAll("details")) fold.addEventListener("toggle", redraw);
      redraw();
    } catch (error) {
      explain(error.message);
    }
  };

  // A long page begins with its contents, and every table that is no chart's can be taken along.
  const addContents = () => {
    const answer = [...document.querySelectorAll("main > .answers, main > .more, main > .facts")].pop();
    const below = (heading) => !answer || answer.compareDocumentPosition(heading) & Node.DOCUMENT_POSITION_FOLLOWING;
    const headings = [...document.querySelectorAll("main h2")].filter(below);
    if (headings.length < 6) return;
    const contents = document.createElement("nav");
    contents.setAttribute("aria-label", "Contents");
    for (const [index, heading] of headings.entries()) {
      heading.id = `part-${index + 1}`;
      const link = document.createElement("a");
      link.href = `#${heading.id}`;
      link.textContent = heading.textContent;
      contents.append(link);
    }
    // Below the answer, where there is one.
    if (answer) answer.after(contents);
    else document.querySelector("main").prepend(contents);
  };

  const quote = (text) => (/[",\n]/.test(text) ? `"${text.replaceAll('"', '""')}"` : text);
  const addTableButtons = () => {
    for (const [index, region] of document.querySelectorAll("main .scroll:not(figure .scroll)").entries()) {
      const button = document.createElement("button");
      button.type = "button";
      button.textContent = "Save as CSV";
      button.setAttribute("aria-label", `Save "${region.getAttribute("aria-label")}" as CSV`);
      button.addEventListener("click", () => {
        const lines = [...region.querySelectorAll("tr")].map((row) => (
          [...row.cells].map((cell) => quote(cell.textContent)).join(",")));
        save(new Blob([`${lines.join("\n")}\n`], { type: "text/csv" }), `table-${index + 1}.csv`);
      });
      region.after(button);
    }
  };

  // A link into a folded part unfolds it.
  const unfold = () => {
    const target = document.getElementById(location.hash.slice(1));
    if (!target) return;
    for (let fold = target.closest("details"); fold; fold = fold.parentElement.closest("details")) fold.open = true;
    target.scrollIntoView();
  };
  addEventListener("hashchange", unfold);
  document.addEventListener("click", (event) => {
    if (event.target.closest?.('a[href^="#"]')) setTimeout(unfold);
  });
  addEventListener("beforeprint", () => {
    for (const fold of document.querySelectorAll("details.fold")) fold.open = true;
  });

  const drawn = () => root.dataset.drawn !== undefined;
  const changed = () => {
    if (drawn()) redraw();
    root.dispatchEvent(new Event("themechange"));
  };
  toggle.addEventListener("click", () => {
    choice = choices[(choices.indexOf(choice) + 1) % choices.length];
    try { localStorage.setItem("otattn-theme", choice); } catch { /* no storage */ }
    applyChoice();
    changed();
  });
  system.addEventListener("change", () => { if (choice === "system") changed(); });
  window.otattnPage = {
    inflate, dark, read, chooseHead, chosenHead: () => chosen, theme: () => read(part("theme"))[dark() ? "dark" : "light"],
  };
  addContents();
  addTableButtons();
  unfold();
  start();
})();
