/** Signing in: the token goes to the hub once, and a cookie that no script can read comes back. */
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
    problem.textContent = document.detail ?? `The hub answered ${answer.status}.`;
  } catch {
    problem.textContent = "The hub does not answer. Is it running?";
  }
  problem.hidden = false;
  button.disabled = false;
  input.select();
});
