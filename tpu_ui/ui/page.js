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
