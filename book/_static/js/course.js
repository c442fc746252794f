// Ce que les thèmes n'offrent pas de régler autrement.
document.addEventListener("DOMContentLoaded", () => {
  // sphinx-togglebutton nomme ses boutons en anglais pour les lecteurs d'écran.
  for (const button of document.querySelectorAll("button.toggle-button")) {
    button.setAttribute("aria-label", "Afficher ou masquer ce contenu");
  }

  // ipywidgets compose ses formules par l'interface de MathJax 2 ; le livre emploie MathJax 3, qui ne l'a plus.
  if (!window.MathJax?.startup) return;
  window.MathJax.Hub = {
    Queue: ([, , element]) => window.MathJax.startup.promise.then(() => window.MathJax.typesetPromise([element])),
  };
});
