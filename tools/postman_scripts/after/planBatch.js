pm.collectionVariables.set("batchId", pm.response.json().Id);
