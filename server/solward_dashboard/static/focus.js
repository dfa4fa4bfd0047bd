// Keeps the keyboard's focus where a poll draws what has it anew, disables or hides it, and where a
// dialog is taken away: a browser drops it then, and the next press of Tab begins at the top.
(() => {
  // What has the focus, or had it last. `left` is whether it could have kept it.
  let last = null;
  // Of a dialog, what had the focus when it opened.
  const openers = new WeakMap();
  const names = ["data-testid", "aria-label", "href", "name"];
  const shown = each => each.isConnected && each.getClientRects().length > 0;
  const usable = each => shown(each) && !each.disabled
    && each.getAttribute("aria-disabled") !== "true";
  const dialog = each => each.closest(".q-dialog");
  // What it is called, and in what: an element drawn anew has another id.
  const called = each => [each.tagName, ...names.map(name => each.getAttribute(name) || ""),
    each.getAttribute("aria-label") ? "" : each.textContent].join("\n");
  const within = each =>
    each.parentElement?.closest("[data-testid]")?.getAttribute("data-testid") || "";
  const twin = of => [...document.getElementsByTagName(of.element.tagName)].find(
    each => usable(each) && called(each) === of.called && within(each) === of.within);
  // Never another control: a second press of Enter would do what nobody asked for.
  const place = of => (usable(of.element) ? of.element : twin(of))
    || (of.opener ? place(of.opener) : of.around.find(shown)) || document.querySelector(".sw-main");

  document.addEventListener("focusin", ({target}) => {
    // Sent on meanwhile, as a dialog does with what is not in it.
    if (target !== document.activeElement) return;
    const around = [];
    for (let each = target.parentElement; each; each = each.parentElement)
      if (each.matches("button, a, [tabindex='0'], .sw-card, .sw-main")) around.push(each);
    const inside = dialog(target);
    if (inside && last && !openers.has(inside)) openers.set(inside, last);
    last = {element: target, called: called(target), within: within(target), around,
      opener: inside && openers.get(inside)};
  });
  document.addEventListener("focusout", ({target}) => {
    if (last?.element === target) last.left = usable(target);
  });
  new MutationObserver(() => {
    if (!last || document.activeElement !== document.body || !document.hasFocus()) return;
    // Left by a person or a dialog, or disabled until an answer comes.
    if (shown(last.element) && (last.left || !usable(last.element))) return;
    const next = place(last);
    if (!next) return;
    if (next.tabIndex < 0) next.setAttribute("tabindex", "-1");
    next.focus({preventScroll: true});
  }).observe(document.documentElement, {subtree: true, childList: true, attributes: true,
    attributeFilter: ["class", "disabled", "aria-disabled", "style"]});
})();
