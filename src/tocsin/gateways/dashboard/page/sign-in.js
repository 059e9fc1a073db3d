/** The sign-in form: it sends the token to the hub once; the hub sets a session cookie that scripts cannot read. */
const form = document.getElementById("sign-in");
const problem = document.getElementById("sign-in-problem");
const input = document.getElementById("token");

form.addEventListener("submit", async (event) => {
  event.preventDefault();
  const button = form.querySelector("button");
  button.disabled = true;
  problem.hidden = true;
  try {
    const answer = await fetch("/sign-in", {
      method: "POST",
      headers: { "Content-Type": "application/json", "Tocsin-Dashboard": "1" },
      body: JSON.stringify({ token: input.value.trim() }),
    });
    if (answer.ok) {
      location.replace("/" + location.hash);
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
});
