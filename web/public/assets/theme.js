// Before anything is painted: the theme that was chosen here, if one was.
try {
  const chosen = localStorage.getItem("memorist_theme");
  if (chosen === "light" || chosen === "dark") document.documentElement.dataset.theme = chosen;
} catch {}
