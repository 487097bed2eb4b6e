// Every text that can be seen, with its contrast (WCAG 2.2, 1.4.3); those that fall short of AA.
() => {
  const canvas = document.createElement("canvas").getContext("2d", { willReadFrequently: true });
  canvas.canvas.width = canvas.canvas.height = 1;
  const known = new Map();
  function rgba(colour) {
    if (!known.has(colour)) {
      canvas.clearRect(0, 0, 1, 1);
      canvas.fillStyle = colour;
      canvas.fillRect(0, 0, 1, 1);
      const [r, g, b, a] = canvas.getImageData(0, 0, 1, 1).data;
      known.set(colour, [r, g, b, a / 255]);
    }
    return known.get(colour);
  }
  const over = (top, under) => {
    const [r, g, b] = [0, 1, 2].map((i) => top[i] * top[3] + under[i] * (1 - top[3]));
    return [r, g, b, 1];
  };
  const behind = new Map();
  function backdrop(element) {
    if (!behind.has(element)) behind.set(element, paint(element));
    return behind.get(element);
  }
  function paint(element) {
    if (!element) return [255, 255, 255, 1];
    const style = getComputedStyle(element);
    const own = rgba(style.backgroundColor);
    const whole = own[3] * Number(style.opacity);
    if (whole >= 0.999) return own;
    return over([own[0], own[1], own[2], whole], backdrop(element.parentElement));
  }
  function opacity(element) {
    let all = 1;
    for (let at = element; at; at = at.parentElement) all *= Number(getComputedStyle(at).opacity);
    return all;
  }
  const light = ([r, g, b]) => {
    const [x, y, z] = [r, g, b].map((v) => (v /= 255) <= 0.04045 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4);
    return 0.2126 * x + 0.7152 * y + 0.0722 * z;
  };
  function ratio(one, other) {
    const [low, high] = [light(one), light(other)].sort((a, b) => a - b);
    return (high + 0.05) / (low + 0.05);
  }
  const seen = (element) => {
    const box = element.getBoundingClientRect();
    return element.checkVisibility({ opacityProperty: true, visibilityProperty: true })
      && box.width > 1 && box.height > 1 && getComputedStyle(element).fontSize !== "0px"
      && !element.closest("[disabled], [aria-disabled=true]");
  };
  const short = [];
  let count = 0;
  function look(element, style, text) {
    const under = backdrop(element);
    const colour = rgba(style.color);
    const found = ratio(over([colour[0], colour[1], colour[2], colour[3] * opacity(element)], under), under);
    const size = parseFloat(style.fontSize);
    const large = size >= 24 || (size >= 18.66 && Number(style.fontWeight) >= 700);
    count += 1;
    if (found < (large ? 3 : 4.5)) {
      const name = element.tagName.toLowerCase() + (element.id ? "#" + element.id : "")
        + (element.className && element.className.split ? "." + element.className.split(" ").join(".") : "");
      short.push(`${found.toFixed(2)} ${name}: ${text.trim().slice(0, 40)}`);
    }
  }
  const walk = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
  while (walk.nextNode()) {
    const element = walk.currentNode.parentElement;
    if (!walk.currentNode.data.trim() || element.closest("script, style, noscript") || !seen(element)) continue;
    look(element, getComputedStyle(element), walk.currentNode.data);
  }
  for (const box of document.querySelectorAll("input[placeholder], textarea")) {
    if (!seen(box)) continue;
    if (box.placeholder) look(box, getComputedStyle(box, "::placeholder"), box.placeholder);
    look(box, getComputedStyle(box), box.value || "value");
  }
  return { count, short: [...new Set(short)] };
}
