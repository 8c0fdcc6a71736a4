pm.test("answers, or says why not", () => {
  pm.expect(pm.response.code).to.be.oneOf([200, 202, 403, 404, 409, 503]);
  pm.expect(pm.response.headers.get("Content-Type")).to.eql("application/json; charset=utf-8");
});
if (pm.response.code === 200) pm.test("has the documented shape", () => {
  pm.response.to.have.jsonSchema(@schema@);
});
