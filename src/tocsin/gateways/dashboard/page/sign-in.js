/** The sign-in form: it sends a token, or the code of a one-time link, to the hub once; the hub sets a session cookie that scripts cannot read. */
const form = document.getElementById("sign-in");
const problem = document.getElementById("sign-in-problem");
const input = document.getElementById("token");
const asked = location.search;

/** Sign in with `{token}` or `{code}`, and go to the page `then`. The id of the token tells the hub its project. */
async function signIn(credentials, tokenId, then) {
  const button = form.querySelector("button");
  button.disabled = true;
  problem.hidden = true;
  try {
    const answer = await fetch("/sign-in", {
      method: "POST",
      headers: { "Content-Type": "application/json", "Tocsin-Dashboard": "1", ...(tokenId ? { "Tocsin-Token-Id": tokenId } : {}) },
      body: JSON.stringify(credentials),
    });
    if (answer.ok) {
      const given = new URLSearchParams(asked);
      const project = given.get("project");
      location.replace(given.get("next") === "docs" ? "/docs" : `/${project ? `?${new URLSearchParams({ project })}` : ""}${then}`);
      return;
    }
    const document = await answer.json().catch(() => ({}));
    problem.textContent = document.detail ?? `The hub answered with status ${answer.status}.`;
  } catch {
    problem.textContent = "The hub does not answer. Is it running?";
  }
  problem.hidden = false;
  button.disabled = false;
  input.select();
}

form.addEventListener("submit", (event) => {
  event.preventDefault();
  const token = input.value.trim();
  signIn({ token }, /^tcs_([0-9a-f]{16})_/.exec(token)?.[1], location.hash);
});

const [, code, tokenId] = /^#code=([\w-]+)(?:\.([0-9a-f]{16}))?$/.exec(location.hash) ?? [];
if (code) {
  history.replaceState(null, "", location.pathname); // The code is valid once: keep it out of the history.
  signIn({ code }, tokenId, "");
}
