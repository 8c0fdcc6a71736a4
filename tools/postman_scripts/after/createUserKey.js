pm.collectionVariables.set("keyId", pm.response.json().Id);
