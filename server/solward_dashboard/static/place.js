// Shows the place that the address names after its #, once the page has it: pages are drawn only
// after the service's answer, when the browser has stopped looking.
(() => {
  let wanted;
  const look = () => {
    const found = wanted && [...document.querySelectorAll("[data-place]")]
      .find(each => each.dataset.place === wanted && each.getClientRects().length > 0);
    if (!found) return;
    wanted = null;
    document.querySelectorAll(".sw-place").forEach(each => each.classList.remove("sw-place"));
    found.classList.add("sw-place");
    found.scrollIntoView({block: "center"});
  };
  const begin = () => {
    // An address that nobody could write has no place.
    try { wanted = decodeURIComponent(location.hash.slice(1)); } catch { wanted = null; }
    look();
  };
  addEventListener("hashchange", begin);
  addEventListener("DOMContentLoaded", begin);
  new MutationObserver(look).observe(document, {subtree: true, childList: true});
})();
