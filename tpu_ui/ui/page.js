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

// Gradio's messages fold by a heading that holds the button to close them. A button within a button
// is not read out: a mouse still folds them.
new MutationObserver(() => {
  for (const heading of document.querySelectorAll(".toast-header[role]")) {
    heading.removeAttribute("role");
    heading.removeAttribute("tabindex");
  }
}).observe(document.documentElement, { childList: true, subtree: true });

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

// What this browser keeps, for all its tabs: the name of each picture, under a key of its own with
// its place in the list, and the job that was asked for last. Tabs write at the same time, and one
// key for the whole list would lose what another tab has just put into it. The server says what to
// add and what to drop; it is told the whole.
const KEPT = "tpu-ui";
const PICTURE = "tpu-ui picture ";

function readKept() {
  try {
    const places = Object.entries(localStorage).filter(([key]) => key.startsWith(PICTURE));
    places.sort(([, one], [, other]) => other - one);
    const pictures = places.map(([key]) => key.slice(PICTURE.length));
    return { job: sessionStorage.getItem(KEPT) ?? localStorage.getItem(KEPT) ?? "", pictures };
  } catch {
    return { job: "", pictures: [] };
  }
}

function keepPictures(props, watch, listed) {
  let [told, last] = ["", 0];
  const tell = () => {
    props.value = readKept();
    const list = JSON.stringify(props.value.pictures);
    if (list === told) return;
    told = list;
    listed();
  };
  watch("value", () => {
    const { job, add, drop } = props.value ?? {};
    if (!add) return;
    sessionStorage.setItem(KEPT, job);
    localStorage.setItem(KEPT, job);
    last = Math.max(Date.now(), last + add.length);
    add.forEach((name, at) => localStorage.setItem(PICTURE + name, last - at));
    const old = readKept().pictures.slice(props.most);
    for (const name of [...drop, ...old]) localStorage.removeItem(PICTURE + name);
    tell();
  });
  let waits; // one change comes as many events
  addEventListener("storage", (event) => {
    if (event.key !== null && !event.key.startsWith(PICTURE)) return;
    clearTimeout(waits);
    waits = setTimeout(() => {
      if (!readKept().pictures.length) sessionStorage.removeItem(KEPT); // forgotten, the job's too
      tell();
    }, 20);
  });
  props.value = readKept();
}
