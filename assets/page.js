// Everything the page does in the browser by itself: copy, stick to the end, name the address.
// Nothing here reads what a model wrote except to copy it.
(() => {
  // The words in the user's language, as app/script_words.py put them into the head.
  let words = null;
  function tr(text, name = "") {
    words ??= JSON.parse(document.getElementById("words")?.textContent || "{}");
    return (words[text] || text).replace("{name}", () => name);
  }

  async function copy(text) {
    if (navigator.clipboard && window.isSecureContext) return navigator.clipboard.writeText(text);
    const area = document.createElement("textarea");
    area.value = text;
    document.body.append(area);
    area.select();
    document.execCommand("copy");
    area.remove();
  }

  function told(button, text) {
    button.dataset.name ??= button.textContent; // a second click must not take "Copied" for it
    button.textContent = text;
    window.specdec.say(text);
    setTimeout(() => { button.textContent = button.dataset.name; }, 1200);
  }

  async function act(button, send) {
    const name = button.dataset.act;
    const owner = button.closest("[data-id]");
    if (name === "copy-code") {
      await copy(button.closest(".code").querySelector("code").textContent);
      return told(button, tr("Copied"));
    }
    if (name === "copy") {
      await copy(owner.querySelector(".source").textContent);
      return told(button, tr("Copied"));
    }
    if (owner) send(name, { id: owner.dataset.id, title: owner.dataset.title || "" });
  }

  // Copying works everywhere; other acts belong to the component that was bound.
  document.addEventListener("click", (event) => {
    const button = event.target.closest("[data-act]");
    if (!button || !button.dataset.act.startsWith("copy")) return;
    act(button, () => {});
  });

  function bind(element, send) {
    element.addEventListener("click", (event) => {
      const button = event.target.closest("[data-act]");
      if (!button || button.dataset.act.startsWith("copy")) return;
      if (button.dataset.act === "show") stepped = [button.closest("[data-id]").dataset.id, button.dataset.way];
      act(button, send);
    });
  }

  // Another version comes with buttons of its own: the one that was pressed keeps the focus.
  let stepped = null;
  function refocus(scroller) {
    const turn = stepped && scroller.querySelector(`.turn[data-id="${stepped[0]}"]`);
    if (!turn) return;
    const buttons = [...turn.querySelectorAll('[data-act="show"]:enabled')];
    (buttons.find((button) => button.dataset.way === stepped[1]) || buttons[0])?.focus();
    stepped = null;
  }

  // An example goes to the message box, where it can be changed before it is sent.
  document.addEventListener("click", (event) => {
    const button = event.target.closest("[data-fill]");
    const box = document.querySelector("#message textarea");
    if (!button || !box || box.disabled) return;
    box.value = button.textContent;
    box.dispatchEvent(new Event("input", { bubbles: true }));
    box.focus();
  });

  // A saved conversation is posted as it is; the server reads it and says what is wrong with it.
  document.addEventListener("change", async (event) => {
    const input = event.target.closest("[data-import]");
    if (!input || !input.files.length) return;
    const file = input.files[0];
    try {
      if (file.size > 8 * 2 ** 20) return alert(tr("The file is larger than 8 MB: that is no conversation of this program."));
      const answer = await fetch("./chats", { method: "POST", body: await file.text() });
      if (!answer.ok) return alert(await answer.text());
      location.search = "?c=" + (await answer.json()).id;
    } catch (error) {
      alert(tr("The file could not be sent: {name}", error.message));
    } finally {
      input.value = "";
    }
  });

  const KEYS = [
    ["Enter", "Send"],
    ["Shift Enter", "New line"],
    ["Esc", "Stop the reply"],
    ["Ctrl K", "Search the conversations"],
    ["?", "This list"],
  ];

  function help() {
    let dialog = document.getElementById("keys");
    if (!dialog) {
      dialog = document.createElement("dialog");
      dialog.id = "keys";
      dialog.setAttribute("aria-label", tr("Keys"));
      const list = document.createElement("dl");
      for (const [key, what] of KEYS) {
        list.append(document.createElement("dt"), document.createElement("dd"));
        list.children[list.children.length - 2].textContent = key;
        list.lastChild.textContent = tr(what);
      }
      dialog.append(list);
      dialog.addEventListener("click", () => dialog.close());
      document.body.append(dialog);
    }
    if (!dialog.open) dialog.showModal();
  }

  function search() {
    const list = document.getElementById("history");
    if (!list) return;
    if (!list.classList.contains("open")) list.querySelector(".toggle-button").click();
    requestAnimationFrame(() => document.querySelector("#search input, #search textarea")?.focus());
  }

  // What is asked for before gradio has put its part on the page is done when it is there.
  function whenThere(id, act, end = Date.now() + 5000) {
    const part = document.getElementById(id);
    if (part) act(part);
    else if (Date.now() < end) requestAnimationFrame(() => whenThere(id, act, end));
  }

  document.addEventListener("keydown", (event) => {
    const typing = event.target.closest("input, textarea, [contenteditable], dialog");
    if ((event.ctrlKey || event.metaKey) && event.key.toLowerCase() === "k") {
      event.preventDefault();
      search();
    } else if (event.key === "Escape" && !event.isComposing && !event.defaultPrevented
      && !event.target.closest("dialog, #search, #drawer, #race, #models, [role=listbox]")) {
      if (document.querySelector("#live .turn")) document.getElementById("stop")?.click();
    } else if (event.key === "?" && !typing) {
      help();
    }
  });

  // On a phone the list covers the page: a choice folds it away.
  document.addEventListener("click", (event) => {
    const list = document.getElementById("history");
    if (window.innerWidth > 900 || !list || !list.classList.contains("open")) return;
    if (event.target.closest("#new, #share, #chats .open")) list.querySelector(".toggle-button").click();
  });

  // Keep the end in view while it grows, unless the reader scrolled up.
  function stick(scroller) {
    let end = true;
    scroller.addEventListener("scroll", () => {
      end = scroller.scrollHeight - scroller.scrollTop - scroller.clientHeight < 80;
    });
    let shown = "";
    new MutationObserver(() => {
      refocus(scroller);
      const thread = scroller.querySelector("[data-conversation]");
      const now = thread ? thread.dataset.conversation : "";
      if (now !== shown) {
        shown = now;
        end = true;
        const url = new URL(location.href);
        url.searchParams.set("c", now || "new");
        history.replaceState(null, "", url);
      }
      if (end) scroller.scrollTop = scroller.scrollHeight;
    }).observe(scroller, { childList: true, subtree: true, characterData: true, attributes: true });
  }

  const found = new Set();
  const parts = { scroller: stick };
  const wait = new MutationObserver(() => {
    for (const [id, begin] of Object.entries(parts)) {
      const element = document.getElementById(id);
      if (element && !found.has(id)) { found.add(id); begin(element); }
    }
    if (found.size === 1) wait.disconnect();
  });
  wait.observe(document.documentElement, { childList: true, subtree: true });

  // A part of the page as a dialog: the browser keeps the focus in it, and Esc closes it.
  const dialog = (id, name) => whenThere(id, (part) => show(part, name));
  function show(part, name) {
    let frame = part.closest("dialog");
    if (!frame) {
      frame = document.createElement("dialog");
      frame.className = "sheet";
      frame.setAttribute("aria-label", name);
      part.before(frame);
      frame.append(part);
      frame.addEventListener("click", (event) => { if (event.target === frame) frame.close(); });
    }
    if (!frame.open) frame.showModal();
  }

  window.specdec = { bind, dialog, help, tr };
})();
