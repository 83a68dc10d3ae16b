// Maps: one canvas per cut through the tensor, linked by a crosshair; one slider per mode that is cut.
function bytesOf(text, Kind) {
  return new Kind(Uint8Array.from(atob(text), (letter) => letter.charCodeAt(0)).buffer);
}

// Numbers of three digits: 0, or 1 + 2 * (900 * power + digits - 100), plus 1 if negative.
function numbersOf(text, lowest) {
  const bytes = bytesOf(text, Uint8Array);
  return Float64Array.from({ length: bytes.length / 2 }, (_, place) => {
    const code = bytes[2 * place] + 256 * bytes[2 * place + 1] - 1;
    if (code < 0) return 0;
    const half = Math.floor(code / 2);
    return Number(`${code % 2 ? "-" : ""}${100 + (half % 900)}e${lowest + Math.floor(half / 900) - 2}`);
  });
}

// Blue to white to red.
function colourOf(share) {
  const strength = Math.min(1, Math.abs(share));
  const end = share < 0 ? [5, 80, 160] : [178, 24, 43];
  return end.map((channel) => Math.round(255 + (channel - 255) * strength));
}

// Over a grey background white would be taken for it: dark next to zero, bright at the ends.
function colourOver(share) {
  const strength = Math.min(1, Math.abs(share));
  const [dark, bright] = share < 0 ? [[0, 60, 140], [120, 220, 255]] : [[120, 10, 15], [255, 105, 95]];
  return dark.map((channel, place) => Math.round(channel + (bright[place] - channel) * strength));
}

const ends = [["L", "R"], ["P", "A"], ["I", "S"]];
const directions = ["x", "y", "z"];
const cutNames = ["sagittal", "coronal", "axial"];

class Viewer {
  constructor(root) {
    this.root = root;
    this.content = JSON.parse(root.querySelector("[data-maps]").textContent);
    this.space = this.content.space;
    this.background = this.content.background ? bytesOf(this.content.background, Uint8Array) : null;
    this.problem = 0;
    this.kind = 0;
    this.drawn = {};
    for (const name of ["problem", "kind"]) {
      const select = root.querySelector(`[data-${name}]`);
      if (select) select.addEventListener("change", () => { this[name] = Number(select.value); this.read(); this.draw(); });
    }
    for (const name of ["background", "opacity", "threshold", "side"]) {
      this[`${name}Input`] = root.querySelector(`[data-${name}]`);
      if (this[`${name}Input`]) this[`${name}Input`].addEventListener("input", () => this.draw());
    }
    this.read();
    this.at = [...this.map.start];
    this.build();
    this.draw();
  }

  read() {
    this.map = this.content.problems[this.problem].maps[this.kind];
    this.values = numbersOf(this.map.codes, this.map.lowest);
    this.shape = this.map.shape;
    this.strides = this.shape.map((_, mode) => this.shape.slice(mode + 1).reduce((a, b) => a * b, 1));
  }

  get over() { return Boolean(this.background && this.backgroundInput && this.backgroundInput.checked); }
  get opacity() { return this.opacityInput ? Number(this.opacityInput.value) / 100 : 1; }
  get threshold() { return this.thresholdInput ? Number(this.thresholdInput.value) / 100 : 0; }
  get radiological() { return Boolean(this.space && this.sideInput && this.sideInput.value === "radiological"); }

  offset(at) {
    return at.reduce((sum, index, mode) => sum + index * this.strides[mode], 0);
  }

  // The original indices of a displayed entry: a range if the size of the mode is reduced.
  range(mode, place) {
    const edges = this.map.edges[mode];
    return edges ? [edges[place], edges[place + 1] - 1] : [place, place];
  }

  // The coordinate of an entry, or its index if coordinates are unknown.
  coordinate(mode, index) {
    const known = this.content.modes && !this.space ? this.content.modes[mode].values : null;
    return known ? known[index] : String(index);
  }

  indices(mode, place) {
    const [first, last] = this.range(mode, place);
    const begin = this.coordinate(mode, first);
    return first === last ? begin : `${begin} to ${this.coordinate(mode, last)}`;
  }

  // The middle of the displayed entries in mm, and the voxel of the file.
  millimetres() {
    const middle = this.at.map((place, mode) => { const [a, b] = this.range(mode, place); return (a + b) / 2; });
    return this.space.affine.slice(0, 3).map((row) => row[0] * middle[0] + row[1] * middle[1] + row[2] * middle[2] + row[3]);
  }

  voxel() {
    const stored = ["", "", ""];
    this.space.order.forEach((mode, axis) => {
      const size = this.space.shape[mode];
      const [a, b] = this.range(axis, this.at[axis]).map((index) => (this.space.flipped[axis] ? size - 1 - index : index));
      const [first, last] = [Math.min(a, b), Math.max(a, b)];
      stored[mode] = first === last ? String(first) : `${first} to ${last}`;
    });
    return stored;
  }

  nameOf(mode) {
    if (this.space && mode < 3) return directions[mode];
    return (this.content.modes && this.content.modes[mode].name) || `mode ${mode + 1}`;
  }

  placeOf(mode) {
    if (!this.space || mode > 2) return this.indices(mode, this.at[mode]);
    return `${(Math.round(this.millimetres()[mode] * 10) / 10 + 0).toFixed(1)} mm`;
  }

  slider(mode) {
    const input = document.createElement("input");
    Object.assign(input, { type: "range", min: 0, max: this.shape[mode] - 1, value: this.at[mode] });
    input.dataset.mode = mode;
    input.setAttribute("aria-label", `cut of ${this.nameOf(mode)}`);
    input.addEventListener("input", () => { this.at[mode] = Number(input.value); this.draw(); });
    return input;
  }

  // The cuts: modes that are cut, of the rows and of the columns (null: none); rows of volumes go upwards. Colour images
  // have one panel per channel instead.
  layout() {
    if (this.shape.length === 1) return [{ across: null, row: null, column: 0 }];
    if (this.shape.length === 2) return [{ across: null, row: 0, column: 1 }];
    if (this.content.colours) {
      const { mode } = this.content.colours;
      const [row, column] = [0, 1, 2].filter((other) => other !== mode);
      return [0, 1, 2].map((channel) => ({ across: null, row, column, channel }));
    }
    if (this.space) return [{ across: 0, row: 2, column: 1 }, { across: 1, row: 2, column: 0 }, { across: 2, row: 1, column: 0 }];
    return [{ across: 0, row: 1, column: 2 }, { across: 1, row: 0, column: 2 }, { across: 2, row: 0, column: 1 }];
  }

  build() {
    const holder = this.root.querySelector("[data-cuts]");
    this.cuts = this.layout().map((cut) => {
      const box = document.createElement("div");
      box.className = "cut";
      const frame = document.createElement("div");
      frame.className = "frame";
      frame.tabIndex = 0;
      const canvas = document.createElement("canvas");
      const rows = cut.row === null ? 1 : this.shape[cut.row];
      Object.assign(canvas, { width: this.shape[cut.column], height: rows });
      // In proportion to the entries, or to millimetres, within limits.
      const size = (mode) => (this.space ? this.space.extent[mode] : this.shape[mode]);
      const ratio = Math.min(8, Math.max(0.25, cut.row === null ? 8 : size(cut.column) / size(cut.row)));
      box.style.setProperty("--ratio", String(ratio));
      box.classList.toggle("wide", ratio > 2.5);
      frame.setAttribute("role", "img");
      const lines = ["upright", "level"].map((name) => { const line = document.createElement("i"); line.className = name; return line; });
      const letters = this.space ? ["left", "right"].map((name) => { const letter = document.createElement("b"); letter.className = name; return letter; }) : [];
      frame.append(canvas, ...lines, ...letters);
      const words = document.createElement("p");
      box.append(frame, words);
      if (cut.across !== null) box.append(this.slider(cut.across));
      holder.append(box);
      const built = { ...cut, frame, canvas, lines, letters, words };
      this.listen(built);
      return built;
    });
    for (let mode = 3; mode < this.shape.length; mode += 1) {
      const label = document.createElement("label");
      label.className = "slider";
      label.append(this.nameOf(mode), this.slider(mode));
      holder.append(label);
    }
  }

  listen(cut) {
    const pick = (event) => { if (event.buttons & 1 || event.type === "click") this.pick(event, cut); };
    for (const kind of ["pointerdown", "pointermove", "click"]) cut.frame.addEventListener(kind, pick);
    cut.frame.addEventListener("keydown", (event) => {
      const across = this.mirrored(cut) ? -1 : 1;
      const down = this.space ? -1 : 1;
      const steps = {
        ArrowLeft: [cut.column, -across], ArrowRight: [cut.column, across],
        ArrowUp: [cut.row, -down], ArrowDown: [cut.row, down],
        PageUp: [cut.across, 1], PageDown: [cut.across, -1],
      };
      const step = steps[event.key];
      if (!step || step[0] === null) return;
      event.preventDefault();
      this.move(step[0], this.at[step[0]] + step[1]);
      this.enter(cut);
      this.draw();
    });
  }

  move(mode, place) {
    this.at[mode] = Math.min(this.shape[mode] - 1, Math.max(0, place));
  }

  // The value at the crosshair is that of the channel whose panel is used.
  enter(cut) {
    if (cut.channel !== undefined) this.at[this.content.colours.mode] = cut.channel;
  }

  // Red, green and blue of the background at an entry: those of a colour image, otherwise grey.
  ground(at, offset) {
    if (!this.content.colours) return [0, 1, 2].map(() => this.background[offset]);
    const { mode, order } = this.content.colours;
    return order.map((channel) => this.background[offset + (channel - at[mode]) * this.strides[mode]]);
  }

  mirrored(cut) { return this.radiological && cut.column === 0; }

  pick(event, cut) {
    const box = cut.canvas.getBoundingClientRect();
    const place = (offset, length, count) => Math.floor((offset / length) * count);
    const columns = this.shape[cut.column];
    const column = place(event.clientX - box.left, box.width, columns);
    this.move(cut.column, this.mirrored(cut) ? columns - 1 - column : column);
    if (cut.row !== null) {
      const rows = this.shape[cut.row];
      const row = place(event.clientY - box.top, box.height, rows);
      this.move(cut.row, this.space ? rows - 1 - row : row);
    }
    this.enter(cut);
    this.draw();
  }

  draw() {
    for (const cut of this.cuts) this.drawCut(cut);
    this.drawScale();
    const value = this.values[this.offset(this.at)];
    const names = this.at.map((place, mode) => this.indices(mode, place));
    const isMean = this.at.some((place, mode) => { const [first, last] = this.range(mode, place); return first < last; });
    const mean = isMean ? "mean " : "";
    const where = this.space
      ? `(${this.millimetres().map((one) => (Math.round(one * 10) / 10 + 0).toFixed(1)).join(", ")}) mm, voxel (${this.voxel().join(", ")})`
      : `(${names.join(", ")})`;
    this.root.querySelector("[data-value]").textContent = `${mean}${value.toPrecision(3)} at ${where}`;
    for (const input of this.root.querySelectorAll("input[data-mode]")) {
      const mode = Number(input.dataset.mode);
      input.value = this.at[mode];
      input.setAttribute("aria-valuetext", this.placeOf(mode));
    }
    const largest = this.map.largest.toPrecision(3);
    const reduced = this.map.edges.some((edges) => edges);
    const peak = `${this.map.peak.value.toPrecision(3)} at (${this.map.peak.at.map((index, mode) => this.coordinate(mode, index)).join(", ")})`;
    const remark = reduced ? `; long modes are shown as means of neighbouring entries, the largest single entry is ${peak}` : "";
    const least = this.threshold ? `; hidden below ${(this.threshold * this.map.largest).toPrecision(3)}` : "";
    this.root.querySelector("[data-range]").textContent = `from -${largest} to ${largest}${least}${remark}`;
    this.root.querySelector("[data-signs]").textContent = this.map.signs;
  }

  drawCut(cut) {
    const { across, row, column, frame, canvas, lines, letters, words } = cut;
    const context = canvas.getContext("2d");
    const image = context.createImageData(canvas.width, canvas.height);
    const [over, opacity, threshold, mirrored] = [this.over, this.opacity, this.threshold, this.mirrored(cut)];
    const colour = over ? colourOver : colourOf;
    const at = [...this.at];
    if (cut.channel !== undefined) at[this.content.colours.mode] = cut.channel;
    for (let i = 0; i < canvas.height; i += 1) {
      for (let j = 0; j < canvas.width; j += 1) {
        if (row !== null) at[row] = this.space ? canvas.height - 1 - i : i;
        at[column] = mirrored ? canvas.width - 1 - j : j;
        const offset = this.offset(at);
        const share = this.values[offset] / (this.map.largest || 1);
        const [red, green, blue] = colour(share);
        let cover = Math.abs(share) < threshold ? 0 : opacity;
        if (over) cover *= Math.min(1, Math.abs(share) * 4);
        const ground = over ? this.ground(at, offset) : [255, 255, 255];
        const pixel = 4 * (i * canvas.width + j);
        image.data[pixel] = red * cover + ground[0] * (1 - cover);
        image.data[pixel + 1] = green * cover + ground[1] * (1 - cover);
        image.data[pixel + 2] = blue * cover + ground[2] * (1 - cover);
        image.data[pixel + 3] = 255;
      }
    }
    context.putImageData(image, 0, 0);
    const share = (place, count, turned) => `${(100 * ((turned ? count - 1 - place : place) + 0.5)) / count}%`;
    lines[0].style.left = share(this.at[column], canvas.width, mirrored);
    lines[1].style.top = row === null ? "50%" : share(this.at[row], canvas.height, this.space);
    lines[1].hidden = row === null;
    letters.forEach((letter, side) => { letter.textContent = ends[column][mirrored ? 1 - side : side]; });
    const sides = this.space
      ? `${cutNames[across]}, ${letters.map((letter) => letter.textContent).join(" to ")}`
      : row === null ? `${this.nameOf(column)} →` : `${this.nameOf(row)} ↓, ${this.nameOf(column)} →`;
    const cutAt = across === null ? "" : this.space ? `, ${this.nameOf(across)} = ${this.placeOf(across)}` : `; ${this.nameOf(across)} at ${this.placeOf(across)}`;
    const channel = cut.channel === undefined ? "" : `${this.content.colours.names[cut.channel]}: `;
    words.textContent = `${channel}${sides}${cutAt}`;
    frame.setAttribute("aria-label", `map, ${channel}${sides}${cutAt}; arrow keys move the crosshair`);
  }

  drawScale() {
    const canvas = this.root.querySelector("[data-scale]");
    const context = canvas.getContext("2d");
    const colour = this.over ? colourOver : colourOf;
    for (let x = 0; x < canvas.width; x += 1) {
      const share = (2 * x) / (canvas.width - 1) - 1;
      context.fillStyle = Math.abs(share) < this.threshold ? "#888" : `rgb(${colour(share).join(",")})`;
      context.fillRect(x, 0, 1, canvas.height);
    }
  }
}

for (const root of document.querySelectorAll("[data-viewer]")) new Viewer(root);
