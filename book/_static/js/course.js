// ipywidgets compose ses formules par l'interface de MathJax 2 ; le livre emploie MathJax 3, qui ne l'a plus.
document.addEventListener("DOMContentLoaded", () => {
  if (!window.MathJax?.startup) return;
  window.MathJax.Hub = {
    Queue: ([, , element]) => window.MathJax.startup.promise.then(() => window.MathJax.typesetPromise([element])),
  };
});
