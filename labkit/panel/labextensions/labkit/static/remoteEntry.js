// How JupyterLab finds the panel: a module-federation container, written by hand so that nobody needs Node.
//
// JupyterLab loads this file as a script, calls `init` with the modules it shares (a table of name, version and
// loader), then asks for "./style" and "./extension". Everything else is in plain ES modules beside this file.

(() => {
  const here = new URL(".", document.currentScript.src);
  let shared = {};

  // A module of JupyterLab itself, never a copy: its tokens and signals are compared by identity.
  async function use(name) {
    const versions = Object.values(shared[name] ?? {});
    if (!versions.length) {
      throw new Error(`labkit: this JupyterLab does not share ${name}. The panel needs JupyterLab 4.`);
    }
    return (await versions[0].get())();
  }

  async function extension() {
    const { makePlugin } = await import(new URL("extension.js", here).href);
    const plugin = await makePlugin(use);
    return () => ({ __esModule: true, default: plugin });
  }

  async function style() {
    const link = document.createElement("link");
    link.rel = "stylesheet";
    link.href = new URL("labkit.css", here).href;
    document.head.appendChild(link);
    return () => ({});
  }

  window._JUPYTERLAB = window._JUPYTERLAB ?? {};
  window._JUPYTERLAB.labkit = {
    init: (scope) => {
      shared = scope;
    },
    get: (name) => (name === "./style" ? style() : extension()),
  };
})();
