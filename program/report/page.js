/* Draws the charts of a report page: inflates the chart library that the page carries, gives every
   figure its specification, its data and the theme, and adds contents and buttons. Without the library
   or without DecompressionStream the page stays as it is: text and tables. */
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
    chart.figure.querySelector("figcaption").after(bar);
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

  const draw = async () => {
    const specifications = read(part("specifications"));
    const theme = read(part("theme"))[dark() ? "dark" : "light"];
    for (const chart of charts) {
      if (chart.view) chart.view.finalize();
      const specification = {
        ...fittedFigure(specifications[chart.figure.dataset.figure], chart.plot.clientWidth),
        datasets: read(chart.figure.querySelector('script[type="application/json"]')),
      };
      const drawn = await window.vegaEmbed(chart.plot, specification, {
        actions: false, logLevel: 1, config: fittedTheme(theme, chart.plot.clientWidth), renderer: "svg", defaultStyle: false,
        tooltip: { disableDefaultStyle: true },
        loader: { load: refuse, sanitize: refuse, http: refuse, file: refuse },
      });
      chart.view = drawn.view;
    }
    root.dataset.drawn = String(charts.length);
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
      redraw();
    } catch (error) {
      explain(error.message);
    }
  };

  // A long page begins with its contents, and every table that is no chart's can be taken along.
  const addContents = () => {
    const headings = [...document.querySelectorAll("main h2")];
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
    document.querySelector("main").prepend(contents);
  };

  const quote = (text) => (/[",\n]/.test(text) ? `"${text.replaceAll('"', '""')}"` : text);
  const addTableButtons = () => {
    for (const [index, region] of document.querySelectorAll("main > .scroll").entries()) {
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
  window.otattnPage = { inflate, dark, read, theme: () => read(part("theme"))[dark() ? "dark" : "light"] };
  addContents();
  addTableButtons();
  start();
})();
