// The questions to the server (labkit/panel/handlers.py). JupyterLab's own connection adds the token or the
// cookie with its XSRF token.

const GONE = "The server does not answer. Is the window where you typed `make lab` still open?";

export class Server {
  constructor({ ServerConnection }, { URLExt }) {
    this.connection = ServerConnection;
    this.settings = ServerConnection.makeSettings();
    this.window = crypto.randomUUID?.() ?? String(Math.random()); // which window of the browser asks
    this.address = (name) => URLExt.join(this.settings.baseUrl, "labkit/api", name);
  }

  state() {
    return this.#json("state", { method: "GET" });
  }

  hint(ex) {
    return this.#json("hint", { method: "POST", body: JSON.stringify({ ex }) });
  }

  reset(path, notebook, ex) {
    return this.#json("reset", { method: "POST", body: JSON.stringify({ path, notebook, ex }) });
  }

  /** Why JupyterLab cannot open a lesson, in a sentence; null if it can. */
  async problem(path) {
    return (await this.#json("problem", { method: "POST", body: JSON.stringify({ path }) })).problem;
  }

  /** Say which notebooks this window has open. Nothing depends on the answer. */
  opened(paths) {
    const body = JSON.stringify({ window: this.window, paths });
    void this.#ask("open", { method: "POST", body, keepalive: true }).catch(() => {});
  }

  /** Check a notebook whose file was read at the time `modified`. `tell` hears every line of the answer as it
   *  arrives; abort `signal` to stop. */
  async check(path, notebook, modified, tell, signal) {
    const body = JSON.stringify({ path, notebook, modified });
    const response = await this.#ask("check", { method: "POST", body, signal });
    const reader = response.body.pipeThrough(new TextDecoderStream()).getReader();
    let [rest, last] = ["", null];
    for (;;) {
      const { value, done } = await reader.read().catch(() => ({ done: true })); // the server may be gone
      if (done) break;
      const lines = (rest + value).split("\n");
      rest = lines.pop();
      for (const line of lines) tell((last = JSON.parse(line)));
    }
    if (!["end", "stopped", "error"].includes(last?.kind)) throw new Error(`The check broke off. ${GONE}`);
  }

  async #json(name, init) {
    return (await this.#ask(name, init)).json();
  }

  async #ask(name, init) {
    let response;
    try {
      response = await this.connection.makeRequest(this.address(name), init, this.settings);
    } catch (error) {
      throw init.signal?.aborted ? error : new Error(GONE);
    }
    if (response.ok) return response;
    const reply = await response.json().catch(() => ({}));
    throw new Error(reply.message ?? `The server answers ${response.status}. Start \`make lab\` again.`);
  }
}
