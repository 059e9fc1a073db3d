/** The project that the page shows: the one that its address names, `/?project=acme`, or else that of the session. */

/** Name in the address; empty if the page shows the project of the session. */
export const named = new URLSearchParams(location.search).get("project") ?? "";

/** Headers that name the project. */
export const projectHeaders = named ? { "Tocsin-Project": named } : {};

/** Add the project to the address of a document, which cannot have headers. */
export const inProject = (path) => (named ? `${path}?${new URLSearchParams({ project: named })}` : path);

/** Show another project, on the same page; details of the project that was shown are left. */
export function show(project, home) {
  const page = location.hash.replace(/^#\/?/, "").split(/[/?]/)[0] || "overview";
  location.assign(`/${project === home ? "" : `?${new URLSearchParams({ project })}`}#/${page}`);
}
