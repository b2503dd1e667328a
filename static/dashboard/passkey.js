// Has the browser create or use a passkey when a form with `data-passkey` is submitted without a code, and sends what it
// returns.
const CALLS = {
  create: (options) => navigator.credentials.create({ publicKey: PublicKeyCredential.parseCreationOptionsFromJSON(options) }),
  get: (options) => navigator.credentials.get({ publicKey: PublicKeyCredential.parseRequestOptionsFromJSON(options) }),
};

const isKnown = Boolean(window.PublicKeyCredential?.parseRequestOptionsFromJSON);

const run = async (form, submitter) => {
  const options = JSON.parse(document.getElementById(form.dataset.options).textContent);
  const credential = await CALLS[form.dataset.passkey](options);
  form.elements.passkey.value = JSON.stringify(credential);
  form.requestSubmit(submitter);
};

for (const form of document.querySelectorAll("form[data-passkey]")) {
  if (!isKnown) continue;
  form.hidden = false;
  form.addEventListener("submit", (event) => {
    if (form.elements.passkey.value || form.elements.code?.value) return;
    event.preventDefault();
    const error = form.querySelector("[data-error]");
    error.hidden = true;
    run(form, event.submitter).catch((failure) => {
      error.hidden = false;
      error.textContent = `The browser did not use a passkey: ${failure.message}`;
    });
  });
}
for (const note of document.querySelectorAll("[data-without-passkeys]")) note.hidden = isKnown;
