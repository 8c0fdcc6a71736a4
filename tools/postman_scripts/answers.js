pm.test("answers 200 in JSON", () => {
  pm.response.to.have.status(200);
  pm.expect(pm.response.headers.get("Content-Type")).to.eql("application/json; charset=utf-8");
  pm.expect(pm.response.headers.get("X-Request-ID")).to.be.a("string");
});
pm.test("has the documented shape", () => {
  pm.response.to.have.jsonSchema(@schema@);
});
