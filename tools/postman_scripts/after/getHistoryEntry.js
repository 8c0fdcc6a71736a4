pm.test("tells what has undone it", () => {
  pm.expect(pm.response.json().UndoneBy).to.be.a("string");
});
