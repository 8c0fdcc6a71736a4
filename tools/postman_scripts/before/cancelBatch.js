// Plans another batch, which is never run.
const give = { Player: pm.variables.get("player"), Operation: "give", Quantity: 1 };
const Rows = [{ ...give, ItemId: pm.variables.get("itemId") }];
pm.sendRequest({
  url: `${pm.variables.get("baseUrl")}/api/v1/batches`,
  method: "POST",
  header: {
    Authorization: `Bearer ${pm.collectionVariables.get("accessToken")}`,
    "Content-Type": "application/json",
    "X-Reason": "Planned%20to%20be%20cancelled",
  },
  body: { mode: "raw", raw: JSON.stringify({ Name: "Cancelled", Rows }) },
}, (error, response) => {
  pm.collectionVariables.set("batchId", response.json().Id);
});
