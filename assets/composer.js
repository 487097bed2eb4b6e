// Around the message box: files are read here and sent as data of an event, and after a pause in
// typing the server is asked what the message comes to. No file goes through an upload route.
(() => {
  const PAUSE = 600;

  function base64(file) {
    return new Promise((resolve, reject) => {
      const reader = new FileReader();
      reader.onerror = () => reject(reader.error);
      reader.onload = () => resolve(reader.result.slice(reader.result.indexOf(",") + 1));
      reader.readAsDataURL(file);
    });
  }

  async function listed(files, most) {
    const found = [];
    let sum = 0;
    for (const file of files) {
      const one = { name: file.name, size: file.size, data: "" };
      found.push(one);
      if (!file.size || file.size > most || (sum += file.size) > 4 * most) continue;
      try {
        one.data = await base64(file);
      } catch {
        one.size = -1;  // a folder, or a file nobody may read: the server finds the words
      }
    }
    return found;
  }

  function compose(element, most, attach, count) {
    // A message that is sent while a file is on its way goes when the file is there.
    let reading = 0, late = false;
    const done = () => {
      clearTimeout(reading);
      reading = 0;
      element.classList.remove("reading");
      if (!late) return;
      late = false;
      document.getElementById("send")?.click();
    };
    const take = async (files) => {
      if (!files.length) return;
      clearTimeout(reading);
      reading = setTimeout(done, 10000);
      element.classList.add("reading");
      attach(await listed(files, most));
    };
    const hold = (event) => {
      const sent = event.type === "click" ? event.target.closest("#send")
        : event.key === "Enter" && !event.shiftKey && event.target.closest?.("#message");
      if (!reading || !sent) return;
      event.preventDefault();
      event.stopImmediatePropagation();
      late = true;
    };
    for (const type of ["click", "keydown"]) document.addEventListener(type, hold, true);
    for (const id of ["files", "notice"]) {
      const told = document.getElementById(id);
      if (told) new MutationObserver(() => { if (reading) done(); }).observe(told, { childList: true, subtree: true });
    }
    element.addEventListener("change", async (event) => {
      const input = event.target.closest("input[type=file]");
      if (!input) return;
      await take([...input.files]);
      input.value = "";
    });

    const here = (event) => event.target.closest?.("#chat") && event.dataTransfer?.types.includes("Files");
    const mark = (on) => document.getElementById("write")?.classList.toggle("dropping", on);
    document.addEventListener("dragover", (event) => {
      if (!here(event)) return;
      event.preventDefault();
      mark(true);
    });
    document.addEventListener("dragleave", (event) => { if (!event.relatedTarget) mark(false); });
    document.addEventListener("drop", (event) => {
      mark(false);
      if (!here(event)) return;
      event.preventDefault();
      take([...event.dataTransfer.files]);
    });
    document.addEventListener("paste", (event) => {
      const data = event.clipboardData;
      if (!event.target.closest?.("#message") || !data?.files.length || data.types.includes("text/plain")) return;
      event.preventDefault();
      event.stopPropagation();
      take([...data.files]);
    }, true);

    let wait = 0;
    const soon = (after) => {
      clearTimeout(wait);
      wait = setTimeout(() => { wait = 0; count(); }, after);
    };
    document.addEventListener("input", (event) => {
      if (event.target.closest?.("#message, #system")) soon(PAUSE);
    });
    document.addEventListener("focusout", (event) => {
      if (wait && event.target.closest?.("#message, #system")) soon(0);
    });
    // A reply ended or another conversation was opened while a message was being written; or the
    // count of a message came after it was sent.
    const meter = document.getElementById("meter");
    if (meter) new MutationObserver(() => {
      const written = document.querySelector("#message textarea")?.value.trim()
        || document.querySelector("#files .files");
      if (Boolean(written) !== Boolean(meter.querySelector(".planned"))) soon(PAUSE);
    }).observe(meter, { childList: true, subtree: true });
  }

  window.specdec.compose = compose;
})();
