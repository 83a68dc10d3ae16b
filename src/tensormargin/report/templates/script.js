"use strict";

// Tables: a click on a heading sorts, a second click reverses the order.
function valueOf(row, column) {
  const cell = row.cells[column];
  const text = cell.dataset.value ?? cell.textContent.trim();
  const number = Number(text);
  return text !== "" && Number.isFinite(number) ? number : text;
}

function compareValues(a, b) {
  if (typeof a === "number" && typeof b === "number") return a - b;
  if (typeof a !== typeof b) return typeof a === "number" ? -1 : 1;
  return a.localeCompare(b);
}

for (const table of document.querySelectorAll("table[data-sortable]")) {
  const headings = [...table.tHead.rows[0].cells];
  headings.forEach((heading, column) => {
    const button = document.createElement("button");
    button.type = "button";
    button.append(...heading.childNodes);
    heading.append(button);
    button.addEventListener("click", () => {
      const down = heading.getAttribute("aria-sort") === "ascending";
      headings.forEach((other) => other.removeAttribute("aria-sort"));
      heading.setAttribute("aria-sort", down ? "descending" : "ascending");
      const rows = [...table.tBodies[0].rows];
      rows.sort((a, b) => compareValues(valueOf(a, column), valueOf(b, column)) * (down ? -1 : 1));
      table.tBodies[0].append(...rows);
    });
  });
}

// The table of samples: text filter and "errors only".
for (const search of document.querySelectorAll("[data-filter]")) {
  const id = search.dataset.filter;
  const table = document.getElementById(id);
  const onlyWrong = document.querySelector(`[data-only-wrong="${id}"]`);
  const count = document.querySelector(`[data-count="${id}"]`);
  const apply = () => {
    const words = search.value.toLowerCase().split(/\s+/).filter(Boolean);
    let shown = 0;
    for (const row of table.tBodies[0].rows) {
      const text = row.textContent.toLowerCase();
      const keep = words.every((word) => text.includes(word)) && (!onlyWrong.checked || row.classList.contains("wrong"));
      row.hidden = !keep;
      shown += keep;
    }
    count.textContent = `${shown} of ${table.tBodies[0].rows.length}`;
  };
  search.addEventListener("input", apply);
  onlyWrong.addEventListener("change", apply);
  apply();
}

// Show one of several pictures.
for (const select of document.querySelectorAll("select[data-shows]")) {
  select.addEventListener("change", () => {
    for (const one of document.querySelectorAll(`[data-group="${select.dataset.shows}"]`)) {
      one.hidden = one.dataset.number !== select.value;
    }
  });
}

// Tables wider than the screen scroll by touch, mouse and keyboard, and say so.
function markWide() {
  for (const box of document.querySelectorAll(".scroll")) {
    const wide = box.scrollWidth > box.clientWidth + 1;
    box.classList.toggle("overflows", wide);
    if (wide || box.classList.contains("tall")) box.tabIndex = 0;
    else box.removeAttribute("tabindex");
    let hint = box.previousElementSibling;
    if (!hint || !hint.classList.contains("hint")) {
      if (!wide) continue;
      hint = document.createElement("p");
      hint.className = "hint";
      hint.textContent = "Scroll sideways for more columns →";
      box.before(hint);
    }
    hint.hidden = !wide;
  }
}
markWide();
window.addEventListener("resize", markWide);
document.addEventListener("toggle", markWide, true);
window.addEventListener("beforeprint", () => document.querySelectorAll("details").forEach((one) => { one.open = true; }));

// Maps: one canvas per cut through the tensor, one slider per mode that is cut.
function bytesOf(text, Kind) {
  return new Kind(Uint8Array.from(atob(text), (letter) => letter.charCodeAt(0)).buffer);
}

// Blue to white to red; over a background the middle is transparent.
function colourOf(share) {
  const strength = Math.min(1, Math.abs(share));
  const end = share < 0 ? [5, 80, 160] : [178, 24, 43];
  return end.map((channel) => Math.round(255 + (channel - 255) * strength));
}

class Viewer {
  constructor(root) {
    this.root = root;
    this.content = JSON.parse(root.querySelector("[data-maps]").textContent);
    this.background = this.content.background ? bytesOf(this.content.background, Uint8Array) : null;
    this.problem = 0;
    this.kind = 0;
    for (const name of ["problem", "kind"]) {
      const select = root.querySelector(`[data-${name}]`);
      if (select) select.addEventListener("change", () => { this[name] = Number(select.value); this.read(); this.draw(); });
    }
    this.below = root.querySelector("[data-background]");
    if (this.below) this.below.addEventListener("change", () => this.draw());
    this.read();
    this.at = [...this.map.start];
    this.build();
    this.drawScale();
    this.draw();
  }

  read() {
    this.map = this.content.problems[this.problem].maps[this.kind];
    this.values = bytesOf(this.map.bytes, Int8Array);
    this.shape = this.map.shape;
    this.strides = this.shape.map((_, mode) => this.shape.slice(mode + 1).reduce((a, b) => a * b, 1));
  }

  offset(at) {
    return at.reduce((sum, index, mode) => sum + index * this.strides[mode], 0);
  }

  // The name of a mode, and the coordinate of one of its entries (or its index, if coordinates are unknown).
  modeName(mode) {
    return this.content.modes[mode].name || `mode ${mode + 1}`;
  }

  coordinate(mode, index) {
    const values = this.content.modes[mode].values;
    return values ? values[index] : String(index);
  }

  // The first and last original index of a displayed entry, which differ if the size of the mode is reduced.
  range(mode, place) {
    const edges = this.map.edges[mode];
    return edges ? [edges[place], edges[place + 1] - 1] : [place, place];
  }

  indices(mode, place) {
    const [first, last] = this.range(mode, place);
    const begin = this.coordinate(mode, first);
    return first === last ? begin : `${begin} to ${this.coordinate(mode, last)}`;
  }

  slider(mode) {
    const input = document.createElement("input");
    Object.assign(input, { type: "range", min: 0, max: this.shape[mode] - 1, value: this.at[mode] });
    input.dataset.mode = mode;
    input.setAttribute("aria-label", `cut of ${this.modeName(mode)}`);
    input.addEventListener("input", () => { this.at[mode] = Number(input.value); this.draw(); });
    return input;
  }

  // The cuts: [mode that is cut or null, mode of the rows or null, mode of the columns].
  layout() {
    if (this.shape.length === 1) return [[null, null, 0]];
    if (this.shape.length === 2) return [[null, 0, 1]];
    return [[0, 1, 2], [1, 0, 2], [2, 0, 1]];
  }

  build() {
    const holder = this.root.querySelector("[data-cuts]");
    this.cuts = this.layout().map(([across, row, column]) => {
      const box = document.createElement("div");
      box.className = "cut";
      const canvas = document.createElement("canvas");
      const rows = row === null ? 1 : this.shape[row];
      Object.assign(canvas, { width: this.shape[column], height: rows });
      // In proportion to the entries, within limits: a panel of 64 x 3 entries is tall, one of 2 x 45 wide.
      const ratio = Math.min(8, Math.max(0.25, this.shape[column] / rows));
      box.style.setProperty("--ratio", String(ratio));
      box.classList.toggle("wide", ratio > 2.5);
      canvas.setAttribute("role", "img");
      canvas.addEventListener("click", (event) => this.pick(event, canvas, row, column));
      const words = document.createElement("p");
      box.append(canvas, words);
      if (across !== null) box.append(this.slider(across));
      holder.append(box);
      return { across, row, column, canvas, words };
    });
    for (let mode = 3; mode < this.shape.length; mode += 1) {
      const label = document.createElement("label");
      label.className = "slider";
      label.append(this.modeName(mode), this.slider(mode));
      holder.append(label);
    }
  }

  pick(event, canvas, row, column) {
    const frame = canvas.getBoundingClientRect();
    const place = (offset, length, count) => Math.min(count - 1, Math.max(0, Math.floor((offset / length) * count)));
    this.at[column] = place(event.clientX - frame.left, frame.width, this.shape[column]);
    if (row !== null) this.at[row] = place(event.clientY - frame.top, frame.height, this.shape[row]);
    for (const input of this.root.querySelectorAll("input[data-mode]")) input.value = this.at[Number(input.dataset.mode)];
    this.draw();
  }

  draw() {
    for (const cut of this.cuts) this.drawCut(cut);
    const value = (this.values[this.offset(this.at)] / 127) * this.map.largest;
    const names = this.at.map((place, mode) => this.indices(mode, place));
    const isMean = this.at.some((place, mode) => { const [first, last] = this.range(mode, place); return first < last; });
    const mean = isMean ? "mean " : "";
    this.root.querySelector("[data-value]").textContent = `${mean}${value.toPrecision(3)} at (${names.join(", ")})`;
    for (const input of this.root.querySelectorAll("input[data-mode]")) {
      input.setAttribute("aria-valuetext", names[Number(input.dataset.mode)]);
    }
    const largest = this.map.largest.toPrecision(3);
    const peak = `${this.map.peak.value.toPrecision(3)} at (${this.map.peak.at.map((index, mode) => this.coordinate(mode, index)).join(", ")})`;
    const reduced = this.map.edges.some((edges) => edges);
    const remark = reduced ? `; long modes are shown as means of neighbouring entries, the largest single entry is ${peak}` : "";
    this.root.querySelector("[data-range]").textContent = `from -${largest} to ${largest}${remark}`;
    this.root.querySelector("[data-sides]").textContent = this.content.problems[this.problem].sides;
  }

  drawCut({ across, row, column, canvas, words }) {
    const context = canvas.getContext("2d");
    const image = context.createImageData(canvas.width, canvas.height);
    const over = this.background && this.below && this.below.checked;
    const at = [...this.at];
    for (let i = 0; i < canvas.height; i += 1) {
      for (let j = 0; j < canvas.width; j += 1) {
        if (row !== null) at[row] = i;
        at[column] = j;
        const offset = this.offset(at);
        const share = this.values[offset] / 127;
        const colour = colourOf(share);
        const cover = over ? Math.min(1, Math.abs(share) * 2) : 1;
        for (let channel = 0; channel < 3; channel += 1) {
          const grey = over ? this.background[offset] : 255;
          image.data[4 * (i * canvas.width + j) + channel] = colour[channel] * cover + grey * (1 - cover);
        }
        image.data[4 * (i * canvas.width + j) + 3] = 255;
      }
    }
    context.putImageData(image, 0, 0);
    const right = `${this.modeName(column)} →`;
    const sides = row === null ? right : `${this.modeName(row)} ↓, ${right}`;
    canvas.setAttribute("aria-label", `map, ${sides}`);
    words.textContent = across === null ? sides : `${sides}; ${this.modeName(across)} at ${this.indices(across, this.at[across])}`;
  }

  drawScale() {
    const canvas = this.root.querySelector("[data-scale]");
    const context = canvas.getContext("2d");
    for (let x = 0; x < canvas.width; x += 1) {
      context.fillStyle = `rgb(${colourOf((2 * x) / (canvas.width - 1) - 1).join(",")})`;
      context.fillRect(x, 0, 1, canvas.height);
    }
  }
}

for (const root of document.querySelectorAll("[data-viewer]")) new Viewer(root);
