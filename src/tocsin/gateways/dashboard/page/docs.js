/** The API browser: the hub's OpenAPI document, with calls made in the session of the person who is signed in. */
SwaggerUIBundle({
  dom_id: "#api",
  url: "/openapi.json",
  deepLinking: true,
  displayRequestDuration: true,
  docExpansion: "none",
  filter: true,
  persistAuthorization: false,
  validatorUrl: null,
  requestInterceptor(request) {
    // The hub accepts a browser session only with this header, which pages of other sites cannot send.
    request.headers["Tocsin-Dashboard"] = "1";
    return request;
  },
});
