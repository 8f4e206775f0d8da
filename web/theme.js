// Sets the chosen theme before the first paint, so a dark room sees no white flash. A classic script
// in the head for that reason; the button that changes it is main.js's.
try {
    const theme = localStorage.getItem('runnel.theme');
    if (theme === 'light' || theme === 'dark') document.documentElement.dataset.theme = theme;
} catch {
    // no storage: the system's theme
}
