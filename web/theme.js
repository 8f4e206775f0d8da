// Sets the theme before the first paint, so a dark room sees no white flash: a classic script in
// the head for that reason. data-choice is what the user chose ('': the system's), data-theme what
// holds. main.js has the button; it says 'choice' after a change, and drawings listen to 'theme'.
(() => {
    const root = document.documentElement;
    const system = matchMedia('(prefers-color-scheme: dark)');
    const apply = () => {
        root.dataset.theme = root.dataset.choice || (system.matches ? 'dark' : 'light');
        document.dispatchEvent(new Event('theme'));
    };
    try {
        const stored = localStorage.getItem('runnel.theme');
        root.dataset.choice = stored === 'light' || stored === 'dark' ? stored : '';
    } catch {
        root.dataset.choice = ''; // no storage
    }
    system.addEventListener('change', apply);
    document.addEventListener('choice', apply);
    apply();
})();
