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

// Tables wider than the screen scroll by touch, mouse and keyboard, and say so above them, in a box of their own: the
// table may be a cell of a grid.
for (const box of document.querySelectorAll(".scroll")) {
  const hint = Object.assign(document.createElement("p"), { className: "hint", hidden: true });
  hint.textContent = "Scroll sideways for more columns →";
  const frame = document.createElement("div");
  box.replaceWith(frame);
  frame.append(hint, box);
}
function markWide() {
  for (const box of document.querySelectorAll(".scroll")) {
    const wide = box.scrollWidth > box.clientWidth + 1;
    box.classList.toggle("overflows", wide);
    if (wide || box.classList.contains("tall")) box.tabIndex = 0;
    else box.removeAttribute("tabindex");
    box.previousElementSibling.hidden = !wide;
  }
}
markWide();
window.addEventListener("resize", markWide);
document.addEventListener("toggle", markWide, true);

// Folded sections open when they are linked to, by the button, and for printing.
const folded = [...document.querySelectorAll("section > details")];
function openLinked() {
  const linked = document.getElementById(decodeURIComponent(location.hash.slice(1)));
  if (linked && linked.firstElementChild.matches("details")) linked.firstElementChild.open = true;
}
openLinked();
window.addEventListener("hashchange", openLinked);
document.querySelectorAll("nav a").forEach((one) => one.addEventListener("click", () => setTimeout(openLinked)));
for (const button of document.querySelectorAll("[data-unfold]")) {
  button.hidden = false;
  button.addEventListener("click", () => {
    const open = folded.some((one) => !one.open);
    folded.forEach((one) => { one.open = open; });
    button.textContent = open ? "Close all" : "Open all";
  });
}
let closed = [];
window.addEventListener("beforeprint", () => {
  closed = [...document.querySelectorAll("details:not([open])")];
  closed.forEach((one) => { one.open = true; });
});
window.addEventListener("afterprint", () => closed.forEach((one) => { one.open = false; }));

{% include "viewer.js" %}
