// Marks a text of which lines are cut off: what shows all of it is offered only beside such a one.
// How many lines it takes is known here alone, and changes with the text, its width and the font.
(() => {
  const mark = text => {
    // Shown whole it has nothing cut off, and is to be folded again.
    if (text.matches(".sw-clamp"))
      text.toggleAttribute("data-cut", text.scrollHeight > text.clientHeight);
  };
  const sized = new ResizeObserver(texts => texts.forEach(({target}) => mark(target)));
  const look = () => document.querySelectorAll(".sw-clamp").forEach(text => {
    sized.observe(text);
    mark(text);
  });
  new MutationObserver(look).observe(document.documentElement,
    {subtree: true, childList: true, characterData: true});
  document.fonts.addEventListener("loadingdone", look);
})();
