"use strict";
// Shows on the panel what is pointed at, focused or pinned, and follows sizes through the picture.
(() => {
  const model = JSON.parse(document.getElementById("model").textContent);
  const root = document.documentElement;
  const panel = document.getElementById("panel");
  const sections = [...document.querySelectorAll("main > section")];
  const tabs = [...document.querySelectorAll(".tabs a")];
  const svgs = sections.map((section) => section.querySelector("svg"));
  const natural = svgs.map((svg) => Number(svg.getAttribute("width")));
  const zooms = svgs.map(() => 0);
  let current = 0;
  let pinned = null;
  let shown = null;
  root.classList.add("js");
  svgs.forEach((svg) => svg.querySelectorAll("[tabindex] > title").forEach((title) => title.remove()));

  // --- what the picture is made of -------------------------------------------------------------------------
  const graph = () => model.graphs[current];
  const svg = () => svgs[current];
  const part = (kind, number) => svg().querySelector(`[data-${kind}="${number}"][tabindex]`);
  const portName = (number) => {
    const port = graph().ports[number];
    return `${graph().boxes[port.box].key}.${port.name}`;
  };
  // An input shows the axes of the value that feeds it; its own type is what it wants.
  const sourceOf = (number) => {
    const link = graph().links.find((each) => each[1] === number);
    return link ? link[0] : -1;
  };
  const marksOf = (number) => {
    const source = graph().ports[number].gives ? number : sourceOf(number);
    return source < 0 ? [] : graph().ports[source].marks || [];
  };
  const measures = (mark) => mark[4] !== "";
  // The size worth following first: the axis with a clock, what lengths count, or what is not the batch.
  const principal = (marks) => {
    const tests = [(m) => m[2], measures, (m, i) => i > 0 && m[1].length, (m) => m[1].length];
    for (const test of tests) {
      const found = marks.findIndex(test);
      if (found >= 0) return found;
    }
    return marks.length ? 0 : -1;
  };
  const upstream = (hop) => {
    const seen = new Set();
    const waiting = hop < 0 ? [] : [hop];
    while (waiting.length) {
      const each = waiting.pop();
      if (seen.has(each)) continue;
      seen.add(each);
      waiting.push(...graph().hops[each][2]);
    }
    return [...seen].sort((a, b) => a - b);
  };

  // --- following a size ------------------------------------------------------------------------------------
  function clear() {
    svg().classList.remove("n-following");
    svg().querySelectorAll(".n-kin,.n-lit,.n-on").forEach((each) => {
      each.classList.remove("n-kin", "n-lit", "n-on");
    });
  }

  function follow(number, index) {
    const { ports, hops, links } = graph();
    const mark = marksOf(number)[index];
    if (!mark) return;
    svg().classList.add("n-following");
    const kin = new Set(mark[1]);
    const path = upstream(mark[3]);
    const lit = new Set();
    const wires = new Set();
    for (const hop of path) {
      const [port, , before] = hops[hop];
      lit.add(`${port}/${ports[port].marks.findIndex((each) => each[3] === hop)}`);
      for (const early of before) {
        links.forEach((link, at) => {
          if (link[0] === hops[early][0] && link[1] >= 0 && ports[link[1]].box === ports[port].box) wires.add(at);
        });
      }
    }
    links.forEach((link, at) => {
      if (link[1] === number) wires.add(at);
    });
    const shares = (port) => (ports[port].marks || []).some((each) => each[1].some((symbol) => kin.has(symbol)));
    svg().querySelectorAll("path[data-p]").forEach((wire) => {
      const on = wire.dataset.l.split(" ").some((link) => wires.has(Number(link)));
      wire.classList.toggle("n-lit", on);
      wire.classList.toggle("n-kin", !on && shares(Number(wire.dataset.p)));
    });
    svg().querySelectorAll("[data-x]").forEach((axis) => {
      const port = axis.closest("[data-p]").dataset.p;
      const on = lit.has(`${port}/${axis.dataset.x}`);
      axis.classList.toggle("n-lit", on);
      axis.classList.toggle("n-kin", !on && axis.dataset.s.split(" ").some((each) => each && kin.has(Number(each))));
    });
  }

  // --- the panel -------------------------------------------------------------------------------------------
  const make = (tag, text, kind, ...children) => {
    const element = document.createElement(tag);
    if (text) element.textContent = text;
    if (kind) element.className = kind;
    element.append(...children);
    return element;
  };
  const jump = (text, what) => {
    const button = make("button", text);
    button.type = "button";
    button.addEventListener("click", () => go(what));
    return button;
  };
  const toPort = (number) => jump(portName(number), { kind: "p", number });
  const toBox = (number) => jump(graph().boxes[number].key, { kind: "b", number });
  const list = (items, tag = "ul", kind = "") => {
    const found = make(tag, "", kind);
    items.forEach((item) => found.append(item));
    return found;
  };
  const note = ([kind, text]) => make("li", `${kind}: ${text}`, kind);

  function pinButton() {
    const button = make("button", pinned ? "unpin (Esc)" : "pin", "pin");
    button.type = "button";
    button.addEventListener("click", () => (pinned ? unpin() : pin(shown)));
    return button;
  }

  function storyOf(number, index) {
    const mark = marksOf(number)[index];
    const path = upstream(mark[3]).filter((hop) => graph().hops[hop][3] || !graph().hops[hop][2].length);
    const rows = path.map((hop) => {
      const [port, size, before, rule, why] = graph().hops[hop];
      const clock = (graph().ports[port].marks.find((each) => each[3] === hop) || [])[2];
      const row = make("li");
      row.append(make("code", before.length ? rule : size), before.length ? " at " : " from ");
      row.append(before.length ? toBox(graph().ports[port].box) : toPort(port));
      if (why) row.append(make("span", ` (${why})`, "faint"));
      if (before.length) row.append(make("span", " = ", "faint"), make("code", size));
      if (clock) row.append(make("span", `, ${clock}`, "faint"));
      return row;
    });
    return [make("h3", `where ${mark[0]} comes from`), list(rows, "ol", "story")];
  }

  function showPort(number, index) {
    const { boxes, ports, links } = graph();
    const port = ports[number];
    const marks = marksOf(number);
    if (index < 0) index = principal(marks);
    const source = port.gives ? number : sourceOf(number);
    const title = make("h2", port.name + " ");
    const box = boxes[port.box];
    title.append(make("small", `${port.gives ? "output" : "input"} of ${box.title}`));
    const words = [port.optional && "may be left out", port.when && `in mode ${port.when} only`].filter(Boolean);
    panel.append(pinButton(), title);
    if (words.length) panel.append(make("p", words.join(", "), "faint"));
    if (!port.gives) panel.append(make("h3", "takes"));
    panel.append(make("div", model.types[port.type], "type"));
    if (!port.gives) {
      panel.append(make("h3", source < 0 ? "left open" : "gets"));
      if (source >= 0) panel.append(make("div", model.types[ports[source].type], "type"));
    }
    if (marks.length) {
      const table = make("table");
      marks.forEach((mark, at) => {
        const button = make("button", mark[0]);
        button.type = "button";
        button.setAttribute("aria-pressed", String(at === index));
        button.addEventListener("mouseenter", () => show({ kind: "p", number, index: at }, true));
        button.addEventListener("click", () => pin({ kind: "p", number, index: at }));
        const row = make("tr", "", "", make("th", measures(mark) ? "counts" : `axis ${at}`));
        row.append(make("td", "", "", button), make("td", mark[2]));
        table.append(row);
      });
      panel.append(make("h3", "sizes"), table);
    }
    const story = make("div", "", "origin");
    if (index >= 0) story.append(...storyOf(number, index));
    panel.append(story);
    if (port.gives) {
      const users = links.filter((link) => link[0] === number);
      const items = users.map((link) => {
        const item = make("li");
        item.append(link[1] < 0 ? `output ${link[3]} of the graph` : toPort(link[1]));
        if (link[2].length) item.append(list(link[2].map(note)));
        return item;
      });
      panel.append(make("h3", items.length ? "goes to" : "goes nowhere"), list(items));
    } else if (source >= 0) {
      const feeds = links.filter((link) => link[1] === number);
      const items = feeds.map((link) => make("li", "", "", toPort(link[0])));
      panel.append(make("h3", "comes from"), list(items));
      const notes = feeds.flatMap((link) => link[2]);
      if (notes.length) panel.append(make("h3", "not proved"), list(notes.map(note)));
    }
    if (index >= 0) follow(number, index);
  }

  function portTable(title, numbers) {
    if (!numbers.length) return;
    const { ports } = graph();
    const items = numbers.map((number) => {
      const item = make("li", "", "", jump(ports[number].name, { kind: "p", number }), " ");
      item.append(make("code", model.types[ports[number].type]));
      return item;
    });
    panel.append(make("h3", title), list(items));
  }

  function showBox(number) {
    const box = graph().boxes[number];
    const title = make("h2", `${box.title} `);
    title.append(make("small", `${box.kind || "open inputs"} · ${box.role}${box.weights ? " · with weights" : ""}`));
    panel.append(pinButton(), title);
    if (box.about) panel.append(make("p", box.about));
    if (box.notes) panel.append(list(box.notes.map(note)));
    if (box.fields) {
      const table = make("table");
      box.fields.forEach(([name, text, plain]) => {
        const row = make("tr", "", plain ? "default" : "", make("th", name));
        row.append(make("td", "", "", make("code", text)));
        table.append(row);
      });
      panel.append(make("h3", "settings (default ones in grey)"), table);
    }
    if (box.uses) {
      panel.append(make("h3", box.weights ? "one module, one set of weights, used by" : "one module, used by"));
      panel.append(list(box.uses.map((use) => make("li", "", "", useButton(use)))));
    }
    const kin = (other) => other !== box && box.uses && other.uses && other.uses.join() === box.uses.join();
    graph().boxes.forEach((other, at) => kin(other) && part("b", at).classList.add("n-kin"));
    const ports = graph().ports.map((port, at) => [port, at]).filter(([port]) => port.box === number);
    portTable("takes", ports.filter(([port]) => !port.gives).map(([, at]) => at));
    portTable("gives", ports.filter(([port]) => port.gives).map(([, at]) => at));
    if (box.place) panel.append(make("p", `called at ${box.place}`, "faint"));
  }

  function useButton(use) {
    const [name, key] = [use.slice(0, use.lastIndexOf(".")), use.slice(use.lastIndexOf(".") + 1)];
    const button = make("button", use);
    button.type = "button";
    button.addEventListener("click", () => {
      open(model.graphs.findIndex((each) => each.name === name));
      go({ kind: "b", number: graph().boxes.findIndex((each) => each.key === key) });
    });
    return button;
  }

  function showGraph() {
    const { name, mode, boxes, links, ports, symbols } = graph();
    panel.append(make("h2", `graph ${name} `, "", make("small", `mode ${mode}`)));
    const counted = (count, what) => `${count} ${what}${count === 1 ? "" : "s"}`;
    const edges = links.filter((link) => link[1] >= 0).length;
    panel.append(make("p", `${counted(boxes.length, "step")}, ${counted(edges, "connection")}.`));
    panel.append(make("p", "Point at a port, or reach it with Tab, to read its type and to follow its sizes. "
      + "A click pins what is shown; Escape lets it go. The arrow keys walk along the connections.", "faint"));
    const outputs = links.filter((link) => link[1] < 0);
    panel.append(make("h3", "outputs"));
    panel.append(list(outputs.map((link) => make("li", `${link[3]} = `, "", toPort(link[0])))));
    if (symbols.length) {
      const items = symbols.map(([symbol, value]) => {
        const at = ports.findIndex((port, number) => port.gives && portName(number) === value);
        return make("li", "", "", make("code", symbol), " from ", toPort(at));
      });
      panel.append(make("h3", "sizes that change from batch to batch"), list(items));
    }
    const shared = boxes.filter((box) => box.uses);
    if (shared.length) {
      const seen = new Set();
      const items = shared.filter((box) => !seen.has(box.uses.join()) && seen.add(box.uses.join())).map((box) => {
        const item = make("li", `${box.title}: `);
        box.uses.forEach((use) => item.append(useButton(use), " "));
        return item;
      });
      panel.append(make("h3", "modules used more than once"), list(items));
    }
    const notes = links.flatMap((link) => link[2].map((each) => {
      const item = note(each);
      item.prepend(toPort(link[1]), " ");
      return item;
    }));
    const more = boxes.flatMap((box, at) => (box.notes || []).map((each) => {
      const item = note(each);
      item.prepend(toBox(at), " ");
      return item;
    }));
    const all = [...graph().notes.map(note), ...more, ...notes];
    if (all.length) panel.append(make("h3", "to look at"), list(all));
  }

  function show(what, keepPanel = false) {
    clear();
    shown = what;
    const top = keepPanel ? panel.scrollTop : 0;
    if (keepPanel && what) {
      panel.querySelectorAll("[aria-pressed]").forEach((button, at) => {
        button.setAttribute("aria-pressed", String(at === what.index));
      });
      panel.querySelector(".origin").replaceChildren(...storyOf(what.number, what.index));
      follow(what.number, what.index);
    } else {
      panel.replaceChildren();
      if (!what) showGraph();
      else if (what.kind === "b") showBox(what.number);
      else showPort(what.number, what.index ?? -1);
    }
    panel.scrollTop = top;
    if (what) svg().querySelectorAll(`[data-${what.kind}="${what.number}"][tabindex]`).forEach((each) => {
      each.classList.add("n-on");
    });
  }

  function pin(what) {
    pinned = what;
    show(what);
  }

  function unpin() {
    pinned = null;
    show(null);
  }

  function go(what) {
    pin(what);
    const target = part(what.kind, what.number);
    if (!target) return;
    target.focus({ preventScroll: true });
    target.scrollIntoView({ block: "center", inline: "center", behavior: "smooth" });
  }

  // --- pointing, focusing, tapping -------------------------------------------------------------------------
  const whatAt = (element) => {
    const found = element.closest && element.closest("[data-p][tabindex],[data-b][tabindex]");
    if (!found) return null;
    const axis = element.closest("[data-x]");
    const kind = "p" in found.dataset ? "p" : "b";
    const what = { kind, number: Number(found.dataset[kind]) };
    if (axis) what.index = Number(axis.dataset.x);
    return what;
  };
  svgs.forEach((each) => {
    each.addEventListener("mouseover", (event) => {
      const what = whatAt(event.target);
      if (what && !pinned) show(what);
    });
    each.addEventListener("focusin", (event) => {
      const what = whatAt(event.target);
      if (what && !pinned && event.target.matches(":focus-visible")) show(what);
    });
    each.addEventListener("click", (event) => {
      const what = whatAt(event.target);
      if (what) pin(what);
      else unpin();
    });
    each.addEventListener("keydown", walk);
  });
  document.addEventListener("keydown", (event) => {
    if (event.key === "Escape") unpin();
    if (event.key === "/" && document.activeElement !== search) {
      event.preventDefault();
      search.focus();
    }
  });

  function walk(event) {
    const what = whatAt(event.target);
    if (!what) return;
    if (event.key === "Enter" || event.key === " ") {
      event.preventDefault();
      pin(what);
    }
    const next = { ArrowDown: down, ArrowUp: up, ArrowLeft: beside(-1), ArrowRight: beside(1) }[event.key];
    const found = next && next(what);
    if (!found) return;
    event.preventDefault();
    pinned = null;
    const target = part(found.kind, found.number);
    target.focus();
    target.scrollIntoView({ block: "nearest", inline: "nearest" });
    show(found);
  }
  const portOf = (box, gives) => graph().ports.findIndex((port) => port.box === box && Boolean(port.gives) === gives);
  const asPort = (number) => (number < 0 ? null : { kind: "p", number });
  function down({ kind, number }) {
    if (kind === "b") return asPort(portOf(number, true));
    const port = graph().ports[number];
    if (!port.gives) return { kind: "b", number: port.box };
    const link = graph().links.find((each) => each[0] === number && each[1] >= 0);
    return link ? asPort(link[1]) : null;
  }
  function up({ kind, number }) {
    if (kind === "b") return asPort(portOf(number, false));
    const port = graph().ports[number];
    return port.gives ? { kind: "b", number: port.box } : asPort(sourceOf(number));
  }
  function beside(by) {
    return ({ kind, number }) => {
      if (kind === "b") return graph().boxes[number + by] ? { kind, number: number + by } : null;
      const port = graph().ports[number];
      const other = graph().ports[number + by];
      return other && other.box === port.box && other.gives === port.gives ? asPort(number + by) : null;
    };
  }

  // --- tabs, search, zoom, shade ---------------------------------------------------------------------------
  function open(number) {
    if (!model.graphs[number]) return;
    if (number !== current) {
      clear();
      current = number;
    }
    sections.forEach((section, at) => (section.hidden = at !== number));
    tabs.forEach((tab, at) => {
      tab.setAttribute("aria-selected", String(at === number));
      tab.tabIndex = at === number ? 0 : -1;
    });
    if (!zooms[number]) fit();
    unpin();
    find();
  }
  tabs.forEach((tab, at) => {
    tab.addEventListener("click", (event) => {
      event.preventDefault();
      history.replaceState(null, "", `#graph-${at}`);
      open(at);
    });
    tab.addEventListener("keydown", (event) => {
      const by = { ArrowRight: 1, ArrowLeft: -1 }[event.key];
      if (!by) return;
      const next = tabs[(at + by + tabs.length) % tabs.length];
      next.focus();
      next.click();
    });
  });

  const search = document.getElementById("search");
  const foundText = document.getElementById("found");
  let hits = [];
  let hit = -1;
  function find() {
    const words = search.value.trim().toLowerCase();
    const { boxes, ports } = graph();
    hits = [];
    hit = -1;
    if (words) {
      boxes.forEach((box, number) => {
        const settings = (box.fields || []).map((each) => `${each[0]}=${each[1]}`).join(" ");
        const text = `${box.key} ${box.title} ${box.kind || ""} ${box.role} ${settings}`.toLowerCase();
        if (text.includes(words)) hits.push({ kind: "b", number });
      });
      ports.forEach((port, number) => {
        const text = `${port.name}: ${port.gives ? model.types[port.type] : ""}`.toLowerCase();
        if (text.includes(words)) hits.push({ kind: "p", number });
      });
    }
    const lit = new Set(hits.map((each) => (each.kind === "b" ? each.number : ports[each.number].box)));
    svg().classList.toggle("n-searching", Boolean(words));
    svg().querySelectorAll(".n-box[data-b]").forEach((box) => box.classList.toggle("n-hit", lit.has(Number(box.dataset.b))));
    foundText.textContent = words ? `${hits.length} found` : "";
  }
  search.addEventListener("input", find);
  search.addEventListener("keydown", (event) => {
    if (event.key === "Escape") {
      search.value = "";
      find();
    }
    if (event.key !== "Enter" || !hits.length) return;
    hit = (hit + (event.shiftKey ? hits.length - 1 : 1)) % hits.length;
    pin(hits[hit]);
    const target = part(hits[hit].kind, hits[hit].number);
    target.scrollIntoView({ block: "center", inline: "center" });
    foundText.textContent = `${hit + 1} of ${hits.length}`;
  });

  function zoom(to) {
    zooms[current] = Math.min(4, Math.max(0.1, to));
    svg().style.width = `${Math.round(natural[current] * zooms[current])}px`;
  }
  function fit(whole = false) {
    const room = svg().parentElement.clientWidth / natural[current];
    zoom(Math.min(1, whole ? room : Math.max(0.75, room)));
  }
  document.getElementById("larger").addEventListener("click", () => zoom(zooms[current] * 1.25));
  document.getElementById("smaller").addEventListener("click", () => zoom(zooms[current] / 1.25));
  document.getElementById("whole").addEventListener("click", () => fit(true));
  sections.forEach((section) => section.querySelector(".canvas").addEventListener("wheel", (event) => {
    if (!event.ctrlKey && !event.metaKey) return;
    event.preventDefault();
    zoom(zooms[current] * Math.exp(-event.deltaY / 400));
  }, { passive: false }));
  document.getElementById("shade").addEventListener("click", () => {
    const dark = root.dataset.theme ? root.dataset.theme === "dark" : matchMedia("(prefers-color-scheme: dark)").matches;
    root.dataset.theme = dark ? "light" : "dark";
  });
  addEventListener("beforeprint", () => document.querySelectorAll("details").forEach((each) => (each.open = true)));
  open(Math.max(0, sections.findIndex((section) => `#${section.id}` === location.hash)));
})();
