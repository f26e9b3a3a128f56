// What the browser would do otherwise, or not at all: shortcuts, and a picture dropped anywhere.

// Ctrl+Enter (or Cmd+Enter) in a prompt generates; Escape cancels what this page has asked for.
document.addEventListener("keydown", (event) => {
  const target = event.target instanceof Element ? event.target : document.body;
  if (event.key === "Enter" && (event.ctrlKey || event.metaKey)) {
    if (!target.closest("#prompt, #negative-prompt")) return;
    event.preventDefault();
    document.querySelector("#generate:not(:disabled)")?.click();
  }
  if (event.key === "Escape") {
    // An open list or an enlarged picture closes first.
    if (target.closest('[aria-expanded="true"], #pictures')) return;
    document.querySelector("#cancel:not(:disabled)")?.click();
  }
}, true);

// A PNG dropped anywhere goes into the file field of "Settings from a picture"; left to itself the
// browser would leave the page and open it.
document.addEventListener("dragover", (event) => {
  if (event.dataTransfer?.types.includes("Files")) event.preventDefault();
});
document.addEventListener("drop", (event) => {
  const files = event.dataTransfer?.files;
  const target = event.target instanceof Element ? event.target : document.body;
  if (!files?.length || target.closest("#png-file")) return;
  event.preventDefault();
  const section = document.querySelector("#from-picture");
  const heading = section?.querySelector("button");
  let tries = 60; // frames: an opened section takes some to be there
  const hand = () => {
    const field = section?.querySelector("#png-file input[type=file]");
    if (field) {
      const one = new DataTransfer();
      one.items.add(files[0]);
      field.files = one.files;
      field.dispatchEvent(new Event("change", { bubbles: true }));
      section.scrollIntoView({ block: "center" });
    } else if (tries-- > 0) {
      requestAnimationFrame(hand);
    }
  };
  if (section && !section.querySelector("#png-file")?.checkVisibility()) heading?.click();
  hand();
});

// The size picker: `value` is the size that is chosen, `cards` the HTML of picker.py. The cards
// change in place while one of them has the focus.
function pickSize(element, props, watch, picked) {
  const show = () => {
    for (const radio of element.querySelectorAll("input[type=radio]")) {
      radio.checked = radio.value === props.value;
    }
  };
  element.addEventListener("change", (event) => {
    props.value = event.target.value;
    picked();
  });
  watch(["value", "cards"], show);
  show();
}

// What this browser keeps: the names of its pictures, newest first, for all its tabs; and the job
// that each tab waits for. The server says what to add and what to drop; it is told the whole.
const KEPT = "tpu-ui";

function readKept() {
  try {
    const stored = JSON.parse(localStorage.getItem(KEPT)) ?? {};
    const pictures = Array.isArray(stored.pictures) ? stored.pictures : [];
    return { job: sessionStorage.getItem(KEPT) ?? stored.job ?? "", pictures };
  } catch {
    return { job: "", pictures: [] };
  }
}

function keepPictures(props, watch, changedElsewhere) {
  watch("value", () => {
    const { job, add, drop } = props.value ?? {};
    if (!add) return;
    const before = readKept().pictures; // anew: another tab may have written since
    const kept = before.filter((name) => !drop.includes(name) && !add.includes(name));
    const pictures = [...add, ...kept].slice(0, props.most);
    sessionStorage.setItem(KEPT, job);
    localStorage.setItem(KEPT, JSON.stringify({ job, pictures }));
    props.value = { job, pictures };
  });
  addEventListener("storage", (event) => {
    if (event.key !== KEPT && event.key !== null) return;
    const before = JSON.stringify(props.value?.pictures);
    if (!readKept().pictures.length) sessionStorage.removeItem(KEPT); // forgotten, the job's too
    props.value = readKept();
    if (JSON.stringify(props.value.pictures) !== before) changedElsewhere();
  });
  props.value = readKept();
}
