// Shows openapi.json, and contacts only the daemon that served this page.
SwaggerUIBundle({
  url: "openapi.json",
  dom_id: "#api",
  deepLinking: true,
  validatorUrl: null,
});
