"use strict";
const one = (where, selector) => where.querySelector(selector);
const wrong = document.getElementById("wrong");
let looked = null; // what was understood, and is fitted next

async function ask(address, given) {
  const options = given === undefined ? {} : given instanceof Blob ? { method: "POST", body: given } : {
    method: "POST", headers: { "Content-Type": "application/json" }, body: JSON.stringify(given),
  };
  let answer;
  try {
    answer = await fetch(address, options);
  } catch {
    throw new Error("The page has no connection: is `tensormargin app` still running?");
  }
  const content = await answer.json();
  if (!answer.ok) throw new Error(content.error);
  return content;
}

// Run something that may be refused, and show why.
async function attempt(button, work) {
  wrong.hidden = true;
  if (button) button.disabled = true;
  try {
    await work();
  } catch (error) {
    wrong.textContent = error.message;
    wrong.hidden = false;
    wrong.scrollIntoView({ block: "nearest" });
  } finally {
    if (button) button.disabled = false;
  }
}

// ---- files and options ----

const dataOf = (form) => one(form, ".data").value.split("|").map((name) => name.trim()).filter(Boolean);

function optionsOf(form) {
  const fields = [...form.querySelectorAll("[name]")];
  return Object.fromEntries(fields.map((field) => [field.name, field.type === "checkbox" ? field.checked : field.value]));
}

// All files of a dropped folder, with their paths.
async function filesIn(entry, path = "") {
  if (entry.isFile) {
    const file = await new Promise((done, failed) => entry.file(done, failed));
    return [[path + file.name, file]];
  }
  const reader = entry.createReader(), found = [];
  for (;;) {
    const some = await new Promise((done, failed) => reader.readEntries(done, failed));
    if (!some.length) break;
    for (const inner of some) found.push(...await filesIn(inner, `${path}${entry.name}/`));
  }
  return found;
}

async function keep(form, named) {
  const batch = Array.from(crypto.getRandomValues(new Uint8Array(8)), (byte) => byte.toString(16).padStart(2, "0")).join("");
  for (const [number, [name, file]] of named.entries()) {
    one(form, ".taken").textContent = `${number + 1} of ${named.length}: ${name}`;
    await ask(`files?batch=${batch}&name=${encodeURIComponent(name)}`, file);
  }
  const { data } = await ask(`files/${batch}`);
  one(form, ".data").value = data.join(" | ");
  one(form, ".taken").textContent = named.length === 1 ? "1 file added" : `${named.length} files added`;
}

function prepare(form) {
  const drop = one(form, ".drop");
  for (const name of ["dragenter", "dragover", "dragleave", "drop"]) {
    drop.addEventListener(name, (event) => {
      event.preventDefault();
      drop.classList.toggle("over", name === "dragenter" || name === "dragover");
    });
  }
  drop.addEventListener("drop", (event) => {
    const entries = [...event.dataTransfer.items].map((item) => item.webkitGetAsEntry()).filter(Boolean);
    attempt(null, async () => keep(form, (await Promise.all(entries.map((entry) => filesIn(entry)))).flat()));
  });
  for (const input of form.querySelectorAll("input[type=file]")) {
    input.addEventListener("change", () => {
      attempt(null, () => keep(form, [...input.files].map((file) => [file.webkitRelativePath || file.name, file])));
    });
  }
  for (const input of form.querySelectorAll("input[list]")) {
    input.addEventListener("input", () => attempt(null, async () => {
      const names = await ask(`files?under=${encodeURIComponent(input.value)}`);
      if (names.length) document.getElementById("names").replaceChildren(...names.map((name) => new Option(name, name)));
    }));
  }
}

// ---- look and fit ----

const fit = document.getElementById("fit"), understood = document.getElementById("understood");
prepare(fit);
fit.addEventListener("submit", (event) => {
  event.preventDefault();
  understood.hidden = true;
  attempt(one(fit, "button[type=submit]"), async () => {
    const given = { data: dataOf(fit), options: optionsOf(fit) };
    const found = await ask("look", given);
    looked = given;
    one(understood, ".html").innerHTML = found.html; // made and escaped by the library
    one(understood, ".remarks").replaceChildren(...found.remarks.map(item));
    one(understood, ".plan").textContent = `A fit makes ${found.plan}.`;
    one(understood, ".typed").textContent = found.typed;
    understood.hidden = false;
    understood.focus();
  });
});
document.getElementById("start").addEventListener("click", (event) => {
  attempt(event.target, async () => {
    show(await ask("runs", { command: "fit", ...looked }));
    understood.hidden = true;
  });
});

// ---- runs ----

function item(text) {
  const made = document.createElement("li");
  made.textContent = text;
  return made;
}

function newRun(run) {
  const made = document.getElementById("run").content.cloneNode(true).firstElementChild;
  made.id = run.id;
  for (const part of made.querySelectorAll("[id], [for]")) {
    for (const own of part.attributes) own.value = own.value.replace(/RUN$/, run.id);
  }
  const act = (name, work) => one(made, name).addEventListener("click", (event) => attempt(event.target, work));
  act(".stop", async () => show(await ask(`runs/${run.id}/stop`, {})));
  act(".resume", async () => show(await ask(`runs/${run.id}/resume`, {})));
  act(".maps", async () => show(await ask("runs", { command: "maps", of: run.id })));
  const form = one(made, "form");
  prepare(form);
  form.addEventListener("submit", (event) => {
    event.preventDefault();
    attempt(one(form, "button[type=submit]"), async () => {
      show(await ask("runs", { command: "predict", of: run.id, data: dataOf(form), options: optionsOf(form) }));
    });
  });
  document.getElementById("runs").prepend(made);
  return made;
}

function show(run) {
  const known = document.getElementById(run.id), made = known || newRun(run);
  const running = run.state === "running", finished = made.dataset.state !== run.state;
  made.dataset.state = run.state;
  const model = run.files.some((name) => name.endsWith(".skops"));
  one(made, "h2").textContent = `${run.command[0].toUpperCase()}${run.command.slice(1)}, ${run.id}: ${run.state}`;
  one(made, ".typed").textContent = run.typed;
  const left = run.left === "-" ? "" : `, about ${Math.max(1, Math.round(run.left))} s left`;
  const state = running ? `${Math.round(100 * run.share)} %${left}: ${run.doing}` : "";
  if (one(made, ".state").textContent !== state) one(made, ".state").textContent = state;
  one(made, "progress").value = run.share;
  one(made, "progress").hidden = one(made, ".stop").hidden = !running;
  one(made, ".resume").hidden = running || run.state === "done";
  one(made, ".maps").hidden = one(made, "form").hidden = !model;
  one(made, ".output").textContent = run.output;
  one(made, ".output").hidden = !run.output;
  if (finished) showFiles(made, run);
  return made;
}

function showFiles(made, run) {
  const address = (name) => `runs/${run.id}/files/${name.split("/").map(encodeURIComponent).join("/")}`;
  const links = run.files.map((name) => link(`${address(name)}?save`, name));
  one(made, ".files").replaceChildren(...links);
  const shown = run.files.filter((name) => /\.(html|png|svg)$/.test(name)).map((name) => {
    const part = document.createElement(name.endsWith(".html") ? "iframe" : "img");
    if (part.sandbox) part.sandbox = "allow-scripts allow-downloads";
    part.src = address(name);
    part.title = part.alt = name;
    return part;
  });
  one(made, ".shown").replaceChildren(...shown);
  const rows = run.files.filter((name) => name.endsWith("predictions.csv"));
  attempt(null, async () => one(made, ".shown").append(...await Promise.all(rows.map((name) => head(address(name))))));
}

function link(address, words) {
  const made = item(""), target = document.createElement("a");
  target.href = address;
  target.textContent = words;
  made.append(target);
  return made;
}

// The first rows of a file of predictions.
async function head(address) {
  const made = document.createElement("pre");
  made.textContent = (await (await fetch(address)).text()).split("\n").slice(0, 11).join("\n");
  return made;
}

// Other tabs may start, stop and resume runs as well, so all of them are asked for again and again.
async function follow() {
  let running = false;
  try {
    for (const run of await ask("runs")) running = show(run).dataset.state === "running" || running;
  } catch (error) {
    wrong.textContent = error.message;
    wrong.hidden = false;
  }
  setTimeout(follow, running ? 700 : 2000);
}
follow();
