// What a reply being written is to a reader: one quiet voice for screen readers, and a thought that
// stays folded once it was folded. The turns themselves are no live region: they change too often.
(() => {
  const voice = document.createElement("div");
  voice.className = "voice";
  voice.setAttribute("role", "status");

  function say(text) {
    voice.textContent = "";
    requestAnimationFrame(() => { voice.textContent = text; });
  }

  const shown = () => document.querySelector("#thread [data-conversation]")?.dataset.conversation;
  const last = () => [...document.querySelectorAll("#thread .turn.reply")].pop();

  // Each step once, not each figure; at the end the words of the reply.
  function listen(live) {
    let step = "", place;
    new MutationObserver(() => {
      const turn = live.querySelector(".turn");
      if (turn) {
        const wait = turn.querySelector(".wait span");
        const now = wait ? wait.textContent.split(" · ")[0] : window.specdec.tr("The reply is being written");
        if (!step) place = shown();
        if (now !== step) say(now);
        step = now;
      } else if (step) {
        step = "";
        requestAnimationFrame(() => {
          const body = last()?.querySelector(".body");
          if (body && shown() === place) say(body.innerText);
        });
      }
    }).observe(live, { childList: true, subtree: true, characterData: true });
  }

  // The reply is drawn anew many times a second: a click would seldom end where it began.
  function fold(live) {
    let folded = false;
    const summary = (event) => event.target.closest(".thought summary");
    live.addEventListener("pointerdown", (event) => {
      const thought = summary(event)?.parentElement;
      if (!thought) return;
      folded = thought.open;
      thought.open = !folded;
    });
    live.addEventListener("click", (event) => { if (summary(event)) event.preventDefault(); });
    new MutationObserver(() => {
      const thought = live.querySelector(".thought");
      if (!thought) folded = false;
      else if (folded && thought.open) thought.open = false;
    }).observe(live, { childList: true, subtree: true, attributes: true });
  }

  const wait = new MutationObserver(() => {
    const live = document.getElementById("live");
    if (!live) return;
    wait.disconnect();
    document.body.append(voice); // not sooner: gradio empties the body when it begins
    listen(live);
    fold(live);
  });
  wait.observe(document.documentElement, { childList: true, subtree: true });

  window.specdec.say = say;
})();
