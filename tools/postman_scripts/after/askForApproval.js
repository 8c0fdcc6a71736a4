pm.collectionVariables.set("approvalId", pm.response.json().Id);
