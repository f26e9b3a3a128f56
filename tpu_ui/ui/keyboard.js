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
